// Every parameter of the pass on screen: the norm of its gradient, against its values, against the
// pass before and over passes; None with its reason and the line. Only rows in view are made.

import type { KeyboardEvent, ReactElement, RefObject } from 'react';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { Weights } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { countText, numberText, placeText, plural, shapeText } from '../model/format';
import type { Parameter, SortKey } from '../model/parameters';
import {
  changeOf,
  changeText,
  filtered,
  historyOf,
  lineOf,
  newestPass,
  parametersOf,
  ratioOf,
  sortedParameters
} from '../model/parameters';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';
import type { Order } from './sort_head';
import { SortHead } from './sort_head';
import { Words } from './source_link';

/** Height of a row, as in its style. */
const ROW = 26;
/** Rows made above and below those in view. */
const BEYOND = 12;
/** Rows that a key goes up or down a page. */
const PAGE = 15;
/** Passes that a line of norms tells of. */
const PASSES = 120;
const LINE = { width: 76, height: 18 };

/** Columns that are there only where there is room, or some. */
type Room = 'room' | 'some';

const COLUMNS: { key: SortKey; label: string; says: string; number?: true; roomy?: Room }[] = [
  { key: 'name', label: 'parameter', says: 'by name' },
  { key: 'shape', label: 'shape', says: 'by the number of elements', roomy: 'room' },
  { key: 'norm', label: '|grad|', says: '2-norm of the gradient', number: true },
  {
    key: 'ratio',
    label: '|grad|/|w|',
    says: 'against the 2-norm of its values, known of the newest pass',
    number: true,
    roomy: 'room'
  },
  {
    key: 'change',
    label: 'change',
    says: '|grad| against the pass before',
    number: true,
    roomy: 'some'
  }
];

interface Window {
  from: number;
  to: number;
}

/** Which of so many rows are in view, in the side's own scroller. */
function useWindow(body: RefObject<HTMLTableSectionElement>, count: number): Window {
  const [shown, setShown] = useState<Window>({ from: 0, to: 60 });
  useLayoutEffect(() => {
    const scroller = body.current?.closest<HTMLElement>('.agv-scroll');
    if (!scroller) {
      return undefined;
    }
    const update = (): void => {
      const start = body.current?.getBoundingClientRect().top ?? 0;
      const above = scroller.getBoundingClientRect().top - start;
      const from = Math.max(0, Math.floor(above / ROW) - BEYOND);
      const to = Math.ceil((above + scroller.clientHeight) / ROW) + BEYOND;
      setShown(was => (was.from === from && was.to === to ? was : { from, to }));
    };
    const observer = new ResizeObserver(update);
    observer.observe(scroller);
    scroller.addEventListener('scroll', update, { passive: true });
    update();
    return () => {
      observer.disconnect();
      scroller.removeEventListener('scroll', update);
    };
  }, [body, count]);
  const from = Math.min(shown.from, Math.max(0, count - 1));
  return { from, to: Math.min(count, Math.max(shown.to, from + 1)) };
}

/** Scrolls as little as brings a row into view, below the titles. */
function show(body: HTMLTableSectionElement | null, at: number): void {
  const scroller = body?.closest<HTMLElement>('.agv-scroll');
  if (!body || !scroller) {
    return;
  }
  const top = body.getBoundingClientRect().top - scroller.getBoundingClientRect().top + at * ROW;
  if (top < ROW) scroller.scrollTop += top - ROW;
  else if (top + ROW > scroller.clientHeight)
    scroller.scrollTop += top + ROW - scroller.clientHeight;
}

/** The newest answer: while a later one is not here, the one before stays. */
function useWeights(presenter: Presenter): { weights: Weights | null; why: string } {
  const answer = presenter.weights();
  const { session, epoch } = presenter.model.store;
  const kept = useRef<{ of: string; weights: Weights } | null>(null);
  const of = `${session} ${epoch}`;
  if (answer.kind === 'answer') kept.current = { of, weights: answer.value };
  const weights = kept.current?.of === of ? kept.current.weights : null;
  return { weights, why: answer.kind === 'none' && !weights ? answer.why : '' };
}

