// Colours and fonts of the canvas, read from the same CSS variables that the panels use.

export interface Palette {
  bg: string;
  pane: string;
  group: string;
  line: string;
  line2: string;
  ink: string;
  ink2: string;
  ink3: string;
  accent: string;
  done: string;
  doneBg: string;
  run: string;
  runBg: string;
  bad: string;
  badBg: string;
  save: string;
  saveBg: string;
  param: string;
  paramBg: string;
  font: string;
  mono: string;
}

const VARIABLES: Record<Exclude<keyof Palette, 'font' | 'mono'>, string> = {
  bg: '--agv-bg',
  pane: '--agv-pane',
  group: '--agv-group',
  line: '--agv-line',
  line2: '--agv-line2',
  ink: '--agv-ink',
  ink2: '--agv-ink2',
  ink3: '--agv-ink3',
  accent: '--agv-accent',
  done: '--agv-done',
  doneBg: '--agv-done-bg',
  run: '--agv-run',
  runBg: '--agv-run-bg',
  bad: '--agv-bad',
  badBg: '--agv-bad-bg',
  save: '--agv-save',
  saveBg: '--agv-save-bg',
  param: '--agv-param',
  paramBg: '--agv-param-bg'
};

/** The palette that holds inside this element. */
export function readPalette(element: HTMLElement): Palette {
  // A canvas cannot resolve var() or mixed colours: a probe's computed colour can always be drawn.
  // All probes come before the first is read, so that styles are resolved once and not for each.
  const { ownerDocument } = element;
  const probes = ownerDocument.createElement('span');
  probes.style.display = 'none';
  const colours = Object.entries(VARIABLES).map(([name, variable]) => {
    const probe = probes.appendChild(ownerDocument.createElement('span'));
    probe.style.color = `var(${variable})`;
    return [name, probe] as const;
  });
  probes.style.fontFamily = 'var(--agv-mono)';
  element.appendChild(probes);
  const palette: Record<string, string> = {};
  for (const [name, probe] of colours) palette[name] = getComputedStyle(probe).color;
  const mono = getComputedStyle(probes).fontFamily || 'monospace';
  probes.remove();
  return {
    ...palette,
    font: getComputedStyle(element).fontFamily || 'sans-serif',
    mono
  } as Palette;
}
