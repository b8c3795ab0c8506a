// The Inspector's looks, injected once per document (or shadow root). Neutrals come from the host's
// own variables, states from a palette that colour-blind readers can tell apart; both themes from
// one set of names.

import { COMPARE_CSS } from './compare/style';
import { FURNITURE_CSS } from './furniture_style';
import { TIME_CSS } from './profile/style';
import { SIDE_CSS } from './side_style';
import { TEACHING_CSS } from './teaching_style';

export const CSS = `
.agv-root {
  --agv-bg: var(--jp-layout-color1, var(--vscode-editor-background, #fff));
  --agv-ink: var(--jp-content-font-color1, var(--vscode-editor-foreground, #1f2933));
  --agv-pane: color-mix(in srgb, var(--agv-bg) 98%, var(--agv-ink));
  --agv-group: color-mix(in srgb, var(--agv-bg) 95.5%, var(--agv-ink));
  --agv-line: color-mix(in srgb, var(--agv-bg) 88%, var(--agv-ink));
  --agv-line2: color-mix(in srgb, var(--agv-bg) 79%, var(--agv-ink));
  --agv-ink2: color-mix(in srgb, var(--agv-bg) 29%, var(--agv-ink));
  --agv-ink3: color-mix(in srgb, var(--agv-bg) 35%, var(--agv-ink));
  --agv-accent: #0b6e99; --agv-on-accent: #fff;
  --agv-done: #08776a; --agv-done-bg: #e6f4f1;
  --agv-run: #995a00; --agv-run-bg: #fff3dc;
  --agv-bad: #b3261e; --agv-bad-bg: #fdecea;
  --agv-save: #3557c4; --agv-save-bg: #e9eefc;
  --agv-param: #6b4fa0; --agv-param-bg: #f0ebf8;
  --agv-ramp0: #f1f6fb; --agv-ramp1: #c3dbee; --agv-ramp2: #84b4d8; --agv-ramp3: #3f80b8;
  --agv-ramp4: #0b4079;
  --agv-shadow: 0 1px 2px rgba(20, 30, 40, .06), 0 4px 14px rgba(20, 30, 40, .08);
  --agv-mono: var(--jp-code-font-family, ui-monospace, "SF Mono", "DejaVu Sans Mono", monospace);
  box-sizing: border-box; position: relative; width: 100%; height: 100%; min-height: 0;
  overflow: clip;
  display: grid; grid-template-columns: minmax(0, 1fr);
  grid-template-areas: "bar" "lesson" "notice" "mid" "time";
  grid-template-rows: auto auto auto minmax(0, 1fr) auto;
  font: 13px/1.45 var(--jp-ui-font-family, system-ui, "Segoe UI", "DejaVu Sans", sans-serif);
  color: var(--agv-ink); background: var(--agv-bg); text-align: left;
}
.agv-root[data-agv-theme="dark"] {
  --agv-bg: var(--jp-layout-color1, var(--vscode-editor-background, #111518));
  --agv-ink: var(--jp-content-font-color1, var(--vscode-editor-foreground, #e6ebf0));
  --agv-pane: color-mix(in srgb, var(--agv-bg) 97.5%, var(--agv-ink));
  --agv-group: color-mix(in srgb, var(--agv-bg) 94.5%, var(--agv-ink));
  --agv-ink2: color-mix(in srgb, var(--agv-bg) 27%, var(--agv-ink));
  --agv-ink3: color-mix(in srgb, var(--agv-bg) 42%, var(--agv-ink));
  --agv-accent: #58b6dc; --agv-on-accent: #06202c;
  --agv-done: #4cc3ad; --agv-done-bg: #12302b;
  --agv-run: #f0b04a; --agv-run-bg: #372a10;
  --agv-bad: #ff8a80; --agv-bad-bg: #3a1a18;
  --agv-save: #8fa8ff; --agv-save-bg: #1b2547;
  --agv-param: #bfa5f0; --agv-param-bg: #2a2140;
  --agv-ramp0: #182129; --agv-ramp1: #17405f; --agv-ramp2: #2a6f9f; --agv-ramp3: #64abda;
  --agv-ramp4: #d3ecfb;
  --agv-shadow: 0 1px 2px rgba(0, 0, 0, .4), 0 4px 14px rgba(0, 0, 0, .35);
}
.agv-root *, .agv-root *::before, .agv-root *::after { box-sizing: border-box; }
.agv-root:focus, .agv-root :focus { outline: none; }
.agv-root :focus-visible { outline: 2px solid var(--agv-accent); outline-offset: 1px; }
.agv-root code, .agv-root .agv-mono { font-family: var(--agv-mono); font-size: 12px;
  background: none;
  padding: 0; color: inherit; }
:where(.agv-root) button { font: inherit; color: inherit; margin: 0; cursor: pointer; }
:where(.agv-root) button:disabled { cursor: default; }
.agv-root .agv-hidden { position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%); white-space: nowrap; }

.agv-root .agv-pill { display: inline-flex; align-items: center; gap: 7px; border-radius: 14px;
  padding: 2px 12px; font-weight: 600;
  max-width: 300px; min-width: 0; background: var(--agv-group); color: var(--agv-ink2); }
.agv-root .agv-pill > span { overflow: hidden; text-overflow: ellipsis; }
.agv-root .agv-pill::before { content: ""; flex: none; width: 8px; height: 8px; border-radius: 50%;
  background: var(--agv-ink3); }
.agv-root .agv-pill[data-kind="paused"] { background: var(--agv-run-bg); color: var(--agv-run); }
.agv-root .agv-pill[data-kind="paused"]::before { background: var(--agv-run); border-radius: 2px; }
.agv-root .agv-pill[data-kind="running"] { background: var(--agv-done-bg); color: var(--agv-done); }
.agv-root .agv-pill[data-kind="running"]::before,
  .agv-root .agv-pill[data-kind="recording"]::before {
  background: var(--agv-done); }
.agv-root .agv-pill[data-kind="past"] { background: var(--agv-save-bg); color: var(--agv-save); }
.agv-root .agv-pill[data-kind="past"]::before { background: none;
  border: 2px solid var(--agv-save); }
.agv-root .agv-pill[data-kind="gone"] { background: var(--agv-bad-bg); color: var(--agv-bad); }
.agv-root .agv-pill[data-kind="gone"]::before { background: none; border: 2px solid var(--agv-bad);
  }
.agv-root .agv-pill[data-kind="off"]::before { background: none; border: 2px solid var(--agv-ink3);
  }
.agv-root .agv-btn { display: inline-flex; flex: none; white-space: nowrap; align-items: center;
  gap: 6px;
  border: 1px solid var(--agv-line2); background: var(--agv-bg);
  border-radius: 6px; padding: 2px 10px; font-size: 12px; line-height: 18px; }
.agv-root .agv-btn:hover:not(:disabled) { background: var(--agv-group); }
.agv-root .agv-btn:disabled { color: var(--agv-ink3); border-color: var(--agv-line); }
.agv-root .agv-btn[data-primary="yes"]:not(:disabled) { background: var(--agv-accent);
  border-color: var(--agv-accent); color: var(--agv-on-accent); }
.agv-root .agv-btn[data-primary="yes"]:hover:not(:disabled) { filter: brightness(1.08); }
.agv-root .agv-btn[aria-pressed="true"] { border-color: var(--agv-done); color: var(--agv-done);
  background: var(--agv-done-bg); }
.agv-root .agv-btn kbd { font: 10.5px/1 inherit; font-family: inherit; font-size: 10.5px;
  color: var(--agv-ink3); background: none; border: 0;
  padding: 0; box-shadow: none; }
.agv-root .agv-btn[data-primary="yes"]:not(:disabled) kbd { color: inherit; opacity: .95; }
.agv-root .agv-search { position: relative; flex: 0 1 190px; min-width: 92px; }
.agv-root .agv-search input { width: 100%; border: 1px solid var(--agv-line2); border-radius: 6px;
  background: var(--agv-bg); color: var(--agv-ink);
  padding: 2px 10px; font: inherit; font-size: 12px; line-height: 18px; height: 24px; }
.agv-root .agv-search input::placeholder { color: var(--agv-ink3); opacity: 1; }
.agv-root .agv-found { position: absolute; right: 8px; top: 3px; font-size: 11px;
  color: var(--agv-ink3);
  background: var(--agv-bg); padding-left: 4px; }
.agv-root .agv-menu { position: relative; }
.agv-root .agv-sheet { position: absolute; z-index: 5; top: calc(100% + 6px); right: 0;
  min-width: 230px;
  width: max-content; overflow: auto; background: var(--agv-bg); border: 1px solid var(--agv-line2);
  border-radius: 8px; box-shadow: var(--agv-shadow); padding: 6px; }
.agv-root .agv-sheet[data-side="left"] { left: 0; right: auto; }
.agv-root .agv-sheet > button { display: block; width: 100%; text-align: left; border: 0;
  background: none;
  border-radius: 5px; padding: 5px 8px;
  white-space: normal; }
.agv-root .agv-sheet > button:hover:not(:disabled) { background: var(--agv-group); }
.agv-root .agv-sheet > button:disabled { color: var(--agv-ink3); }
.agv-root .agv-sheet hr { border: 0; border-top: 1px solid var(--agv-line); margin: 5px 0; }
.agv-root .agv-sheet small { display: block; color: var(--agv-ink3); font-size: 11px; }
.agv-root .agv-sheet p { margin: 4px 8px; color: var(--agv-ink2); white-space: normal; }
.agv-root .agv-sheet-row { display: flex; align-items: center; justify-content: space-between;
  gap: 10px;
  padding: 3px 4px 3px 8px; }
.agv-root .agv-sheet-row > button { border: 0; background: none; color: var(--agv-ink3);
  border-radius: 5px;
  padding: 1px 7px; }
.agv-root .agv-sheet-row > button:hover { background: var(--agv-group); color: var(--agv-ink); }
.agv-root .agv-elide { overflow: hidden; text-overflow: ellipsis; white-space: nowrap;
  min-width: 0; }

.agv-root .agv-notice { grid-area: notice; display: flex; gap: 12px; align-items: flex-start;
  justify-content: space-between; padding: 6px 14px;
  background: var(--agv-bad-bg); color: var(--agv-bad); border-bottom: 1px solid var(--agv-line);
  overflow-wrap: anywhere; }
.agv-root .agv-notice[data-kind="info"] { background: var(--agv-done-bg); color: var(--agv-done); }
.agv-root .agv-notice button { border: 0; background: none; padding: 0 4px; }

.agv-root .agv-failed { display: flex; flex-wrap: wrap; align-items: flex-start;
  align-content: flex-start;
  gap: 8px 12px; padding: 12px 16px; color: var(--agv-ink); overflow: auto;
  overflow-wrap: anywhere; }
.agv-root .agv-failed p { margin: 0; flex: 0 1 auto; border-left: 3px solid var(--agv-bad);
  padding-left: 9px;
  white-space: normal; }

.agv-root .agv-mid { grid-area: mid; display: grid; grid-template-columns: minmax(0, 1fr) 376px;
  min-height: 0; }
.agv-root .agv-graph { position: relative; container-type: size; min-width: 0; min-height: 0;
  display: grid; grid-template: minmax(0, 1fr) auto auto / minmax(0, 1fr);
  overflow: hidden; background: var(--agv-pane); }
.agv-root .agv-graph:focus-visible { outline-offset: -2px; }
.agv-root .agv-graph > canvas { position: absolute; inset: 0; display: block; touch-action: none; }
.agv-root .agv-legend { position: relative; grid-row: 3; display: flex; flex-wrap: wrap;
  gap: 2px 14px; padding: 5px 14px 7px; color: var(--agv-ink2); font-size: 11.5px;
  border-top: 1px solid var(--agv-line); background: var(--agv-pane); }
.agv-root .agv-legend svg { flex: none; }
.agv-root .agv-legend-kind, .agv-root .agv-legend-by, .agv-root .agv-legend-scale {
  display: inline-flex; align-items: center; gap: 5px; white-space: nowrap; }
.agv-root .agv-legend-kind { border: 0; padding: 0 2px; margin: 0 -2px; background: none;
  border-radius: 4px; color: inherit; }
.agv-root .agv-legend-kind:enabled:hover { background: var(--agv-group); color: var(--agv-ink); }
.agv-root .agv-legend-kind b { font-weight: 600; font-variant-numeric: tabular-nums; }
.agv-root .agv-legend-by select { font: inherit; color: inherit; background: var(--agv-bg);
  border: 1px solid var(--agv-line2); border-radius: 5px; padding: 0 2px; height: 19px; }
.agv-root .agv-legend-scale i { width: 84px; height: 10px; border-radius: 3px;
  border: 1px solid var(--agv-line2); background: linear-gradient(to right, var(--agv-ramp0),
  var(--agv-ramp1), var(--agv-ramp2), var(--agv-ramp3), var(--agv-ramp4)); }
.agv-root .agv-mini { position: relative; grid-row: 2; justify-self: end; margin: 0 14px 12px;
  width: 120px; height: 86px;
  border: 1px solid var(--agv-line2);
  border-radius: 8px; background: var(--agv-bg); box-shadow: var(--agv-shadow); overflow: hidden; }
.agv-root .agv-mini[data-corner="left"] { justify-self: start; }
.agv-root .agv-mini[data-pale="yes"] { opacity: 0.2; }
.agv-root .agv-mini[data-pale="yes"]:is(:hover, :active) { opacity: 1; }
.agv-root .agv-mini[data-needed="no"] { visibility: hidden; }
.agv-root .agv-mini canvas { display: block; width: 100%; height: 100%; cursor: pointer;
  touch-action: none; }
.agv-root .agv-zoom { position: absolute; right: 14px; top: 12px; display: flex;
  flex-direction: column;
  border: 1px solid var(--agv-line2);
  border-radius: 7px; background: var(--agv-bg); overflow: hidden; opacity: 0;
  transition: opacity .12s; }
.agv-root .agv-graph:hover .agv-zoom, .agv-root .agv-graph:focus-within .agv-zoom { opacity: 1; }
.agv-root .agv-zoom button { border: 0; background: none; width: 26px; height: 24px; padding: 0;
  color: var(--agv-ink2); }
.agv-root .agv-zoom button + button { border-top: 1px solid var(--agv-line); }
.agv-root .agv-zoom button:hover { background: var(--agv-group); }
.agv-root .agv-zoom button:focus-visible { outline-offset: -2px; }
.agv-root .agv-empty { position: absolute; inset: 0; display: flex; flex-direction: column;
  align-items: center; justify-content: center; gap: 12px;
  padding: 24px; text-align: center; color: var(--agv-ink2); background: var(--agv-pane); }
.agv-root .agv-empty h2 { font-size: 15px; font-weight: 650; margin: 0; color: var(--agv-ink); }
.agv-root .agv-empty p { margin: 0; max-width: 36em; overflow-wrap: anywhere; }
.agv-root .agv-empty pre { margin: 0; text-align: left; background: var(--agv-bg);
  border: 1px solid var(--agv-line); border-radius: 8px;
  padding: 10px 14px; font: 12px/1.6 var(--agv-mono); color: var(--agv-ink); max-width: 100%;
  overflow: auto; }
.agv-root .agv-laying { position: absolute; left: 50%; top: 14px; transform: translateX(-50%);
  background: var(--agv-bg); border: 1px solid var(--agv-line2);
  border-radius: 14px; padding: 2px 12px; box-shadow: var(--agv-shadow); color: var(--agv-ink2); }

${SIDE_CSS.trim()}

.agv-root .agv-time { grid-area: time; border-top: 1px solid var(--agv-line);
  background: var(--agv-bg);
  padding: 5px 0 6px; position: relative; }
.agv-root .agv-time-head { display: flex; align-items: center; gap: 8px; padding: 0 14px 4px;
  color: var(--agv-ink2); font-size: 12px; min-height: 24px; }
.agv-root .agv-time-head > * { flex: none; }
.agv-root .agv-time-head .agv-elide { flex: 0 1 auto; }
.agv-root .agv-time-head > :last-child { margin-left: auto; }
.agv-root[data-agv-size="narrow"] .agv-time-head { flex-wrap: wrap; row-gap: 3px; }
.agv-root[data-agv-size="narrow"] .agv-time-head > * { max-width: 100%; }
.agv-root .agv-step { border: 1px solid var(--agv-line2); background: var(--agv-bg);
  border-radius: 5px;
  width: 22px; height: 20px; padding: 0; line-height: 1; }
.agv-root .agv-step:disabled { color: var(--agv-line2); }
.agv-root .agv-step:hover:not(:disabled) { background: var(--agv-group); }
.agv-root .agv-passes { display: block; cursor: pointer; flex: none; touch-action: none; }
.agv-root .agv-passes:focus-visible { outline-offset: -2px; }
.agv-root .agv-first { white-space: nowrap; }
.agv-root .agv-heights { width: auto; min-width: 30px; padding: 0 5px; font-size: 11px; }
.agv-root .agv-axis { display: block; position: relative; cursor: ew-resize;
  touch-action: none; }
.agv-root .agv-axis:focus-visible { outline-offset: -2px; }
.agv-root .agv-axis canvas { display: block; position: absolute; inset: 0; }
.agv-root .agv-small { font-size: 12px; color: var(--agv-ink3); }
.agv-root .agv-help { position: absolute; inset: 0; z-index: 6; display: flex; align-items: center;
  justify-content: center; padding: 20px;
  background: color-mix(in srgb, var(--agv-ink) 22%, transparent); }
.agv-root .agv-help > div { background: var(--agv-bg); border: 1px solid var(--agv-line2);
  border-radius: 10px; box-shadow: var(--agv-shadow);
  padding: 16px 20px; max-width: 460px; max-height: 100%; overflow: auto; }
.agv-root .agv-help h2 { margin: 0 0 8px; font-size: 15px; }
.agv-root .agv-help td:first-child { width: 130px; color: var(--agv-ink2);
  font-family: var(--agv-mono); }
.agv-root .agv-help td { white-space: normal; max-width: none; }

.agv-root[data-agv-size="narrow"] .agv-mid { grid-template: minmax(0, 1fr) minmax(120px,
  42%) / minmax(0, 1fr); }
.agv-root[data-agv-size="narrow"] .agv-side { border-left: 0;
  border-top: 1px solid var(--agv-line); }
.agv-root[data-agv-size="narrow"] .agv-bar { padding: 5px 10px 6px; }
.agv-root[data-agv-size="narrow"] .agv-header { padding-left: 10px; }
.agv-root[data-agv-size="narrow"] .agv-scroll { padding: 10px 14px 14px; }
.agv-root[data-agv-size="middle"] .agv-tabs button { padding: 0 2px; }
.agv-root[data-agv-size="middle"] .agv-mid { grid-template-columns: minmax(0, 1fr) 360px; }
.agv-root[data-agv-size="narrow"][data-agv-graph="no"] .agv-mid {
  grid-template: minmax(150px, 34%) minmax(0, 1fr) / minmax(0, 1fr); }
.agv-root .agv-scroll .agv-failed { padding: 0; }
.agv-root[data-agv-graph="no"][data-agv-side="open"] .agv-empty pre { display: none; }
.agv-root[data-agv-side="none"] .agv-mid { grid-template: minmax(0, 1fr) / minmax(0,
  1fr) !important; }
.agv-root[data-agv-side="closed"] .agv-mid { grid-template: minmax(0, 1fr) auto / minmax(0, 1fr); }
.agv-root[data-agv-side="closed"] .agv-side { border-left: 0;
  border-top: 1px solid var(--agv-line); grid-template-rows: auto; }
.agv-root[data-agv-side="closed"] .agv-scroll { display: none; }
@container (max-height: 340px) {
  .agv-root .agv-legend-kind, .agv-root .agv-legend-scale { display: none; }
  .agv-root .agv-legend { position: absolute; grid-row: auto; inset: 13px 56px auto auto;
    padding: 1px 6px; margin: -1px -6px; border: 0; border-radius: 6px; }
  .agv-root .agv-mini { width: 84px; height: 58px; } }
@container (max-height: 340px) and (max-width: 440px) {
  .agv-root .agv-legend { display: none; } }
@container (max-width: 420px) { .agv-root .agv-legend-kind { display: none; } }
@media (prefers-reduced-motion: reduce) { .agv-root * { transition: none !important;
  animation: none !important; } }
`;

const styled = new WeakSet<Document | ShadowRoot>();

/**
 * Adds the style sheet where the element lives, unless it is there already. As a sheet, not as an
 * element: a page's policy may forbid inline styles.
 */
export function injectStyle(element: Element): void {
  const found = element.getRootNode();
  const root = found instanceof ShadowRoot ? found : element.ownerDocument;
  if (styled.has(root)) return;
  styled.add(root);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(CSS + COMPARE_CSS + TEACHING_CSS + TIME_CSS + FURNITURE_CSS);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
}