function Sparkline({ parameter }: { parameter: Parameter }): ReactElement | null {
  const { store, graph } = useInspector().model;
  const points = historyOf(store, parameter, PASSES);
  const { width, height } = LINE;
  const { path, ys } = lineOf(points, width, height);
  const bad = points.flatMap(({ norm }, i) => (Number.isFinite(norm) ? [] : [i]));
  if (points.length < 2 || (!path && bad.length === 0)) {
    return null;
  }
  const finite = points.map(({ norm }) => norm).filter(Number.isFinite);
  const x = (i: number): number => (i * width) / (points.length - 1);
  const at = points.findIndex(({ task }) => task === graph.task);
  const range =
    finite.length > 0
      ? `from ${numberText(finite.reduce((a, b) => Math.min(a, b)))} ` +
        `to ${numberText(finite.reduce((a, b) => Math.max(a, b)))}`
      : '';
  const says = `|grad| over ${points.length} passes, ${range}`;
  const label = bad.length > 0 ? `${says}, ${bad.length} times NaN or ∞` : says;
  return (
    <svg role="img" aria-label={label} width={width} height={height}>
      <title>{`${label} (log scale)`}</title>
      <path d={path} />
      {bad.length > 0 && (
        <path data-bad="yes" d={bad.map(i => `M${x(i).toFixed(1)} 1v${height - 2}`).join('')} />
      )}
      {at >= 0 && Number.isFinite(ys[at]) && <circle cx={x(at)} cy={ys[at]} r={2} />}
    </svg>
  );
}

/** What stands beside the name of a parameter without a gradient. */
function Reason({ row, stop }: { row: Parameter; stop: boolean }): ReactElement {
  const presenter = useInspector();
  const { why, state } = row;
  if (!why) {
    return (
      <>
        <td className="agv-number agv-quiet">{state === 'waits' ? 'waits' : '?'}</td>
        <td colSpan={3} />
      </>
    );
  }
  const { site } = why;
  const all = [why.text, why.repair].filter(Boolean).join('. ');
  return (
    <>
      <td className="agv-number">
        <span className="agv-none">None</span>
      </td>
      <td colSpan={3} title={oneLine(all, 600)}>
        {oneLine(why.words, 80)}
        {site && (
          <>
            ,{' '}
            <button
              type="button"
              className="agv-link"
              tabIndex={stop ? 0 : -1}
              onClick={event => {
                event.stopPropagation();
                void presenter.reveal(site);
              }}
            >
              {placeText(site)}
            </button>
          </>
        )}
      </td>
    </>
  );
}

function Summary({ rows }: { rows: readonly Parameter[] }): ReactElement {
  const none = rows.filter(({ state, why }) => state === 'none' && why?.kind !== 'frozen').length;
  const frozen = rows.filter(({ why }) => why?.kind === 'frozen').length;
  const squares = rows.reduce((sum, { norm }) => sum + (norm ?? 0) ** 2, 0);
  const got = rows.some(({ norm }) => norm !== null);
  const unwatched = rows.some(({ state }) => state === 'unwatched');
  return (
    <p className="agv-line" style={{ marginTop: 0 }}>
      <b>{plural(rows.length, 'parameter')}</b>
      {none > 0 && (
        <>
          , <span className="agv-stale">{countText(none)} without a gradient</span>
        </>
      )}
      {frozen > 0 && `, ${countText(frozen)} frozen`}
      {unwatched && '; this pass was not watched while it ran, so its gradients are not known'}
      {got && `; |grad| of all together ${numberText(Math.sqrt(squares))}`}
    </p>
  );
}

