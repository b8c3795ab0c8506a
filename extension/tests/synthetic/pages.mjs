// Pages to look at: `node tests/synthetic/pages.mjs FOLDER` writes one HTML file per synthetic
// recording, each with the renderer inside, openable from the file system. `?dark` shows the dark
// theme.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const root = dirname(dirname(here));
const folder = process.argv[2] ?? join(root, 'dist', 'pages');

execFileSync(process.execPath, [join(root, 'scripts', 'build.mjs'), 'workers'], {
  stdio: 'inherit'
});

async function bundle(entry, options) {
  const built = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2022',
    charset: 'utf8',
    define: { 'process.env.NODE_ENV': '"production"' },
    ...options
  });
  return built.outputFiles[0].text;
}

const renderer = await bundle(join(root, 'src', 'entries', 'inspector.ts'), { minify: true });
const recordingsModule = await bundle(join(here, 'recordings.ts'), { platform: 'node' });
const recordings = await import(
  `data:text/javascript;base64,${Buffer.from(recordingsModule).toString('base64')}`
);

const made = {
  residual: recordings.residual(),
  finished: recordings.residual({ paused: false, problem: false }),
  rnn: recordings.rnn(200),
  rnn_half: recordings.rnn(200, { until: 700 }),
  dag1k: recordings.dag(1000, 2, { until: 400 }),
  dag10k: recordings.dag(10_000, 1, { until: 4000 }),
  chain100k: recordings.chain(100_000),
  hostile: recordings.hostile()
};

mkdirSync(folder, { recursive: true });
const module64 = Buffer.from(renderer).toString('base64');
const page = (title, script, body = '') => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${title}</title>
<style>html, body, #ag-visual { height: 100%; margin: 0 }</style></head>
<body><div id="ag-visual"></div>${body}
<script type="module">
window.began = performance.now();
const { mount } = await import('data:text/javascript;charset=utf-8;base64,${module64}');
window.loaded = performance.now();
const theme = location.search.includes('dark') ? 'dark' : 'light';
${script}
</script></body></html>
`;
for (const [name, recording] of Object.entries(made)) {
  const text = JSON.stringify(recording).replaceAll('<', '\\u003c');
  writeFileSync(
    join(folder, `${name}.html`),
    page(
      name,
      `const text = document.getElementById('ag-visual-recording').textContent;
const element = document.getElementById('ag-visual');
window.handle = mount(element, { recording: text, theme, host: 'standalone' });`,
      `<script type="application/json" id="ag-visual-recording">${text}</script>`
    )
  );
}
const kernel64 = Buffer.from(await bundle(join(here, 'fake_kernel.ts'), {})).toString('base64');
writeFileSync(
  join(folder, 'live.html'),
  page(
    'live',
    `const { FakeKernel } = await import('data:text/javascript;charset=utf-8;base64,${kernel64}');
window.kernel = new FakeKernel();
const element = document.getElementById('ag-visual');
window.handle = mount(element, { transport: window.kernel, theme, host: 'standalone' });`
  )
);
console.log(`${Object.keys(made).length + 1} pages in ${folder}`);
