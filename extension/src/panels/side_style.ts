// The looks of the side: its tabs, and what they hold of nodes, tensors, hooks and problems.

export const SIDE_CSS = `
.agv-root .agv-side { display: grid; grid-template: auto minmax(0, 1fr) / minmax(0, 1fr);
  min-width: 0; min-height: 0;
  border-left: 1px solid var(--agv-line);
  background: var(--agv-bg); }
.agv-root .agv-tabs { display: flex; align-items: stretch; gap: 2px;
  padding: 0 4px 0 8px; border-bottom: 1px solid var(--agv-line); min-height: 34px; }
.agv-root .agv-tabs [role="tablist"] { display: flex; flex-wrap: wrap;
  column-gap: 1px; }
.agv-root .agv-tabs button { border: 0; background: none; padding: 0 3px; min-height: 32px;
  color: var(--agv-ink2);
  border-bottom: 2px solid transparent;
  border-top: 2px solid transparent; font-size: 11.5px; }
.agv-root .agv-tabs button[aria-selected="true"] { color: var(--agv-ink); font-weight: 600;
  border-bottom-color: var(--agv-accent); }
.agv-root .agv-tabs button:focus-visible { outline-offset: -2px; }
.agv-root .agv-count { display: inline-block; margin-left: 4px; min-width: 8px; padding: 0 4px;
  text-align: center; border-radius: 9px; background: var(--agv-bad-bg);
  color: var(--agv-bad); font-size: 11px; line-height: 17px; font-weight: 600; }
.agv-root .agv-scroll { overflow: auto; padding: 14px 16px 18px; min-height: 0; }
.agv-root .agv-scroll:focus-visible { outline-offset: -2px; }

.agv-root .agv-det h3 { margin: 0; font-size: 16px; line-height: 1.3; font-weight: 650;
  overflow-wrap: anywhere; }
.agv-root .agv-head { display: flex; gap: 10px; align-items: baseline;
  justify-content: space-between; }
.agv-root .agv-tag { flex: none; font-size: 11px; line-height: 18px; border-radius: 9px;
  padding: 0 8px;
  background: var(--agv-group); color: var(--agv-ink2); }
.agv-root .agv-tag[data-state="done"] { background: var(--agv-done-bg); color: var(--agv-done); }
.agv-root .agv-tag[data-state="next"], .agv-root .agv-tag[data-state="running"] {
  background: var(--agv-run-bg);
  color: var(--agv-run); }
.agv-root .agv-tag[data-state="problem"] { background: var(--agv-bad-bg); color: var(--agv-bad); }
.agv-root .agv-sub { color: var(--agv-ink2); margin: 3px 0 0; overflow-wrap: anywhere; }
.agv-root .agv-link { border: 0; background: none; padding: 0; color: var(--agv-accent) !important;
  text-align: left; text-decoration: underline;
  text-decoration-color: color-mix(in srgb, var(--agv-accent) 35%, transparent);
  text-underline-offset: 2px; overflow-wrap: anywhere; }
.agv-root .agv-link:hover { text-decoration-color: currentColor; }
.agv-root .agv-src { margin: 8px 0 0; background: var(--agv-group); border-radius: 8px;
  padding: 7px 10px;
  font: 12px/1.5 var(--agv-mono);
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 92px; overflow: auto; }
.agv-root .agv-src mark { background: var(--agv-save-bg); color: inherit;
  box-shadow: inset 0 -2px var(--agv-save); border-radius: 2px; }
.agv-root .agv-sec { font-size: 11px; font-weight: 650; color: var(--agv-ink3); margin: 15px 0 5px;
  letter-spacing: .02em; }
.agv-root .agv-sec small { font-weight: 400; font-size: 11px; }
.agv-root table { border-collapse: collapse; width: 100%; font-size: 12px; margin: 0; }
.agv-root td, .agv-root th { padding: 4px 6px 4px 0; text-align: left; border: 0;
  border-bottom: 1px solid var(--agv-line); font-weight: 400;
  vertical-align: baseline; background: none; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; max-width: 120px; }
.agv-root th { color: var(--agv-ink3); font-size: 11px; }
.agv-root .agv-facts td:nth-child(odd) { color: var(--agv-ink2); width: 56px; }
.agv-root .agv-saved tr[aria-selected="true"] td { background: var(--agv-group); }
.agv-root .agv-saved td button { border: 0; background: none; padding: 0;
  font-family: var(--agv-mono);
  font-size: 12px; text-decoration: underline;
  text-decoration-color: var(--agv-line2); text-underline-offset: 2px; }
.agv-root .agv-stale { color: var(--agv-bad) !important; font-weight: 600 !important; }
.agv-root .agv-quiet { color: var(--agv-ink3); }
.agv-root .agv-line { color: var(--agv-ink2); margin: 5px 0 0; font-size: 12px;
  overflow-wrap: anywhere; }
.agv-root .agv-picture { display: block; max-width: 100%; border-radius: 6px; }
.agv-root .agv-scale { display: flex; justify-content: space-between; font-size: 10px;
  color: var(--agv-ink3); line-height: 14px; }
.agv-root .agv-root select, .agv-grid input, .agv-form input, .agv-row input {
  background: var(--agv-bg); border: 1px solid var(--agv-line2); border-radius: 5px;
  color: var(--agv-ink); font: inherit; font-size: 12px; padding: 3px 6px; min-width: 0;
}
.agv-form { align-items: center; display: flex; gap: 6px; padding: 6px 8px; }
.agv-form select { max-width: 150px; }
.agv-form input { flex: 1; width: 90px; }
.agv-grid { margin-top: 8px; max-height: 190px; overflow: auto; }
.agv-grid table { width: auto; }
.agv-root .agv-grid td { border: 0; padding: 1px; }
.agv-grid input { font-family: var(--agv-mono); font-size: 11px; text-align: right; width: 74px; }
.agv-wide { margin-top: 8px; overflow-x: auto; }
.agv-root .agv-tensors { width: 100%; min-width: 540px; }
.agv-root .agv-tensors td { overflow: visible; overflow-wrap: break-word; white-space: normal; }
.agv-root .agv-tensors td button { overflow-wrap: break-word; }
.agv-root .agv-tensors td.agv-short { overflow-wrap: normal; white-space: nowrap; }
.agv-root .agv-tensors th button { background: none; border: 0; color: inherit; cursor: pointer;
  font: inherit; padding: 2px 0; white-space: nowrap; }
.agv-root .agv-tensors td { padding-right: 9px; vertical-align: top; }
.agv-root .agv-tensors tbody tr { cursor: pointer; }
.agv-root .agv-tensors tr[aria-selected="true"] td { background: var(--agv-group); }
.agv-root .agv-tensors tr[data-of-node="yes"] td:first-child {
  box-shadow: inset 3px 0 var(--agv-accent);
  padding-left: 7px; }
.agv-numbers div { max-width: 300px; }
.agv-number { text-align: right; white-space: nowrap; }
.agv-lanes input[type="number"] { width: 64px; padding: 1px 4px; font: inherit;
  color: var(--agv-ink); background: var(--agv-bg); border: 1px solid var(--agv-line2);
  border-radius: 5px; }
.agv-lanes input[type="radio"] { margin: 0 2px 0 4px; vertical-align: -1px; }
.agv-slice { white-space: nowrap; }
.agv-root .agv-what { margin-top: 9px; }
.agv-beside { display: flex; gap: 14px; }
.agv-beside > * { flex: 1 1 0; min-width: 0; }
.agv-jacobian { margin-bottom: 18px; }
.agv-root .agv-jacobian h3 { font-size: 13px; margin: 0; }
.agv-matrix { display: grid; gap: 2px 5px; grid-template-columns: auto minmax(0, 1fr);
  margin-top: 6px; }
.agv-cols { display: flex; grid-column: 2; }
.agv-cols span, .agv-rows span { color: var(--agv-ink3); flex: 1 1 0; font-size: 10px;
  line-height: 12px; min-width: 0; overflow: hidden; text-align: center; white-space: nowrap; }
.agv-rows { display: flex; flex-direction: column; grid-column: 1; }
.agv-rows span { align-content: center; text-align: right; }
.agv-matrix [data-on="yes"] { color: var(--agv-ink); font-weight: 650; }
.agv-cells { cursor: crosshair; grid-column: 2; position: relative; }
.agv-cell { border: 2px solid var(--agv-ink); box-sizing: border-box; pointer-events: none;
  position: absolute; }
.agv-check { align-items: center; display: inline-flex; font-size: 12px; gap: 6px; }
.agv-root[data-agv-size="wide"][data-agv-tab="tensors"][data-agv-side="open"] .agv-mid,
.agv-root[data-agv-size="wide"][data-agv-tab="parameters"][data-agv-side="open"] .agv-mid {
  grid-template-columns: minmax(0, 1fr) 620px; }
.agv-params { container-type: inline-size; }
.agv-params-bar { align-items: center; display: flex; flex-wrap: wrap; gap: 6px 12px;
  margin: 8px 0 6px; }
.agv-params-bar input[type="search"] { background: var(--agv-bg); border-radius: 6px;
  border: 1px solid var(--agv-line2); color: var(--agv-ink); flex: 0 1 220px; font: inherit;
  min-width: 0; padding: 3px 8px; }
.agv-root .agv-params table { table-layout: fixed; width: 100%; }
.agv-params [data-column="shape"] { width: 86px; }
.agv-params [data-column="norm"] { width: 78px; }
.agv-params [data-column="ratio"] { width: 88px; }
.agv-params [data-column="change"] { width: 68px; }
.agv-params [data-column="passes"] { width: 86px; }
.agv-root .agv-params th { background: var(--agv-bg); position: sticky; top: -1px; z-index: 1; }
.agv-root .agv-params thead button { background: none; border: 0; cursor: pointer; font: inherit;
  padding: 2px 0; white-space: nowrap; }
.agv-root .agv-params thead th[data-number="yes"] { text-align: right; }
.agv-root .agv-params tbody tr:not([aria-hidden]) { cursor: pointer; height: 26px; }
.agv-root .agv-params tbody tr:hover > * { background: var(--agv-pane); }
.agv-root .agv-params tbody th, .agv-root .agv-params td { border: 0; font-weight: 400;
  height: 26px;
  overflow: hidden; padding: 0 9px 0 0; position: static; text-align: left;
  text-overflow: ellipsis; vertical-align: middle; white-space: nowrap; }
.agv-root .agv-params tbody th button { background: none; border: 0; color: var(--agv-ink);
  max-width: 100%;
  overflow: hidden; padding: 0; text-align: left; text-overflow: ellipsis; }
.agv-root .agv-params tr[aria-current="true"] > * { background: var(--agv-group); }
.agv-root .agv-params td.agv-number { font-variant-numeric: tabular-nums; text-align: right; }
.agv-root .agv-params [data-none="yes"] td { color: var(--agv-ink2); }
.agv-root .agv-params .agv-none { color: var(--agv-bad); font-weight: 600; }
.agv-root .agv-params [data-frozen="yes"] .agv-none { color: var(--agv-ink3); font-weight: 400; }
.agv-params svg { display: block; overflow: visible; }
.agv-params path { fill: none; stroke: var(--agv-param); stroke-width: 1.3; }
.agv-params path[data-bad="yes"] { stroke: var(--agv-bad); stroke-width: 2; }
.agv-params circle { fill: var(--agv-ink); }
.agv-root .agv-params-why { background: var(--agv-group); border-radius: 6px; margin: 6px 0;
  overflow-wrap: anywhere; padding: 6px 10px; }
@container (max-width: 470px) {
  .agv-root .agv-params table [data-roomy="room"] { overflow: hidden; padding: 0; width: 0; }
  .agv-root .agv-params tbody th { direction: rtl; }
}
@container (max-width: 380px) {
  .agv-root .agv-params table [data-roomy="some"] { overflow: hidden; padding: 0; width: 0; }
}
.agv-tree { list-style: none; margin: 8px 0 0; padding: 0; }
.agv-tree li {
  align-items: baseline; border-radius: 4px; cursor: pointer; display: flex; gap: 5px;
  line-height: 1.7;
}
.agv-tree li:hover { background: var(--agv-pane); }
.agv-tree li[aria-selected='true'] { box-shadow: inset 2px 0 0 var(--agv-accent);
  background: var(--agv-pane); }
.agv-tree li > .agv-elide { flex: 1; min-width: 0; }
.agv-swatch { align-items: center; color: var(--agv-ink2); display: inline-flex; flex: none;
  font-size: 11px; font-variant-numeric: tabular-nums; gap: 5px; }
.agv-swatch i { border: 1px solid var(--agv-line2); border-radius: 3px; height: 11px; width: 11px; }
.agv-tree-head { color: var(--agv-ink3); display: flex; font-size: 11px; gap: 5px;
  margin-top: 8px; }
.agv-tree-head > :first-child { flex: 1; padding-left: 21px; }
.agv-root .agv-tree-head + .agv-tree { margin-top: 0; }
.agv-tree-head > :last-child, .agv-tree .agv-sign { flex: none; text-align: center; width: 26px; }
.agv-tree .agv-sign { color: var(--agv-ink2); }
.agv-tree .agv-sign[data-kind="nonfinite"] { color: var(--agv-bad); }
.agv-tree .agv-number { font-variant-numeric: tabular-nums; }
.agv-fold { color: var(--agv-ink2); flex: none; text-align: center; width: 14px; }
.agv-root .agv-hooks { list-style: none; margin: 4px 0 0; padding: 0; }
.agv-root .agv-hook { display: grid; grid-template-columns: 22px minmax(0, 1fr); padding: 4px 0 5px;
  border-bottom: 1px solid var(--agv-line); font-size: 12px; }
.agv-root .agv-hook-head { display: flex; gap: 10px; justify-content: space-between;
  align-items: baseline; overflow-wrap: anywhere; }
.agv-root .agv-hook-head > button { flex: none; }
.agv-root .agv-hook > div > span { display: block; overflow-wrap: anywhere; }
.agv-root .agv-hook[data-bad="yes"] { border-left: 3px solid var(--agv-bad); padding-left: 6px;
  background: var(--agv-bad-bg); }
.agv-root .agv-hook[data-ran="no"] .agv-hook-at { color: var(--agv-ink3); }
.agv-root .agv-hook-at { color: var(--agv-ink2); font-variant-numeric: tabular-nums; }
.agv-root .agv-hook-given { color: var(--agv-ink2); font-variant-numeric: tabular-nums; }
.agv-root .agv-hook-node { margin: 10px 0 2px; font-size: 12px; font-weight: 600; }
.agv-list { list-style: none; margin: 0; padding: 0; }
.agv-root .agv-list li { padding: 3px 0; border-bottom: 1px solid var(--agv-line); font-size: 12px;
  display: flex; gap: 8px; align-items: baseline; }
.agv-root .agv-list li > :last-child { margin-left: auto; }
.agv-root .agv-row { display: flex; flex-wrap: wrap; gap: 8px; margin-top: 16px; }
.agv-root .agv-warn { display: block; width: 100%; margin: 10px 0 0;
  border: 1px solid var(--agv-bad);
  border-left-width: 4px; border-radius: 8px;
  padding: 7px 10px; background: var(--agv-bad-bg); color: var(--agv-ink) !important;
  text-align: left; }
.agv-root .agv-warn b { color: var(--agv-bad); font-weight: 600; }

.agv-math { margin: 6px 0 0; overflow-x: auto; overflow-y: hidden; padding: 2px 0;
  scrollbar-width: thin; }
.agv-math math { font-size: 15px; }
.agv-math[data-small='yes'] { margin: 2px 0 0 18px; }
.agv-math[data-small='yes'] math { font-size: 13px; }
.agv-chain .agv-line { margin-top: 4px; }
.agv-math .agv-named { cursor: help; text-decoration: underline dotted var(--agv-ink3);
  text-underline-offset: 3px; }
.agv-math .agv-named:hover, .agv-math .agv-named:focus-visible { color: var(--agv-accent);
  background: var(--agv-group); }
.agv-root .agv-here i { font-family: var(--agv-mono); font-style: normal; }
.agv-root .agv-sec-row { display: flex; align-items: center; justify-content: space-between; }
.agv-root .agv-switch { display: inline-flex; border: 1px solid var(--agv-line2);
  border-radius: 6px; overflow: hidden; text-transform: none; letter-spacing: 0; }
.agv-root .agv-switch button { border: 0; background: none; padding: 0 8px; font-size: 11.5px;
  line-height: 18px; color: var(--agv-ink2); font-weight: 400; }
.agv-root .agv-switch button + button { border-left: 1px solid var(--agv-line2); }
.agv-root .agv-switch button[aria-checked="true"] { background: var(--agv-group);
  color: var(--agv-ink); font-weight: 600; }
.agv-root .agv-switch button:focus-visible { outline-offset: -2px; }
.agv-element { align-items: center; display: flex; font-size: 12px; gap: 6px; margin-top: 6px; }
.agv-element select { background: var(--agv-bg); border: 1px solid var(--agv-line2);
  border-radius: 5px; color: var(--agv-ink); font: inherit; padding: 1px 4px; }
.agv-used { color: var(--agv-ink2); display: flex; flex-wrap: wrap; font-size: 12px; gap: 1px 14px;
  list-style: none; margin: 5px 0 0; padding: 0; }
.agv-root .agv-check-row { align-items: center; margin-top: 10px; }
.agv-outcome { border: 1px solid var(--agv-line2); border-left-width: 4px; border-radius: 8px;
  margin-top: 8px; padding: 7px 10px; }
.agv-outcome p { margin: 0; }
.agv-outcome[data-verdict='agrees'] { border-color: var(--agv-done); }
.agv-outcome[data-verdict='differs'] { background: var(--agv-bad-bg); border-color: var(--agv-bad);
  }
.agv-root .agv-outcome .agv-facts td:nth-child(odd) { width: 76px; }
.agv-root .agv-outcome td { border: 0; padding: 1px 6px 1px 0; }
.agv-root .agv-card { border: 1px solid var(--agv-line2); border-left: 4px solid var(--agv-bad);
  border-radius: 8px; padding: 10px 12px;
  background: var(--agv-bg); box-shadow: var(--agv-shadow); margin: 0 0 12px;
  overflow-wrap: anywhere; }
.agv-root .agv-card h3 { font-size: 13.5px; margin: 0 0 3px; font-weight: 650; line-height: 1.35; }
.agv-root .agv-times { margin-left: 8px; padding: 0 6px; border-radius: 9px; font-size: 11.5px;
  background: var(--agv-bad-bg); color: var(--agv-bad); }
.agv-root .agv-solved { margin: 12px 0 0; color: var(--agv-ink2); }
.agv-root .agv-solved > summary { cursor: pointer; }
.agv-root .agv-solved .agv-card { margin-top: 8px; }
.agv-root .agv-card[data-solved="yes"] { border-left-color: var(--agv-done); }
.agv-root .agv-card p { margin: 0; color: var(--agv-ink2); }
.agv-root .agv-sign { display: inline-block; min-width: 17px; margin-right: 5px; text-align: center;
  color: var(--agv-ink3); }
.agv-root .agv-finding[data-matters="yes"] .agv-sign { color: var(--agv-bad); }
.agv-root .agv-finding[data-matters="no"] { border-left-color: var(--agv-line2); }
.agv-root .agv-finding[data-solved="yes"] .agv-sign { color: var(--agv-ink3); }
.agv-root .agv-when { font-size: 12px; color: var(--agv-ink3) !important; }
.agv-root .agv-dead { border-left: 3px dotted var(--agv-ink3); padding-left: 8px; }
.agv-root .agv-strip { list-style: none; margin: 11px 0 0; padding: 0; }
.agv-root .agv-strip li { display: grid; grid-template-columns: auto minmax(0, 1fr); gap: 0 9px;
  padding: 0 0 10px; position: relative; font-size: 12px; }
.agv-root .agv-strip li:not(:last-child)::before { content: ""; position: absolute; left: 17px;
  top: 24px;
  bottom: -1px; width: 1.5px; background: var(--agv-line2); }
.agv-root .agv-strip code { display: block; grid-column: 2; color: var(--agv-ink2); }
.agv-root .agv-v { align-self: start; min-width: 36px; text-align: center;
  border: 1.5px solid var(--agv-line2);
  border-radius: 12px; padding: 0 8px; font-size: 11.5px;
  line-height: 19px; background: var(--agv-bg); color: var(--agv-ink2); }
.agv-root .agv-v[data-kind="saved"] { border-color: var(--agv-save); color: var(--agv-save);
  font-weight: 600; }
.agv-root .agv-v[data-kind="written"] { border-color: var(--agv-bad); color: var(--agv-bad);
  font-weight: 600; border-style: dashed; }
.agv-root .agv-fix { display: flex; align-items: center; justify-content: space-between; gap: 10px;
  background: var(--agv-done-bg); border-radius: 6px;
  padding: 7px 10px; margin-top: 2px; }
.agv-root .agv-fix code { font-weight: 600; }
.agv-root .agv-fix-do { display: flex; flex: none; flex-direction: column; gap: 5px; }
.agv-root .agv-card[data-marked="yes"] { border-left-width: 6px; padding-left: 10px; }
.agv-root .agv-aliases { list-style: none; margin: 6px 0 2px; padding: 0; font-size: 12px;
  color: var(--agv-ink2); }
.agv-root .agv-aliases li[data-chain="yes"] { padding-left: 14px; position: relative; }
.agv-root .agv-aliases li[data-chain="yes"]::before { content: "└"; position: absolute; left: 2px;
  color: var(--agv-ink3); }
.agv-root .agv-fix + .agv-line { margin-top: 9px; }
.agv-root .agv-card details { margin-top: 8px; color: var(--agv-ink2); font-size: 12px; }
.agv-root .agv-card details pre { white-space: pre-wrap; overflow-wrap: anywhere;
  font: 11.5px/1.5 var(--agv-mono); margin: 6px 0 0; }
.agv-root .agv-card summary { cursor: pointer; }
`;