/** Why a column is empty. */
function Note({ weights, why }: { weights: Weights | null; why: string }): ReactElement | null {
  const presenter = useInspector();
  const { store, graph } = presenter.model;
  let text = '';
  if (!weights) {
    text = presenter.live
      ? why
      : 'This file has no norms of the values: it was written without values, or by an earlier ' +
        'version.';
  } else if (graph.task !== newestPass(store)) {
    text = 'The norms of the values are known of the newest pass.';
  } else if (weights.left_out > 0) {
    text = `The values of ${plural(weights.left_out, 'parameter')} were too many to be measured.`;
  }
  return text ? <p className="agv-line agv-quiet">{oneLine(text, 300)}</p> : null;
}

export function ParameterTable(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { store, graph, states } = model;
  const [key, setKey] = useState<SortKey>('order');
  const [reverse, setReverse] = useState(false);
  const [query, setQuery] = useState('');
  const [noneOnly, setNoneOnly] = useState(false);
  const [stopKey, setStopKey] = useState('');
  const [chosen, setChosen] = useState('');
  const body = useRef<HTMLTableSectionElement>(null);
  const focusing = useRef(false);
  const { weights, why } = useWeights(presenter);
  const known = graph.task === newestPass(store) ? weights : null;
  const rows = useMemo(
    () => parametersOf(model, known),
    [model, graph, states, known, store.parameters.rows, store.absent.rows, store.labelled]
  );
  const wanted = useMemo(
    () =>
      sortedParameters(
        filtered(noneOnly ? rows.filter(({ state }) => state === 'none') : rows, query),
        key,
        reverse
      ),
    [rows, noneOnly, query, key, reverse]
  );
  const { from, to } = useWindow(body, wanted.length);
  const current = wanted.findIndex(row => row.key === stopKey);
  const stop = current >= from && current < to ? current : from;
  const own = wanted.findIndex(({ seq }) => seq !== null && seq === model.selected);
  // What is selected elsewhere comes into view; what is chosen here is there already.
  useEffect(() => {
    if (own >= 0) show(body.current, own);
  }, [model.selected, graph.task]);
  useLayoutEffect(() => {
    // One that is out of view is made when the side has been scrolled there.
    const found = focusing.current
      ? body.current?.querySelector<HTMLElement>(`[data-row="${current}"] button`)
      : null;
    if (found) {
      focusing.current = false;
      found.focus({ preventScroll: true });
    }
  });
  if (rows.length === 0) {
    return (
      <p className="agv-quiet" style={{ margin: 0 }}>
        {graph.seqs.length === 0 ? 'No graph yet.' : 'No parameter takes part in this pass.'}
      </p>
    );
  }
  const none = rows.some(({ state }) => state === 'none');
  const asked = rows.find(row => row.key === chosen && row.why?.text);

  const choose = (row: Parameter): void => {
    setStopKey(row.key);
    setChosen(row.key);
    if (row.seq !== null) presenter.goTo(row.seq);
    else if (row.why?.site) void presenter.reveal(row.why.site);
  };
  const go = (at: number): void => {
    const wantedAt = Math.min(wanted.length - 1, Math.max(0, at));
    show(body.current, wantedAt);
    setStopKey(wanted[wantedAt]?.key ?? '');
    focusing.current = true;
  };
  const press = (event: KeyboardEvent): void => {
    const to: Record<string, number> = {
      ArrowDown: stop + 1,
      ArrowUp: stop - 1,
      PageDown: stop + PAGE,
      PageUp: stop - PAGE,
      Home: 0,
      End: wanted.length - 1
    };
    if (event.key in to) {
      go(to[event.key]);
      event.preventDefault();
      event.stopPropagation();
    }
  };
  const sortBy = (column: SortKey): void => {
    // The third time is the order of the model again.
    const again = column === key;
    setKey(again && reverse ? 'order' : column);
    setReverse(again && !reverse);
  };
  // Names go up first, numbers down.
  const direction = (column: SortKey): Order =>
    (column === 'name') === reverse ? 'descending' : 'ascending';
  return (
    <div className="agv-params" data-version={model.version}>
      <Summary rows={rows} />
      <div className="agv-params-bar">
        <input
          type="search"
          value={query}
          placeholder="Filter by name or shape"
          aria-label="Filter parameters"
          onChange={event => setQuery(event.target.value)}
          onKeyDown={event => event.stopPropagation()}
        />
        {none && (
          <label className="agv-check">
            <input
              type="checkbox"
              checked={noneOnly}
              onChange={event => setNoneOnly(event.target.checked)}
            />
            only those without a gradient
          </label>
        )}
      </div>
      {asked?.why && (
        <p className="agv-params-why" role="status">
          <Words text={`\`${asked.name}\`: ${asked.why.text}.`} />
          {asked.why.repair && <Words text={` To mend it: ${asked.why.repair}.`} />}
        </p>
      )}
      <table aria-rowcount={wanted.length + 1} aria-label="Parameters of this pass">
        <colgroup>
          {COLUMNS.map(({ key: name, roomy }) => (
            <col key={name} data-column={name} data-roomy={roomy} />
          ))}
          <col data-column="passes" />
        </colgroup>
        <thead>
          <tr aria-rowindex={1}>
            {COLUMNS.map(column => (
              <SortHead
                key={column.key}
                title={column.label}
                says={column.says}
                order={column.key === key ? direction(key) : undefined}
                sort={() => sortBy(column.key)}
                data-roomy={column.roomy}
                data-number={column.number ? 'yes' : 'no'}
              />
            ))}
            <th scope="col" title="|grad| of each pass, log scale">
              passes
            </th>
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={press}>
          {from > 0 && <tr aria-hidden="true" style={{ height: from * ROW }} />}
          {wanted.slice(from, to).map((row, i) => (
            <tr
              key={row.key}
              data-row={from + i}
              aria-rowindex={from + i + 2}
              aria-current={row.seq !== null && row.seq === model.selected ? 'true' : undefined}
              data-none={row.norm === null ? 'yes' : 'no'}
              data-frozen={row.why?.kind === 'frozen' ? 'yes' : 'no'}
              onClick={() => choose(row)}
            >
              <th scope="row" title={oneLine(row.name || 'no variable has it')}>
                <button
                  type="button"
                  tabIndex={from + i === stop ? 0 : -1}
                  onFocus={() => setStopKey(row.key)}
                  onClick={event => {
                    event.stopPropagation();
                    choose(row);
                  }}
                >
                  {row.name ? (
                    <code>
                      <bdi>{oneLine(row.name, 120)}</bdi>
                    </code>
                  ) : (
                    <span className="agv-quiet">no name</span>
                  )}
                </button>
              </th>
              <td data-roomy="room" className="agv-quiet">{shapeText(row.shape)}</td>
              {row.norm === null ? (
                <Reason row={row} stop={from + i === stop} />
              ) : (
                <>
                  <td className="agv-number">
                    {Number.isFinite(row.norm) ? (
                      numberText(row.norm)
                    ) : (
                      <span className="agv-none">✕ {numberText(row.norm)}</span>
                    )}
                  </td>
                  <td data-roomy="room" className="agv-number">
                    {row.weight === null ? (
                      <span className="agv-quiet">–</span>
                    ) : (
                      numberText(ratioOf(row))
                    )}
                  </td>
                  <td data-roomy="some" className="agv-number">
                    {changeText(changeOf(row))}
                  </td>
                  <td>
                    <Sparkline parameter={row} />
                  </td>
                </>
              )}
            </tr>
          ))}
          {to < wanted.length && (
            <tr aria-hidden="true" style={{ height: (wanted.length - to) * ROW }} />
          )}
        </tbody>
      </table>
      {wanted.length === 0 && <p className="agv-line agv-quiet">None of them fits.</p>}
      <Note weights={weights} why={why} />
    </div>
  );
}
