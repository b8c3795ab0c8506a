// Looks of a comparison; part of the Inspector's one style sheet.

export const COMPARE_CSS = `
.agv-root .agv-compare { grid-area: mid; display: grid; min-height: 0; min-width: 0;
  grid-template: "head head head" auto "a b side" minmax(0, 1fr)
    / minmax(0, 1fr) minmax(0, 1fr) 360px; }
.agv-root .agv-compare-head { grid-area: head; display: flex; flex-wrap: wrap; gap: 6px 12px;
  align-items: center; padding: 6px 14px; border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-compare-head p { flex: 1 1 260px; margin: 0; font-weight: 600;
  overflow-wrap: anywhere; }
.agv-root .agv-compare-head .agv-btn[aria-pressed="true"] {
  color: color-mix(in srgb, var(--agv-done) 70%, var(--agv-ink)); }
.agv-root .agv-compare-legend { display: flex; flex-wrap: wrap; gap: 4px 8px; font-size: 12px; }
.agv-root .agv-compared { display: grid; grid-template-rows: auto minmax(0, 1fr); min-width: 0;
  min-height: 0; }
.agv-root .agv-compared + .agv-compared { border-left: 1px solid var(--agv-line2); }
.agv-root .agv-compared > h3 { margin: 0; padding: 4px 14px; font-size: 12px; font-weight: 600;
  color: var(--agv-ink2); border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-kind { display: inline-flex; flex: none; align-items: baseline; gap: 5px;
  border-radius: 9px; padding: 0 8px; font-size: 11.5px; line-height: 18px;
  background: var(--agv-group); color: var(--agv-ink2); }
.agv-root .agv-kind[data-kind="added"] { background: var(--agv-done-bg);
  color: color-mix(in srgb, var(--agv-done) 70%, var(--agv-ink)); }
.agv-root .agv-kind[data-kind="removed"] { background: var(--agv-bad-bg);
  color: color-mix(in srgb, var(--agv-bad) 70%, var(--agv-ink)); }
.agv-root .agv-kind[data-kind="changed"] { background: var(--agv-run-bg);
  color: color-mix(in srgb, var(--agv-run) 70%, var(--agv-ink)); }
.agv-root .agv-compare-side { grid-template-rows: auto minmax(0, 1fr); }
.agv-root .agv-compare-pair { padding: 10px 14px 12px; max-height: 46vh; overflow: auto;
  border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-compare-pair > p { margin: 0; }
.agv-root .agv-compare-pair > .agv-line { margin-top: 6px; }
.agv-root .agv-compare-pair h3 { margin: 0 0 4px; font-size: 15px; overflow-wrap: anywhere; }
.agv-root .agv-compare-pair th { width: 62px; }
.agv-root .agv-compare-pair td, .agv-root .agv-compare-pair th { white-space: normal;
  overflow-wrap: anywhere; max-width: 150px; }
.agv-root .agv-compare-pair tr[data-differs="yes"] td { font-weight: 600; }
.agv-root .agv-compare-pair tr[data-differs="yes"] th { color: var(--agv-run); font-weight: 600; }
.agv-root .agv-deltas { margin-top: 8px; }
.agv-root .agv-deltas caption { text-align: left; color: var(--agv-ink3); font-size: 11px;
  font-weight: 650; }
.agv-root .agv-compare-list { overflow: auto; min-height: 0; padding: 0 8px 14px; }
.agv-root .agv-compare-list:focus-visible, .agv-root .agv-compare-pair:focus-visible {
  outline-offset: -2px; }
.agv-root .agv-compare-list h3 { padding: 0 6px; }
.agv-root .agv-compare-list ol { list-style: none; margin: 0; padding: 0; }
.agv-root .agv-difference { display: flex; width: 100%; gap: 8px; align-items: baseline; border: 0;
  background: none; border-radius: 6px; padding: 5px 6px; text-align: left; }
.agv-root .agv-difference:hover { background: var(--agv-group); }
.agv-root .agv-difference[aria-current="true"] { background: var(--agv-group);
  box-shadow: inset 3px 0 0 var(--agv-accent); }
.agv-root .agv-difference > span:last-child { min-width: 0; overflow-wrap: anywhere; }
.agv-root .agv-difference b { font-weight: 600; }
.agv-root .agv-difference .agv-quiet { color: var(--agv-ink2); }
.agv-root .agv-difference small { display: block; color: var(--agv-ink2); font-size: 12px; }
.agv-root[data-agv-size="middle"] .agv-compare { grid-template-columns: minmax(0, 1fr)
  minmax(0, 1fr) 290px; }
.agv-root[data-agv-size="narrow"] .agv-compare {
  grid-template: "head head" auto "a b" minmax(0, 1fr) "side side" minmax(150px, 42%)
    / minmax(0, 1fr) minmax(0, 1fr); }
.agv-root[data-agv-size="narrow"] .agv-compare-side { grid-area: side; border-left: 0;
  border-top: 1px solid var(--agv-line); grid-template: minmax(0, 1fr) / minmax(0, 1fr)
  minmax(0, 1fr); }
.agv-root[data-agv-size="narrow"] .agv-compare-pair { max-height: none; border-bottom: 0;
  border-right: 1px solid var(--agv-line); }
.agv-root .agv-time .agv-sheet { top: auto; bottom: calc(100% + 6px); max-height: 40vh; }
.agv-root .agv-drop { position: absolute; inset: 8px; z-index: 7; display: flex;
  align-items: center; justify-content: center; pointer-events: none; font-weight: 600;
  border: 2px dashed var(--agv-accent); border-radius: 10px; color: var(--agv-ink);
  background: color-mix(in srgb, var(--agv-bg) 85%, transparent); }
.agv-root .agv-compare-tabbed { display: grid; grid-area: a; min-width: 0; min-height: 0;
  grid-template: auto minmax(0, 1fr) / minmax(0, 1fr); }
.agv-root .agv-compare-tabbed .agv-compared > h3 { display: none; }
.agv-root .agv-compare-tabbed .agv-compared { grid-template-rows: minmax(0, 1fr); }
.agv-root .agv-compare-tabs { display: flex; gap: 2px; padding: 0 8px;
  border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-compare-tabs button { flex: 0 1 auto; border: 0; background: none; padding: 0 8px;
  min-height: 28px; font-size: 12px; color: var(--agv-ink2);
  border-bottom: 2px solid transparent; border-top: 2px solid transparent; }
.agv-root .agv-compare-tabs button[aria-selected="true"] { color: var(--agv-ink); font-weight: 600;
  border-bottom-color: var(--agv-accent); }
.agv-root .agv-compare-tabs button:focus-visible { outline-offset: -2px; }
.agv-root[data-agv-compact="yes"] .agv-compare {
  grid-template: "head head head" auto "side a b" minmax(0, 1fr)
    / minmax(200px, 300px) minmax(0, 1fr) minmax(0, 1fr); }
.agv-root[data-agv-compact="yes"] .agv-compare > [data-side="a"] { grid-area: a; }
.agv-root[data-agv-compact="yes"] .agv-compare > [data-side="b"] { grid-area: b; }
.agv-root[data-agv-compact="yes"] .agv-compare > .agv-compare-side { grid-area: side;
  grid-template: auto minmax(0, 1fr) / minmax(0, 1fr); border-left: 0; border-top: 0;
  border-right: 1px solid var(--agv-line); }
.agv-root[data-agv-compact="yes"] .agv-compare-pair { max-height: 150px; border-right: 0;
  border-bottom: 1px solid var(--agv-line); }
.agv-root[data-agv-compact="yes"] .agv-compare[data-agv-tabs="yes"] {
  grid-template: "head head" auto "side a" minmax(0, 1fr)
    / minmax(150px, 45%) minmax(0, 1fr); }
.agv-root[data-agv-compact="yes"] .agv-compare-pair[data-empty="yes"] { display: none; }
.agv-root[data-agv-compact="yes"] .agv-compare-list { grid-row: 2; padding-top: 4px; }
.agv-root[data-agv-compact="yes"] [data-agv-tabs="yes"] .agv-compare-legend { display: none; }
.agv-root[data-agv-compact="yes"] .agv-compare-head { gap: 4px 8px; padding: 4px 10px; }
`;
