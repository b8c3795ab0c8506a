// Every number of a tiny network: boxes with value and gradient, lines with local derivatives, and
// the chain rule at the number that is chosen.

import type { KeyboardEvent, ReactElement } from 'react';
import { useEffect, useMemo, useRef, useState } from 'react';
import { oneLine } from '../protocol/text';
import { numberText, shortText } from '../model/format';
import type { ChosenNumber, NumberGraph } from '../model/scalars';
import { chainText, nameOf, numberAt, numberGraph } from '../model/scalars';
import { STATE_NAMES, State } from '../model/states';
import type { NumberPlaces } from '../layout/scalars';
import { BOX, pathOf, placeLabels, placeNumbers } from '../layout/scalars';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';
import type { Zoom } from './number_zoom';
import { useZoom } from './number_zoom';
import { ViewSwitch } from './view_switch';

/** From so many lines on, only those at the chosen number have their derivative on them. */
const MOST_LABELS = 90;
/** Characters for which a box has room beside the sign or place at its left. */
const MOST_CHARACTERS = 7;
/** Above the drawing: the switch of views. */
const ABOVE = 46;

/** The gradient of this node arrived at the moment shown, or it is a graph that none ran over. */
function arrived(presenter: Presenter, seq: number): boolean {
  const { model, teaching } = presenter;
  if (teaching.predictor.hides(seq)) {
    return false;
  }
  if (model.graph.task === null) {
    return true;
  }
  const state = model.stateOf(seq);
  return (
    state === State.done ||
    state === State.next ||
    state === State.running ||
    state === State.problem
  );
}

/** The number that an arrow key leads to. */
function neighbour(
  graph: NumberGraph,
  { y, columns, column }: NumberPlaces,
  from: number,
  key: string
): number {
  const { groups, nums } = graph;
  const at = column[nums[from].group];
  const there = key === 'ArrowLeft' ? at - 1 : key === 'ArrowRight' ? at + 1 : at;
  const list = (columns[there] ?? []).flatMap(group =>
    Array.from({ length: groups[group].count }, (_, i) => groups[group].first + i)
  );
  if (there === at) {
    const place = list.indexOf(from) + (key === 'ArrowUp' ? -1 : 1);
    return list[place] ?? from;
  }
  const linked = (key === 'ArrowRight' ? graph.leaving : graph.coming)[from]
    .map(i => (key === 'ArrowRight' ? graph.links[i].to : graph.links[i].from))
    .filter(num => list.includes(num));
  const choice = linked.length > 0 ? linked : list;
  const far = (num: number): number => Math.abs(y[num] - y[from]);
  return choice.reduce((best, num) => (far(num) < far(best) ? num : best), choice[0] ?? from);
}

/** What of the drawing stays while the numbers of another pass come. */
interface Kept {
  chosen: ChosenNumber | null;
  setChosen(chosen: ChosenNumber): void;
  /** null: fitted */
  scale: number | null;
  setScale(scale: number | null): void;
}

export function ScalarView(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const [chosen, setChosen] = useState<ChosenNumber | null>(null);
  const [scale, setScale] = useState<number | null>(null);
  const answer = presenter.answers.scalars();
  const scalars = answer.kind === 'answer' ? answer.value : null;
  const graph = useMemo(
    () =>
      scalars && scalars.nodes.length > 0
        ? numberGraph(scalars.nodes, seq => model.store.label(seq))
        : null,
    [scalars, model]
  );
  const why =
    answer.kind === 'none'
      ? answer.why || 'The numbers of this graph are not known here.'
      : answer.kind === 'waiting'
        ? 'Asking the kernel…'
        : (scalars?.why ?? '');
  const large = scalars?.seq ?? null;
  return (
    <div className="agv-scalars agv-graph-like">
      <ViewSwitch />
      {graph ? (
        <Drawing graph={graph} kept={{ chosen, setChosen, scale, setScale }} />
      ) : (
        <div className="agv-refused" role="status">
          <p>{oneLine(why, 500)}</p>
          {large !== null && model.graph.indexOf.has(large) && (
            <button
              type="button"
              className="agv-btn"
              onClick={() => {
                presenter.teaching.setScalars(false);
                presenter.goTo(large);
              }}
            >
              Show this node
            </button>
          )}
        </div>
      )}
    </div>
  );
}

