// The small pictures on buttons, drawn in the colour of their text. A label always stands beside
// them, on screen or for screen readers.

import type { ReactElement } from 'react';

/** Lines of 14 by 14 units; filled where the name is in `FILLED`. */
const PATHS = {
  record: 'M7 3a4 4 0 1 0 0 8a4 4 0 1 0 0 -8Z',
  stop: 'M7 3a4 4 0 1 0 0 8a4 4 0 1 0 0 -8Z',
  pause: 'M4.5 3V11M9.5 3V11',
  continue: 'M3 2.5L8.5 7L3 11.5ZM11 2.5V11.5',
  step: 'M2 8.5A5 5 0 0 1 11.5 7M11.8 3.2V7.2H7.8M7 10.9V11.1',
  back: 'M9 2.5L4 7L9 11.5',
  on: 'M5 2.5L10 7L5 11.5',
  start: 'M3.5 2.5V11.5M11 2.5L5.5 7L11 11.5',
  target: 'M7 2a5 5 0 1 0 0 10a5 5 0 1 0 0 -10M7 5a2 2 0 1 0 0 4a2 2 0 1 0 0 -4',
  further: 'M2 3L6 7L2 11M7 3L11 7L7 11',
  breakpoint: 'M4.8 2H9.2L12 4.8V9.2L9.2 12H4.8L2 9.2V4.8Z',
  play: 'M4 2.5L11 7L4 11.5Z',
  playBack: 'M10 2.5L3 7L10 11.5Z',
  playing: 'M3.5 3.5H10.5V10.5H3.5Z',
  predict: 'M4.5 5A2.5 2.5 0 1 1 7 7.6V8.8M7 11V11.4',
  pace: 'M2.5 10.5A5 5 0 1 1 11.5 10.5M7 8.5L9.5 5',
  runs: 'M2 3.5H12M2 7H12M2 10.5H12',
  views: 'M4 2H10V12L7 9.2L4 12Z',
  export: 'M7 2V8.5M4.2 6L7 8.8L9.8 6M2.5 11.5H11.5',
  more: 'M3 7H3.1M7 7H7.1M11 7H11.1',
  down: 'M4 5.5L7 8.5L10 5.5',
  pin: 'M5 2H9L8.6 6L10.5 8.2H3.5L5.4 6ZM7 8.2V12',
  side: 'M2 3H12V11H2ZM8.5 3V11',
  now: 'M2.5 7H8.5M6 4.2L8.8 7L6 9.8M11.5 2.5V11.5'
} as const;

export type IconName = keyof typeof PATHS;

const FILLED: ReadonlySet<IconName> = new Set(['stop', 'play', 'playBack', 'playing', 'continue']);

export function Icon({ name }: { name: IconName }): ReactElement {
  return (
    <svg className="agv-icon" width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
      <path
        d={PATHS[name]}
        fill={FILLED.has(name) ? 'currentColor' : 'none'}
        stroke="currentColor"
        strokeWidth={name === 'more' ? 2 : 1.4}
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
