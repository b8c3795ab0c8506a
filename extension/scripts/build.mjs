// Builds the front end: `node scripts/build.mjs [all|workers|inspector|lab|clean]`.
//
// workers    each src/**/worker.ts becomes worker_source.ts beside it (a string), so that one file
//            starts the worker from a blob in every host: JupyterLab, a cell's output, a saved page.
// inspector  src/entries/inspector.ts -> ../ag_visual/display/static/inspector.js, an ES module
//            with its own React.
// lab        tsc -> lib/, then the federated JupyterLab extension -> dist/labextension.

import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync
} from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, 'src');
const bundle = join(root, '..', 'ag_visual', 'display', 'static', 'inspector.js');

function sources(folder = source) {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry =>
    entry.isDirectory() ? sources(join(folder, entry.name)) : [join(folder, entry.name)]
  );
}

function run(script, ...args) {
  const done = spawnSync(process.execPath, [join(root, 'node_modules', script), ...args], {
    cwd: root,
    stdio: 'inherit'
  });
  if (done.status !== 0) {
    process.exit(done.status ?? 1);
  }
}

async function workers() {
  for (const file of sources().filter(name => /[\\/]worker\.ts$/.test(name))) {
    const built = await build({
      entryPoints: [file],
      bundle: true,
      write: false,
      format: 'iife',
      minify: true,
      target: 'es2022'
    });
    const text =
      '// Generated from worker.ts by scripts/build.mjs; not kept in git.\n' +
      `export default ${JSON.stringify(built.outputFiles[0].text)};\n`;
    const target = file.replace(/\.ts$/, '_source.ts');
    if (!existsSync(target) || readFileSync(target, 'utf8') !== text) {
      writeFileSync(target, text);
    }
  }
}

async function inspector() {
  mkdirSync(dirname(bundle), { recursive: true });
  await build({
    entryPoints: [join(source, 'entries', 'inspector.ts')],
    outfile: bundle,
    bundle: true,
    format: 'esm',
    minify: true,
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'inline',
    loader: { '.css': 'text' },
    define: { 'process.env.NODE_ENV': '"production"' }
  });
  // A page that carries a recording has this file inside a <script>: a closing tag would end it.
  const text = readFileSync(bundle, 'utf8').replaceAll('</script', '<\\/script');
  writeFileSync(bundle, text);
  console.log(`${relative(join(root, '..'), bundle)} ${(text.length / 1024).toFixed(0)} kB`);
}

function lab() {
  rmSync(join(root, 'lib'), { recursive: true, force: true });
  run('typescript/bin/tsc', '-p', 'tsconfig.json');
  for (const file of sources().filter(name => name.endsWith('.css'))) {
    cpSync(file, join(root, 'lib', relative(source, file)));
  }
  rmSync(join(root, 'dist', 'labextension'), { recursive: true, force: true });
  run(
    '@jupyter/builder/lib/build-labextension.js',
    '--core-package-file',
    join(root, 'node_modules', '@jupyterlab', 'core-meta', 'core.package.json'),
    root
  );
}

function clean() {
  for (const path of ['lib', 'dist']) {
    rmSync(join(root, path), { recursive: true, force: true });
  }
  rmSync(bundle, { force: true });
  for (const file of sources().filter(name => name.endsWith('worker_source.ts'))) {
    rmSync(file);
  }
}

const what = process.argv[2] ?? 'all';
if (what === 'clean') {
  clean();
} else {
  await workers();
  if (what === 'all' || what === 'inspector') {
    await inspector();
  }
  if (what === 'all' || what === 'lab') {
    lab();
  }
}
