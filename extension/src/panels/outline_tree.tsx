// The graph as a tree of words: groups, the nodes in open ones, with the keys of a tree. It is the
// way through the graph for screen readers, and a table of contents for everybody.

import type { KeyboardEvent, ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import { oneLine } from '../protocol/text';
import { levelOf, measureText, valueOf } from '../model/colouring';
import type { Container } from '../model/container';
import { numberText, placeText, plural } from '../model/format';
import { KIND_SIGNS, KIND_WORDS, gradientKind } from '../model/gradient_kind';
import type { InspectorModel } from '../model/inspector';
import type { NodeState } from '../model/states';
import { STATE_NAMES, State } from '../model/states';
import { nodeWords } from './outline';
import { useInspector } from './presenter';

/** Rows that are made; the search finds what lies beyond them. */
const MOST = 600;

type Row =
  { kind: 'group'; group: Container; level: number } | { kind: 'node'; seq: number; level: number };

function rowsOf(model: InspectorModel): { rows: Row[]; more: number } {
  const { graph, root, folding } = model;
  const rows: Row[] = [];
  let more = 0;
  const nodes = (from: number, to: number, level: number): void => {
    for (let i = from; i < to; i++) {
      if (rows.length < MOST) rows.push({ kind: 'node', seq: graph.seqs[i], level });
      else more++;
    }
  };
  const walk = (container: Container, level: number): void => {
    let at = container.first;
    for (const child of container.children) {
      nodes(at, child.first, level);
      at = child.last;
      if (rows.length >= MOST) {
        more += child.nodes;
        continue;
      }
      rows.push({ kind: 'group', group: child, level });
      if (folding.isOpen(child)) walk(child, level + 1);
    }
    nodes(at, container.last, level);
  };
  walk(root, 1);
  return { rows, more };
}

const INDENT = 14;
/** A node's name stands where the title of a group at its level does: after the fold. */
const BESIDE_FOLD = 21;

/** What a state looks like in one character; a remarkable gradient has its own. */
const STATE_SIGNS: Partial<Record<NodeState, string>> = {
  [State.next]: '▸',
  [State.running]: '▸',
  [State.done]: '✓',
  [State.problem]: '✕'
};

/** Columns: the name and its expression, the gradient's norm, a sign for what it is. */
function NodeRow({ seq }: { seq: number }): ReactElement {
  const { model, teaching } = useInspector();
  const at = model.graph.indexOf.get(seq);
  const hidden = teaching.predictor.hides(seq);
  const norm = at < 0 || hidden ? -1 : model.states.norm[at];
  const kind = at < 0 || hidden ? 'plain' : gradientKind(model.states, at);
  const state = model.stateOf(seq);
  const site = model.siteOf(seq);
  const text = site ? oneLine(site.text || site.source_line, 60) : '';
  return (
    <>
      <span className="agv-elide" title={text && site ? `${placeText(site)}: ${text}` : undefined}>
        {oneLine(model.titleOf(seq), 60)} <code className="agv-quiet">{text}</code>
      </span>
      <span className="agv-number">{norm < 0 ? '' : numberText(norm)}</span>
      <span className="agv-sign" data-kind={kind} title={KIND_WORDS[kind] || STATE_NAMES[state]}>
        {KIND_SIGNS[kind] || STATE_SIGNS[state] || ''}
      </span>
    </>
  );
}

function keyOf(row: Row): string {
  return row.kind === 'group' ? row.group.key : `#${row.seq}`;
}

/** The number by which boxes are coloured, and its colour. */
function Swatch({ model, row }: { model: InspectorModel; row: Row }): ReactElement | null {
  const { colouring, graph } = model;
  if (!colouring) {
    return null;
  }
  const value =
    row.kind === 'group'
      ? valueOf(colouring, row.group)
      : colouring.nodes[graph.indexOf.get(row.seq)];
  if (Number.isNaN(value)) {
    return null;
  }
  const at = 4 * levelOf(colouring, value);
  const [low, part] = [Math.min(3, Math.floor(at)), at - Math.min(3, Math.floor(at))];
  const ends = [low, low + 1].map(stop => `var(--agv-ramp${stop})`);
  const background = `color-mix(in srgb, ${ends[1]} ${Math.round(100 * part)}%, ${ends[0]})`;
  return (
    <span className="agv-swatch">
      {measureText(colouring.by, value)}
      <i style={{ background }} />
    </span>
  );
}

export function OutlineTree(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const tree = useRef<HTMLUListElement>(null);
  const [focused, setFocused] = useState('');
  const { rows, more } = rowsOf(model);
  const { group: own, selected } = model;
  const chosen = own ? own.key : selected === null ? '' : `#${selected}`;
  const at = Math.max(
    0,
    rows.findIndex(row => keyOf(row) === focused)
  );
  useEffect(() => {
    const row = tree.current?.children[at];
    const inside = tree.current?.contains(document.activeElement) ?? false;
    if (inside && row instanceof HTMLElement) row.focus();
  }, [at]);

  const choose = (row: Row): void => {
    setFocused(keyOf(row));
    if (row.kind === 'node') {
      model.select(row.seq);
      presenter.canvas?.reveal(row.seq);
    } else {
      presenter.goToGroup(row.group);
    }
  };
  const key = (event: KeyboardEvent): void => {
    const row = rows[at];
    const group = row?.kind === 'group' ? row.group : null;
    const open = group !== null && model.folding.isOpen(group);
    if (event.key === 'ArrowDown' && at + 1 < rows.length) setFocused(keyOf(rows[at + 1]));
    else if (event.key === 'ArrowUp' && at > 0) setFocused(keyOf(rows[at - 1]));
    else if (event.key === 'Home') setFocused(keyOf(rows[0]));
    else if (event.key === 'End') setFocused(keyOf(rows[rows.length - 1]));
    else if (event.key === 'ArrowRight' && group && !open) presenter.fold(group, true);
    else if (event.key === 'ArrowLeft' && group && open) presenter.fold(group, false);
    else if (event.key === 'ArrowLeft') {
      for (let above = at - 1; above >= 0; above--) {
        if (rows[above].level < row.level) {
          setFocused(keyOf(rows[above]));
          break;
        }
      }
    } else if ((event.key === 'Enter' || event.key === ' ') && row) choose(row);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  if (rows.length === 0) {
    return <p className="agv-quiet">No graph yet.</p>;
  }
  return (
    <>
      <div className="agv-row" style={{ marginTop: 0 }}>
        <button type="button" className="agv-btn" onClick={() => presenter.foldAll(false)}>
          Close all
        </button>
        <button type="button" className="agv-btn" onClick={() => presenter.foldAll(true)}>
          Open all
        </button>
      </div>
      <div className="agv-tree-head" aria-hidden="true">
        <span>name</span>
        <span>norm</span>
        <span>sign</span>
      </div>
      <ul ref={tree} className="agv-tree" role="tree" aria-label="Groups and nodes" onKeyDown={key}>
        {rows.map((row, i) => {
          const group = row.kind === 'group' ? row.group : null;
          const open = group !== null && model.folding.isOpen(group);
          const name = keyOf(row);
          return (
            <li
              key={name}
              role="treeitem"
              aria-level={row.level}
              aria-expanded={group ? open : undefined}
              aria-selected={name === chosen}
              tabIndex={i === at ? 0 : -1}
              aria-label={row.kind === 'node' ? nodeWords(model, row.seq) : undefined}
              style={{ paddingLeft: INDENT * (row.level - 1) + (group ? 2 : BESIDE_FOLD) }}
              onFocus={() => setFocused(name)}
              onClick={() => choose(row)}
              onDoubleClick={() => group && presenter.fold(group, !open)}
            >
              {group ? (
                <>
                  <span
                    className="agv-fold"
                    aria-hidden="true"
                    onClick={event => {
                      event.stopPropagation();
                      presenter.fold(group, !open);
                    }}
                  >
                    {open ? '▾' : '▸'}
                  </span>
                  <span className="agv-elide">
                    <b>{oneLine(group.title, 80)}</b>{' '}
                    {group.detail !== group.title && (
                      <span className="agv-quiet">{oneLine(group.detail, 60)}</span>
                    )}
                  </span>
                  <span className="agv-quiet">{plural(group.nodes, 'node')}</span>
                  <span className="agv-sign" />
                </>
              ) : (
                row.kind === 'node' && <NodeRow seq={row.seq} />
              )}
              <Swatch model={model} row={row} />
            </li>
          );
        })}
      </ul>
      {more > 0 && (
        <p className="agv-line agv-quiet">
          {plural(more, 'node')} more: close groups, or find them by name.
        </p>
      )}
    </>
  );
}
