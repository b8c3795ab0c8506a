// Colours and fonts of the canvas, read from the same CSS variables that the panels use.

import type { Ramp } from './ramp';
import { RAMP_VARIABLES, rampOf } from './ramp';

export interface Colours {
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

export interface Palette extends Colours {
  /** by which boxes are coloured when it is not by their state */
  ramp: Ramp;
}

const VARIABLES: Record<Exclude<keyof Colours, 'font' | 'mono'>, string> = {
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

/** What CSS variables are as colours inside this element. */
export function readColours(element: HTMLElement, variables: readonly string[]): string[] {
  // A canvas cannot resolve var() or mixed colours: a probe's computed colour can always be drawn.
  // All probes come before the first is read, so that styles are resolved once and not for each.
  const { ownerDocument } = element;
  const probes = ownerDocument.createElement('span');
  probes.style.display = 'none';
  const all = variables.map(variable => {
    const probe = probes.appendChild(ownerDocument.createElement('span'));
    probe.style.color = `var(${variable})`;
    return probe;
  });
  element.appendChild(probes);
  const colours = all.map(probe => getComputedStyle(probe).color);
  probes.remove();
  return colours;
}

/** The palette that holds inside this element. */
export function readPalette(element: HTMLElement): Palette {
  const names = Object.keys(VARIABLES);
  const colours = readColours(element, [...Object.values(VARIABLES), ...RAMP_VARIABLES]);
  const probe = element.appendChild(element.ownerDocument.createElement('span'));
  probe.style.display = 'none';
  probe.style.fontFamily = 'var(--agv-mono)';
  const mono = getComputedStyle(probe).fontFamily || 'monospace';
  probe.remove();
  return {
    ...Object.fromEntries(names.map((name, i) => [name, colours[i]])),
    ramp: rampOf(colours.slice(names.length)),
    font: getComputedStyle(element).fontFamily || 'sans-serif',
    mono
  } as Palette;
}
