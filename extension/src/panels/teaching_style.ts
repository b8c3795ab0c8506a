// Looks of class mode: playing, predicting, lessons, the drawing of every number.

export const TEACHING_CSS = `
.agv-root [hidden] { display: none !important; }
.agv-root .agv-lesson { grid-area: lesson; display: flex; align-items: baseline; gap: 12px;
  justify-content: space-between; padding: 7px 14px; background: var(--agv-save-bg);
  border-bottom: 1px solid var(--agv-line); max-height: 30vh; overflow: auto; }
.agv-root .agv-lesson-text { white-space: pre-line; overflow-wrap: anywhere; }
.agv-root .agv-score { flex: none; font-weight: 600; color: var(--agv-save); white-space: nowrap; }
.agv-root .agv-predict { border: 1px solid var(--agv-line2); border-left: 4px solid var(--agv-save);
  border-radius: 8px; padding: 9px 12px 11px; margin: 0 0 14px; }
.agv-root .agv-predict .agv-row { margin-top: 10px; }
.agv-root .agv-predict-head { display: flex; justify-content: space-between; gap: 8px; }
.agv-root .agv-predict-head b { color: var(--agv-save); font-weight: 650; }
.agv-root .agv-ask { display: grid; gap: 5px; margin-top: 8px; justify-items: start; }
.agv-root .agv-ask-row { display: flex; flex-wrap: wrap; align-items: center; gap: 6px; }
.agv-root .agv-ask input, .agv-root .agv-ask select { background: var(--agv-bg);
  border: 1px solid var(--agv-line2); border-radius: 5px; color: var(--agv-ink); font: inherit;
  font-size: 12px; padding: 3px 6px; max-width: 100%; }
.agv-root .agv-ask input[aria-invalid="true"] { border-color: var(--agv-bad); border-style: dashed;
  }
.agv-root .agv-mark { margin: 0; }
.agv-root .agv-mark[data-right="yes"] b { color: var(--agv-done); }
.agv-root .agv-mark[data-right="no"] b { color: var(--agv-bad); }
.agv-root .agv-views { position: absolute; left: 14px; top: 12px; z-index: 2; display: flex;
  border: 1px solid var(--agv-line2); border-radius: 7px; overflow: hidden;
  background: var(--agv-bg); }
.agv-root .agv-views button { border: 0; background: none; padding: 2px 10px; font-size: 12px;
  line-height: 18px; color: var(--agv-ink2); }
.agv-root .agv-views button + button { border-left: 1px solid var(--agv-line2); }
.agv-root .agv-views button[aria-pressed="true"] { background: var(--agv-group);
  color: var(--agv-ink); font-weight: 600; }
.agv-root .agv-views button:focus-visible { outline-offset: -2px; }
.agv-root .agv-scalars { position: relative; display: grid; min-width: 0; min-height: 0;
  grid-template-rows: minmax(0, 1fr) auto; background: var(--agv-pane); }
.agv-root .agv-scalars-scroll { overflow: auto; padding: 46px 14px 14px; display: flex; }
.agv-root .agv-scalars svg { display: block; margin: auto; flex: none; }
.agv-root .agv-scalars:hover .agv-zoom, .agv-root .agv-scalars:focus-within .agv-zoom {
  opacity: 1; }
.agv-root .agv-zoom button[aria-pressed="true"] { background: var(--agv-group); }
.agv-root .agv-scalars text { font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  fill: var(--agv-ink); font-size: 13.5px; }
.agv-root .agv-scalars .agv-caption { font-size: 13px; font-weight: 650; }
.agv-root .agv-scalars .agv-caption-more { font-size: 12.5px; fill: var(--agv-ink3);
  font-family: var(--agv-mono); }
.agv-root .agv-scalars .agv-grad { font-weight: 600; fill: var(--agv-done); }
.agv-root .agv-scalars .agv-grad[data-kind="none"] { fill: var(--agv-ink3); font-weight: 400; }
.agv-root .agv-scalars .agv-slope { font-size: 12.5px; fill: var(--agv-ink2);
  font-family: var(--agv-mono); }
.agv-root .agv-scalars .agv-slope[data-near="yes"] { fill: var(--agv-ink); font-weight: 700; }
.agv-root .agv-scalars rect.agv-num { fill: var(--agv-bg); stroke: var(--agv-line2);
  stroke-width: 1.3; cursor: pointer; }
.agv-root .agv-scalars g[data-leaf="yes"] rect.agv-num { fill: var(--agv-param-bg);
  stroke: var(--agv-param); }
.agv-root .agv-scalars g[data-state="next"] rect.agv-num { fill: var(--agv-run-bg);
  stroke: var(--agv-run); stroke-width: 2.4; }
.agv-root .agv-scalars g[data-state="done"]:not([data-leaf="yes"]) rect.agv-num {
  stroke: var(--agv-done); }
.agv-root .agv-scalars g[data-chosen="yes"] rect.agv-num { stroke: var(--agv-accent);
  stroke-width: 3; }
.agv-root .agv-scalars g[role="button"]:focus-visible { outline: none; }
.agv-root .agv-scalars g[role="button"]:focus-visible rect.agv-num { stroke: var(--agv-accent);
  stroke-width: 3; stroke-dasharray: 5 2; }
.agv-root .agv-scalars path { fill: none; stroke: var(--agv-line2); stroke-width: 1.3; }
.agv-root .agv-scalars path[data-flowed="yes"] { stroke: var(--agv-done); }
.agv-root .agv-scalars path[data-zero="yes"] { stroke-dasharray: 2 4; }
.agv-root .agv-scalars path[data-tie="yes"] { stroke-dasharray: 7 4; stroke-width: 2; }
.agv-root .agv-scalars path[data-near="yes"] { stroke: var(--agv-accent); stroke-width: 2.4; }
.agv-root .agv-scalars rect.agv-plate { fill: var(--agv-pane); opacity: .93; }
.agv-root .agv-rule { border-top: 1px solid var(--agv-line); background: var(--agv-bg);
  padding: 8px 14px; min-height: 38px; max-height: 120px; overflow: auto; }
.agv-root .agv-rule code { overflow-wrap: anywhere; }
.agv-root .agv-course { max-width: 100%; max-height: 45%; overflow: auto; text-align: left; }
.agv-root .agv-course summary { cursor: pointer; padding: 2px 4px; }
.agv-root .agv-course ul { margin: 4px 0 0; padding: 0 4px; list-style: none; }
.agv-root .agv-course li { padding: 3px 0; }
.agv-root .agv-refused { margin: auto; max-width: 460px; text-align: center; }
`;
