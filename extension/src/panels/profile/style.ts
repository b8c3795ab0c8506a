// Looks of the Time mode; part of the Inspector's one style sheet.

import { HUE_VARIABLES } from '../../draw/profile/colours';

/** What the kinds of slices take from the panel's palette, in the order of Hue. */
const STRONG = ['accent', 'done', 'run', 'param', 'ink3', 'save', 'ink3', 'ink3', 'accent'];

const COLOURS = HUE_VARIABLES.map(
  (name, i) =>
    `${name}: var(--agv-${STRONG[i]}); ` +
    `${name}-fill: color-mix(in srgb, var(--agv-${STRONG[i]}) ` +
    `${STRONG[i] === 'ink3' ? 24 : 36}%, var(--agv-bg));`
).join('\n  ');

export const TIME_CSS = `
.agv-root {
  ${COLOURS}
  --agv-time-band: color-mix(in srgb, var(--agv-bg) 96%, var(--agv-ink)); }
.agv-root .agv-timing { grid-area: mid; display: flex; flex-direction: column; min-width: 0;
  min-height: 0; background: var(--agv-bg); }
.agv-root .agv-timing-head { display: flex; flex-wrap: wrap; align-items: center; gap: 6px 10px;
  padding: 6px 14px; border-bottom: 1px solid var(--agv-line); color: var(--agv-ink2); }
.agv-root .agv-timing-head > .agv-elide { flex: 1 1 auto; max-width: 100%; }
.agv-root .agv-timing-head .agv-views { position: static; flex: none; }
.agv-root .agv-timing-notices { padding: 5px 14px; background: var(--agv-run-bg);
  color: color-mix(in srgb, var(--agv-run) 60%, var(--agv-ink)); font-size: 12px;
  border-bottom: 1px solid var(--agv-line); max-height: 92px; overflow: auto; flex: none; }
.agv-root .agv-timing-area { position: relative; flex: 1 1 60%; min-height: 120px; min-width: 0;
  overflow: hidden; background: var(--agv-pane); }
.agv-root .agv-timing-area:focus-visible { outline-offset: -2px; }
.agv-root .agv-timing-area > canvas { position: absolute; inset: 0; display: block;
  touch-action: none; }
.agv-root .agv-timing-legend { display: flex; flex-wrap: wrap; gap: 2px 14px; padding: 3px 14px;
  font-size: 11.5px; color: var(--agv-ink2); border-top: 1px solid var(--agv-line); flex: none; }
.agv-root .agv-timing-legend span { display: inline-flex; align-items: center; gap: 5px; }
.agv-root .agv-timing-legend i { width: 13px; height: 11px; border-left: 2px solid; }
.agv-root .agv-timing-legend i[data-hue="backward"] { border-bottom: 2px solid; }
.agv-root .agv-timing-below { flex: 1 1 40%; min-height: 0; overflow: auto;
  border-top: 1px solid var(--agv-line); padding: 8px 14px 12px; }
.agv-root .agv-timing-below:focus-visible { outline-offset: -2px; }
.agv-root .agv-timing-below h2 { margin: 0 0 6px; font-size: 13px; font-weight: 650;
  overflow-wrap: anywhere; }
.agv-root .agv-timing-below h2 .agv-quiet { font-weight: 400; margin-right: 10px; }
.agv-root .agv-timing-below h2 .agv-link + .agv-link { margin-left: 10px; }
.agv-root .agv-timing-beside { padding-bottom: 10px; }
.agv-root .agv-timing-chosen { padding-bottom: 8px; margin-bottom: 8px;
  border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-timing-chosen dl { display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 0; }
.agv-root .agv-timing-chosen dl > div { min-width: 0; max-width: 100%; }
.agv-root .agv-timing-chosen dt, .agv-root .agv-timing-chosen dd { float: none; width: auto;
  margin: 0; }
.agv-root .agv-timing-chosen dt { font-size: 11.5px; font-weight: 400; color: var(--agv-ink3); }
.agv-root .agv-timing-chosen dd { overflow-wrap: anywhere; }
.agv-root .agv-timing-advice { margin: 0 0 8px; padding: 6px 10px 6px 26px; border-radius: 7px;
  background: var(--agv-run-bg); overflow-wrap: anywhere;
  color: color-mix(in srgb, var(--agv-run) 60%, var(--agv-ink)); }
.agv-root .agv-timing-peak, .agv-root .agv-timing-shares { margin: 0 0 6px; font-size: 12px;
  overflow-wrap: anywhere; }
.agv-root .agv-timing-memory { padding-bottom: 8px; margin-bottom: 8px;
  border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-timing-table { overflow-x: auto; }
.agv-root .agv-timing-table .agv-timing-text { text-align: left; max-width: 260px;
  overflow: hidden; text-overflow: ellipsis; }
.agv-root .agv-timing-memory th:nth-child(2), .agv-root .agv-timing-memory th:nth-child(3) {
  text-align: left; }
.agv-root .agv-timing-two { display: grid; gap: 10px 20px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 420px), 1fr)); }
.agv-root .agv-timing-two > * { min-width: 0; }
.agv-root .agv-timing-table table { border-collapse: collapse; width: 100%; font-size: 12px; }
.agv-root .agv-timing-table th, .agv-root .agv-timing-table td { text-align: right;
  padding: 2px 6px; border-bottom: 1px solid var(--agv-line); font-weight: 400;
  white-space: nowrap; max-width: none; }
.agv-root .agv-timing-table th:first-child { text-align: left; padding-left: 0;
  width: 100%; min-width: 120px; max-width: 0; overflow: hidden; text-overflow: ellipsis; }
.agv-root .agv-timing-table th .agv-link { max-width: 100%; overflow: hidden;
  text-overflow: ellipsis; vertical-align: bottom; }
.agv-root .agv-timing-table thead button { border: 0; background: none; padding: 0;
  font-weight: 600; color: var(--agv-ink2); }
.agv-root .agv-timing-table i { display: inline-block; width: 8px; height: 8px; margin-right: 6px;
  border-radius: 2px; }
.agv-root .agv-timing-table small { color: var(--agv-ink3); display: inline-block; width: 38px; }
.agv-root .agv-timing-flame-head { display: flex; gap: 10px; font-size: 12px; min-height: 22px;
  color: var(--agv-ink2); }
.agv-root .agv-timing-flame canvas { display: block; cursor: pointer; }
.agv-root .agv-timing-tip { position: absolute; z-index: 3; pointer-events: none; max-width: 420px;
  padding: 5px 9px; border: 1px solid var(--agv-line2); border-radius: 7px; font-size: 12px;
  background: var(--agv-bg); box-shadow: var(--agv-shadow); overflow-wrap: anywhere; }
.agv-root .agv-timing-empty { flex: 1; display: flex; flex-direction: column; align-items: center;
  justify-content: center; gap: 12px; padding: 24px; text-align: center; color: var(--agv-ink2);
  background: var(--agv-pane); }
.agv-root .agv-timing-empty h2 { font-size: 15px; font-weight: 650; margin: 0;
  color: var(--agv-ink); overflow-wrap: anywhere; }
.agv-root .agv-timing-empty p { margin: 0; max-width: 36em; overflow-wrap: anywhere; }
`;