function Drawing({ graph, kept }: { graph: NumberGraph; kept: Kept }): ReactElement {
  const { chosen, setChosen } = kept;
  const presenter = useInspector();
  const { model } = presenter;
  const { groups, nums, links, leaving, coming, gaps } = graph;
  const places = useMemo(() => placeNumbers(graph), [graph]);
  const svg = useRef<SVGSVGElement>(null);
  const scroll = useRef<HTMLDivElement>(null);
  const { width, height } = places;
  const zoom = useZoom(scroll, { width, height, above: ABOVE }, kept.scale, kept.setScale);
  const { zoomBy, fit } = zoom;
  useEffect(() => {
    const roomNeeded = (around: HTMLElement): number => {
      const shown = scroll.current?.clientHeight ?? 0;
      return around.clientHeight - shown + ABOVE + height + ABOVE / 2;
    };
    presenter.numbers = { zoomBy, fit, roomNeeded };
    return () => {
      presenter.numbers = null;
    };
  }, [presenter, zoomBy, fit, height]);
  const at = numberAt(nums, model.selected, chosen);
  const known = (num: number): boolean => arrived(presenter, nums[num].seq);
  const near = new Set(at >= 0 ? [...leaving[at], ...coming[at]] : []);
  const labels = useMemo(() => {
    const all = links.length <= MOST_LABELS;
    const texts = new Map<number, string>();
    links.forEach(({ slope }, i) => {
      const shown = all || (at >= 0 && (links[i].from === at || links[i].to === at));
      if (shown) texts.set(i, numberText(slope));
    });
    return placeLabels(places, texts);
  }, [places, links, at]);
  const focus = useRef(false);
  useEffect(() => {
    const box = svg.current?.querySelector<SVGGElement>(`[data-num="${at}"]`);
    box?.scrollIntoView?.({ block: 'nearest', inline: 'nearest' });
    if (focus.current) {
      focus.current = false;
      box?.focus();
    }
  }, [at]);

  const choose = (num: number): void => {
    const { seq, output, element } = nums[num];
    setChosen({ seq, output, element });
    presenter.tab.set('node');
    model.select(nums[num].seq);
    presenter.show();
  };
  const key = (event: KeyboardEvent, num: number): void => {
    if (event.key.startsWith('Arrow')) {
      focus.current = true;
      choose(neighbour(graph, places, num, event.key));
    } else if (event.key === 'Enter') {
      choose(num);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <>
      <div ref={scroll} className="agv-scalars-scroll">
        <svg
          ref={svg}
          viewBox={`0 0 ${width} ${height}`}
          width={width * zoom.scale}
          height={height * zoom.scale}
          role="group"
          aria-label={`${nums.length} numbers in ${groups.length} tensors, the result at the right`}
        >
          {places.tied.map((route, i) => (
            <path key={`tie ${i}`} d={pathOf(route)} data-tie="yes" />
          ))}
          {links.map(({ from, slope }, i) => (
            <path
              key={i}
              d={pathOf(places.routes[i])}
              data-zero={slope === 0 ? 'yes' : undefined}
              data-near={near.has(i) ? 'yes' : undefined}
              data-flowed={known(from) && nums[from].gradient !== null ? 'yes' : undefined}
            />
          ))}
          {labels.map(({ link, x, y, width: wide }) => (
            <g key={link} aria-hidden="true">
              <rect
                className="agv-plate"
                x={x - wide / 2}
                y={y - 8.5}
                width={wide}
                height={17}
                rx={4}
              />
              <text
                className="agv-slope"
                x={x}
                y={y + 4.4}
                textAnchor="middle"
                data-near={near.has(link) ? 'yes' : undefined}
              >
                {numberText(links[link].slope)}
              </text>
            </g>
          ))}
          {groups.map(({ seq, first, title, detail }, group) => (
            <text
              key={group}
              className="agv-caption"
              x={places.x[first] + 1}
              y={places.y[first] - 9}
              onClick={() => choose(first)}
            >
              {title}
              <tspan className="agv-caption-more" dx="6">
                {detail}
              </tspan>
              <title>{`${model.titleOf(seq)}`}</title>
            </text>
          ))}
          {nums.map(({ seq, group, place, value, gradient }, num) => {
            const shown = known(num) && gradient !== null;
            const words = shown ? numberText(gradient) : 'not known yet';
            const [x, y] = [places.x[num], places.y[num]];
            return (
              <g
                key={num}
                role="button"
                tabIndex={num === Math.max(0, at) ? 0 : -1}
                data-num={num}
                data-agv-keys="graph"
                data-leaf={groups[group].leaf ? 'yes' : undefined}
                data-state={STATE_NAMES[model.stateOf(seq)]}
                data-chosen={num === at ? 'yes' : undefined}
                aria-pressed={num === at}
                aria-label={
                  `${nameOf(graph, num)}: ` +
                  `value ${value === null ? 'not kept' : numberText(value)}, ` +
                  `gradient ${words}`
                }
                onClick={() => choose(num)}
                onKeyDown={event => key(event, num)}
              >
                <rect
                  className="agv-num"
                  x={x}
                  y={y}
                  width={BOX.width}
                  height={BOX.height}
                  rx={8}
                />
                <text className="agv-caption-more" x={x + 7} y={y + 18}>
                  {place}
                </text>
                <text className="agv-value" x={x + BOX.width - 8} y={y + 18} textAnchor="end">
                  {value === null ? '–' : shortText(value, MOST_CHARACTERS)}
                </text>
                <text className="agv-caption-more" x={x + 7} y={y + 37}>
                  ∂
                </text>
                <text
                  className="agv-grad"
                  data-kind={shown ? undefined : 'none'}
                  x={x + BOX.width - 8}
                  y={y + 37}
                  textAnchor="end"
                >
                  {shown ? shortText(gradient, MOST_CHARACTERS) : '?'}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
      {!presenter.hides('zoom') && <ZoomButtons zoom={zoom} />}
      <div className="agv-rule" role="status">
        {at >= 0 ? (
          <code>{chainText(graph, at, known)}</code>
        ) : (
          <span className="agv-quiet">
            In each box: the number, and below it its gradient. On the lines: the local derivative.
            Choose a number to read the chain rule.
          </span>
        )}
        {gaps.length > 0 && (
          <div className="agv-line agv-quiet">
            Dashed lines: the local derivatives are not known where {gaps[0]}
            {gaps.length > 1 ? ` (and ${gaps.length - 1} more)` : ''}
          </div>
        )}
      </div>
    </>
  );
}

function ZoomButtons({ zoom }: { zoom: Zoom }): ReactElement {
  return (
    <div className="agv-zoom" data-agv-over="yes">
      <button
        type="button"
        aria-label="Larger"
        title="Larger (+)"
        onClick={() => zoom.zoomBy(1.3)}
      >
        +
      </button>
      <button
        type="button"
        aria-label="Smaller"
        title="Smaller (−)"
        onClick={() => zoom.zoomBy(1 / 1.3)}
      >
        −
      </button>
      <button
        type="button"
        aria-label="Fit to the width"
        title="Fit to the width (space)"
        aria-pressed={zoom.fitted}
        onClick={zoom.fit}
      >
        <svg width="12" height="12" aria-hidden="true">
          <path
            d="M1 4V1H4M8 1H11V4M11 8V11H8M4 11H1V8"
            fill="none"
            stroke="currentColor"
            strokeWidth="1.4"
          />
        </svg>
      </button>
    </div>
  );
}
