// The whole Inspector: toolbar, graph, the side with node and problems, timeline; wide or narrow as
// there is room.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import { oneLine } from '../protocol/text';
import { earlierText } from '../model/earlier';
import { Boundary } from './boundary';
import { CompareView, compareKey } from './compare/compare_view';
import { GraphView } from './graph_view';
import { Header } from './header';
import { keepFocus } from './kept_focus';
import { KeysSheet, handleKey } from './keys';
import { LessonBar } from './lesson_bar';
import { useCell, useInspector } from './presenter';
import { TimeView } from './profile/time_view';
import { ScalarView } from './scalar_view';
import { usePlace } from './side_place';
import { TABS } from './tabs';
import { Timeline } from './timeline';
import { Toolbar } from './toolbar';

type Size = 'wide' | 'middle' | 'narrow';

/**
 * Where there is little height (a cell's output), the side stays beside the graph as long as it
 * can.
 */
function sizeFor(width: number, height: number): Size {
  return width >= 1000
    ? 'wide'
    : width >= 780 || (height < 620 && width >= 600)
      ? 'middle'
      : 'narrow';
}

function NoticeBar(): ReactElement | null {
  const presenter = useInspector();
  const { model } = presenter;
  const notice = useCell(presenter.notice);
  const { status, store } = model;
  // What the kernel or the connection has to say stands here until it has nothing to say any more.
  const lasting =
    model.graph.seqs.length > 0 && ['disconnected', 'failed', 'none'].includes(status.kind)
      ? status.detail || 'The kernel is gone. What was recorded stays here.'
      : store.state.message ||
        (status.kind === 'connected' || status.kind === 'offline' ? status.detail : '') ||
        earlierText(model);
  const shown =
    notice ??
    (model.failure && model.graph.seqs.length > 0
      ? { kind: 'error' as const, text: model.failure }
      : null);
  if (!shown && !lasting) {
    return null;
  }
  return (
    <div
      className="agv-notice"
      data-kind={shown ? shown.kind : status.kind === 'disconnected' ? 'error' : 'info'}
      role="alert"
    >
      <span>{oneLine(shown ? shown.text : lasting, 500)}</span>
      {notice && (
        <button
          type="button"
          aria-label="Close this message"
          onClick={() => presenter.clearNotice()}
        >
          ×
        </button>
      )}
    </div>
  );
}

/** The tabs that the lesson leaves, and the body of the chosen one. */
function Side(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const chosen = useCell(presenter.tab);
  const { sideShown, compact } = presenter;
  const { id, part, Body } = TABS.find(tab => tab.id === chosen) ?? TABS[0];
  const place = usePlace(model, id);
  return (
    <aside className="agv-side">
      <div className="agv-tabs">
        <div role="tablist" aria-label="About the graph">
          {TABS.map(tab => {
            const count = tab.count?.(model) ?? 0;
            return (
              <button
                key={tab.id}
                type="button"
                role="tab"
                hidden={
                  (tab.control !== undefined && presenter.hides(tab.control)) ||
                  tab.shown?.(model) === false
                }
                aria-selected={sideShown && tab.id === id}
                onClick={() => presenter.openTab(tab.id)}
              >
                {typeof tab.title === 'string' ? tab.title : tab.title(model)}
                {count > 0 && <span className="agv-count">{count}</span>}
              </button>
            );
          })}
        </div>
        <button
          type="button"
          style={{ marginLeft: 'auto' }}
          aria-expanded={compact ? undefined : sideShown}
          aria-label={sideShown ? 'Hide this side' : 'Show this side'}
          title={sideShown ? 'Hide this side' : 'Show this side'}
          onClick={() => (sideShown ? presenter.closeSide() : presenter.openSide())}
        >
          {sideShown ? '×' : '+'}
        </button>
      </div>
      <div ref={place} className="agv-scroll" role="tabpanel" tabIndex={0}>
        <Boundary key={id} part={part}>
          <Body />
        </Boundary>
      </div>
    </aside>
  );
}

/** Pixels from which header and buttons share a row, and buttons have labels. */
const ONE_ROW = 1100;
const OUTPUT_ROW = 600;
const LABELLED = 800;
/** Narrower than this, no button has a label. */
const TINY = 480;
/** Narrower than this, an output shows one of two compared graphs at a time. */
const TABBED = 700;
/** Pixels that an output has at first, and at most. */
const OUTPUT = { least: 320, compared: 440, most: 640 };

