// Looks of the panel's furniture: header, the one row of buttons, what an output leaves out.

export const FURNITURE_CSS = `
.agv-root .agv-top { grid-area: bar; display: flex; flex-direction: column; min-width: 0;
  border-bottom: 1px solid var(--agv-line); }
.agv-root .agv-header { display: flex; align-items: center; gap: 8px; min-width: 0;
  min-height: 32px; padding: 4px 8px 0 14px; }
.agv-root .agv-title { flex: 0 1 auto; font-weight: 650; margin: 0; font-size: 13px;
  line-height: 20px; }
.agv-root .agv-title-more { flex: 0 1 auto; color: var(--agv-ink2); font-size: 12px; }
.agv-root .agv-header .agv-pill { flex: 0 1 auto; font-size: 12px; padding: 1px 10px; }
.agv-root .agv-header-end { display: flex; flex: none; gap: 2px; margin-left: auto; }
.agv-root .agv-quiet-btn { display: inline-flex; align-items: center; justify-content: center;
  width: 26px; height: 24px; border: 1px solid transparent; border-radius: 6px; padding: 0;
  background: none; color: var(--agv-ink2); font-weight: 600; }
.agv-root .agv-quiet-btn:hover { background: var(--agv-group); color: var(--agv-ink); }
.agv-root .agv-quiet-btn[aria-pressed="true"] { color: var(--agv-accent);
  border-color: var(--agv-accent); }
.agv-root .agv-quiet-btn[aria-pressed="true"] .agv-icon path { fill: currentColor; }
.agv-root .agv-bar { min-width: 0; padding: 5px 14px 6px; }
.agv-root .agv-tools { position: relative; display: flex; align-items: center; gap: 6px;
  min-width: 0; height: 26px; }
.agv-root .agv-tools > * { flex: none; white-space: nowrap; }
.agv-root .agv-tools > [data-over="yes"] { position: absolute; left: 0; top: 0;
  visibility: hidden; }
.agv-root .agv-tools > [data-agv-item]:empty,
  .agv-root .agv-tools > [data-agv-item]:has(> [hidden]:only-child) { display: none; }
.agv-root .agv-tools > [data-agv-item="views"] { order: 2; }
.agv-root .agv-tools > [data-agv-item="export"] { order: 3; }
.agv-root .agv-tools > .agv-search { order: 1; flex: 0 1 190px; margin-left: auto; }
.agv-root .agv-tools > .agv-menu { order: 4; margin-left: 0; }
.agv-root .agv-tools:not(:has(> .agv-search)) > [data-agv-item="views"] { margin-left: auto; }
.agv-root .agv-tools:not(:has(> .agv-search)) > .agv-menu { margin-left: auto; }
.agv-root .agv-icon { flex: none; display: block; }
.agv-root .agv-btn[data-kind="recording"] { color: var(--agv-bad); }
.agv-root .agv-btn[data-label="never"] .agv-label,
  .agv-root[data-agv-labels="few"] .agv-tools .agv-btn:not([data-label="always"]) .agv-label,
  .agv-root[data-agv-labels="none"] .agv-tools .agv-btn .agv-label {
  position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
.agv-root .agv-tools .agv-btn { position: relative; min-height: 24px; justify-content: center; }
.agv-root[data-agv-labels="few"] .agv-tools .agv-btn:not([data-label="always"]),
  .agv-root[data-agv-labels="none"] .agv-tools .agv-btn { padding: 2px 6px; }
.agv-root[data-agv-labels="few"] .agv-btn kbd, .agv-root[data-agv-labels="none"] .agv-btn kbd {
  display: none; }
.agv-root .agv-btn[data-label="never"] { padding: 2px 3px; }
.agv-root [data-agv-item="watch"] { margin-left: -5px; }
.agv-root .agv-badge { display: none; font-size: 11px; font-weight: 600; color: var(--agv-ink2); }
.agv-root[data-agv-labels="few"] .agv-badge, .agv-root[data-agv-labels="none"] .agv-badge {
  display: inline; }

.agv-root .agv-folded .agv-btn { display: flex; width: 100%; justify-content: flex-start; gap: 9px;
  border: 0; background: none; border-radius: 5px; padding: 5px 8px; font-size: 13px;
  line-height: 20px; color: var(--agv-ink); }
.agv-root .agv-tools .agv-folded .agv-btn .agv-label { position: static !important; width: auto;
  height: auto; clip-path: none; overflow: visible; }
.agv-root .agv-tools .agv-folded .agv-btn { padding: 5px 8px; }
.agv-root .agv-folded .agv-btn[data-primary="yes"]:not(:disabled) { background: none;
  color: var(--agv-accent); }
.agv-root .agv-folded .agv-btn:disabled { color: var(--agv-ink3); }
.agv-root .agv-folded .agv-btn[aria-pressed="true"] { color: var(--agv-done); font-weight: 600; }
.agv-root .agv-folded .agv-badge { display: none; }
.agv-root .agv-inside > .agv-btn::after { content: "▸"; margin-left: auto;
  color: var(--agv-ink3); }
.agv-root .agv-inside > .agv-btn[aria-expanded="true"]::after { content: "▾"; }
.agv-root .agv-inside-sheet { margin: 0 0 4px 12px; padding-left: 8px;
  border-left: 1px solid var(--agv-line2); }
.agv-root .agv-inside-sheet > button { display: block; width: 100%; text-align: left; border: 0;
  background: none; border-radius: 5px; padding: 5px 8px; white-space: normal; }
.agv-root .agv-inside-sheet > button:hover:not(:disabled) { background: var(--agv-group); }
.agv-root .agv-inside-sheet > button:disabled { color: var(--agv-ink3); }
.agv-root .agv-sheet label { cursor: pointer; }
.agv-root .agv-sheet input[type="checkbox"] { margin: 0 5px 0 0; vertical-align: -2px; }

.agv-root[data-agv-row="one"] .agv-top { flex-direction: row; align-items: center; }
.agv-root[data-agv-row="one"] .agv-header { flex: 0 1 auto; max-width: 44%;
  padding: 4px 0 4px 14px; }
.agv-root[data-agv-row="one"] .agv-bar { flex: 1 1 0; padding: 6px 10px; }
.agv-root[data-agv-row="one"] .agv-header-end { margin-left: 0; }

.agv-root[data-agv-compact="yes"] .agv-mid { grid-template: minmax(0, 1fr) / minmax(0, 1fr); }
.agv-root[data-agv-compact="yes"] .agv-header { max-width: 62%; min-width: 96px; }
.agv-root[data-agv-compact="yes"] .agv-search { flex-basis: 130px; }
.agv-root[data-agv-compact="yes"][data-agv-side="open"] .agv-mid {
  grid-template-columns: minmax(0, 1fr) minmax(0, min(360px, 55%)); }
.agv-root[data-agv-compact="yes"][data-agv-side="open"] .agv-side {
  border-left: 1px solid var(--agv-line); border-top: 0; }
.agv-root[data-agv-compact="yes"] .agv-tabs { padding: 0 4px 0 8px; }
.agv-root[data-agv-compact="yes"] .agv-tabs button { padding: 0 2px; }
.agv-root[data-agv-compact="yes"] .agv-scroll { padding: 10px 14px 14px; }

.agv-root .agv-example { display: flex; flex-direction: column; align-items: flex-end; gap: 6px;
  max-width: 100%; }
.agv-root[data-agv-graph="no"][data-agv-side="open"] .agv-example { display: none; }
@container (max-height: 200px) { .agv-root .agv-mini { display: none; } }
`;