/** An output grows with its graph, and shrinks no more: what stands below it would jump. */
function useGrowth(
  root: React.RefObject<HTMLElement>,
  grow: ((height: number) => void) | undefined
): void {
  const presenter = useInspector();
  const given = useRef(OUTPUT.least);
  useEffect(() => {
    const comparing = presenter.comparing.value;
    const drawn = comparing
      ? (comparing.canvases.b ?? comparing.canvases.a)
      : (presenter.numbers ?? presenter.canvas);
    const graph = grow && drawn && root.current ? drawn.roomNeeded(root.current) : 0;
    const wanted = Math.max(comparing ? OUTPUT.compared : 0, graph);
    const height = Math.round(Math.min(OUTPUT.most, wanted));
    if (grow && height > given.current) {
      given.current = height;
      grow(height);
    }
  });
}

export function App({
  wheel,
  focus,
  grow
}: {
  wheel: 'always' | 'focused';
  focus: boolean;
  /** asks for so many pixels of height */
  grow?: (height: number) => void;
}): ReactElement {
  const presenter = useInspector();
  const root = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState<Size>('wide');
  const [width, setWidth] = useState(ONE_ROW);
  useGrowth(root, grow);
  useEffect(() => {
    const element = root.current;
    if (!element) {
      return undefined;
    }
    const measure = (): void => {
      setSize(sizeFor(element.clientWidth, element.clientHeight));
      setWidth(element.clientWidth);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    const focus = keepFocus(element);
    return () => {
      observer.disconnect();
      focus.dispose();
    };
  }, []);
  const theme = useCell(presenter.theme);
  const tab = useCell(presenter.tab);
  useCell(presenter.sideOpen);
  useCell(presenter.sideKept);
  const { compact, sideShown } = presenter;
  const comparing = useCell(presenter.comparing);
  const timed = useCell(presenter.timing.shown) && !comparing;
  const { graph, store } = presenter.model;
  const noGraph = graph.seqs.length === 0;
  const empty = noGraph && store.problems.length === 0;
  const side = !empty && !timed && !presenter.hides('side') && (sideShown || !compact);
  const { moments } = presenter;
  // A picture in an output has few buttons.
  const oneRow = width >= ONE_ROW || (compact && (width >= OUTPUT_ROW || !presenter.live));
  return (
    <div
      ref={root}
      className="agv-root"
      tabIndex={-1}
      data-agv-theme={theme}
      data-agv-size={size}
      data-agv-graph={noGraph ? 'no' : 'yes'}
      data-agv-tab={tab}
      data-agv-side={!side ? 'none' : sideShown ? 'open' : 'closed'}
      data-agv-compact={compact ? 'yes' : 'no'}
      data-agv-row={oneRow ? 'one' : 'two'}
      data-agv-labels={width < TINY ? 'none' : compact || width < LABELLED ? 'few' : 'all'}
      onKeyDown={event => {
        if (comparing ? compareKey(comparing, event) : handleKey(presenter, event)) {
          event.preventDefault();
          event.stopPropagation();
        }
      }}
    >
      <div className="agv-top">
        <Boundary part="the header" className="agv-header">
          <Header />
        </Boundary>
        <Boundary part="the toolbar" className="agv-bar">
          <Toolbar />
        </Boundary>
      </div>
      <LessonBar />
      <NoticeBar />
      {comparing ? (
        <Boundary part="the comparison" className="agv-mid">
          <CompareView comparing={comparing} wheel={wheel} tabs={compact && width < TABBED} />
        </Boundary>
      ) : timed ? (
        <Boundary part="the times" className="agv-mid">
          <TimeView wheel={wheel} />
        </Boundary>
      ) : (
        <div className="agv-mid">
          <Boundary part="the graph" className="agv-graph">
            {presenter.teaching.scalars && !noGraph ? (
              <ScalarView />
            ) : (
              <GraphView wheel={wheel} focus={focus} />
            )}
          </Boundary>
          {side && (
            <Boundary part="the side" className="agv-side">
              <Side />
            </Boundary>
          )}
        </div>
      )}
      {!noGraph && !comparing && moments && !presenter.hides('timeline') && (
        <Boundary part="the timeline" className="agv-time">
          <Timeline />
        </Boundary>
      )}
      <KeysSheet />
    </div>
  );
}
