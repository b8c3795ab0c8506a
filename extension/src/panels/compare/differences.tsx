// The differences as a list, the most telling first, and all about the chosen pair.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';
import type { NodeDetails, Site, Values } from '../../protocol/schema';
import { oneLine } from '../../protocol/text';
import type { Change, Comparison, Difference } from '../../model/compare/differences';
import {
  KIND_MARKS,
  KIND_NAMES,
  Kind,
  factorText,
  gradientText,
  ratioOf
} from '../../model/compare/differences';
import type { Which } from '../../model/compare/model';
import { bytesText, countText, numberText, placeText, plural, shapeText } from '../../model/format';
import type { Answer } from '../answers';
import { useInspector } from '../presenter';
import { SourceLink } from '../source_link';
import type { Comparing } from './comparing';

/** So many are in the list at first, and more with each click. */
const PAGE = 200;

function Mark({ kind }: { kind: Kind }): ReactElement {
  return (
    <span className="agv-kind" data-kind={KIND_NAMES[kind]}>
      <b aria-hidden="true">{KIND_MARKS[kind]}</b>
      <span className="agv-hidden">{KIND_NAMES[kind]}</span>
    </span>
  );
}

/** Equal but for the gradient that arrived. */
function GradientMark(): ReactElement {
  return (
    <span className="agv-kind" data-kind="gradient">
      <b aria-hidden="true">∇</b>
      <span className="agv-hidden">gradient</span>
    </span>
  );
}

/** What the list holds, in words. */
function headingOf({ differences, nodes }: Comparison): string {
  const loud = differences.filter(({ kind }) => kind === Kind.equal).length;
  const apart = differences.length - loud;
  const parts = apart > 0 ? [plural(apart, 'difference')] : loud > 0 ? [] : ['No differences'];
  if (loud > 0) parts.push(`${plural(loud, 'gradient')} at least doubled or halved`);
  if (nodes.equal > 0) parts.push(plural(nodes.equal, 'equal node'));
  return parts.join(', ');
}

/** One difference in a line. */
export function toldOf(difference: Difference): string {
  const { kind, a, b, changes, gradient } = difference;
  const parts: string[] = [];
  if (kind === Kind.added || kind === Kind.removed) {
    const count = a.length + b.length;
    parts.push(difference.leaf ? 'leaf' : count === 1 ? 'one node' : `${countText(count)} nodes`);
  }
  for (const { what, of, from, to } of changes.slice(0, 3)) {
    parts.push(what === 'source' ? 'its line' : `${of || what} ${from} → ${to}`);
  }
  if (changes.length > 3) parts.push(`${changes.length - 3} more`);
  if (gradient && (ratioOf(gradient) >= 2 || !(ratioOf(gradient) > 0.5)))
    parts.push(gradientText(gradient));
  return parts.join('; ');
}

function Row({
  difference,
  comparing
}: {
  difference: Difference;
  comparing: Comparing;
}): ReactElement {
  const row = useRef<HTMLButtonElement>(null);
  const chosen = comparing.model.chosen === difference;
  useEffect(() => {
    if (chosen) row.current?.scrollIntoView?.({ block: 'nearest' });
  }, [chosen]);
  const { kind, title, site } = difference;
  const loud = difference.changes.length === 0 && kind === Kind.equal;
  return (
    <li>
      <button
        ref={row}
        type="button"
        className="agv-difference"
        aria-current={chosen}
        onClick={() => comparing.choose(difference)}
      >
        {loud ? <GradientMark /> : <Mark kind={kind} />}
        <span>
          <b>{oneLine(title, 90)}</b>
          {site && <span className="agv-quiet"> {placeText(site)}</span>}
          <small>{oneLine(toldOf(difference), 260)}</small>
        </span>
      </button>
    </li>
  );
}

export function Differences({ comparing }: { comparing: Comparing }): ReactElement {
  const [shown, setShown] = useState(PAGE);
  const { comparison } = comparing.model;
  const { differences } = comparison;
  return (
    <aside className="agv-side agv-compare-side" aria-label="Differences">
      <Pair comparing={comparing} />
      <div className="agv-compare-list" role="region" aria-label="List of differences" tabIndex={0}>
        <h3 className="agv-sec">{headingOf(comparison)}</h3>
        <ol>
          {differences.slice(0, shown).map((difference, i) => (
            <Row key={i} difference={difference} comparing={comparing} />
          ))}
        </ol>
        {differences.length > shown && (
          <button type="button" className="agv-btn" onClick={() => setShown(shown + PAGE)}>
            {`${countText(differences.length - shown)} more`}
          </button>
        )}
      </div>
    </aside>
  );
}

function answered<T>(answer: Answer<T> | null): T | null {
  return answer?.kind === 'answer' ? answer.value : null;
}

interface Known {
  seq: number;
  details: NodeDetails | null;
  name: string;
  shape: string;
  dtype: string;
  scope: string;
  saved: string[];
  bytes: number;
  site: Site | null;
}

function knownOf(comparing: Comparing, side: Which, seq: number | null): Known | null {
  if (seq === null) {
    return null;
  }
  const { graph, facts, store } = comparing.model[side];
  const details = answered(comparing.details(side, seq));
  const index = graph.indexOf.get(seq);
  if (index < 0) {
    const leaf = facts.leaves.find(known => known.seq === seq);
    const { label = '', shape = '', dtype = '' } = leaf ?? {};
    const name = label || 'a leaf';
    return { seq, details, name, shape, dtype, scope: '', saved: [], bytes: 0, site: null };
  }
  return {
    seq,
    details,
    name: facts.name[index],
    shape: facts.shape[index],
    dtype: facts.dtype[index],
    scope: facts.scope[index],
    saved: store.savedOf.rows(seq).map(row => store.string(store.saved.at.name[row])),
    bytes: facts.bytes[index],
    site: facts.site[index]
  };
}

type Cell = ReactElement | string;

function Line({
  what,
  left,
  right,
  differs
}: {
  what: string;
  left: Cell;
  right: Cell;
  differs: boolean;
}): ReactElement {
  return (
    <tr data-differs={differs ? 'yes' : 'no'}>
      <th scope="row">
        {what}
        {differs && <span className="agv-hidden"> differs</span>}
      </th>
      <td>{left}</td>
      <td>{right}</td>
    </tr>
  );
}

function Pair({ comparing }: { comparing: Comparing }): ReactElement {
  const { model } = comparing;
  const { a, b } = model.pair;
  const [left, right] = [knownOf(comparing, 'a', a), knownOf(comparing, 'b', b)];
  if (!left && !right) {
    return (
      <div className="agv-compare-pair" data-empty="yes">
        <p className="agv-quiet">
          Select a node in one of the graphs, or a difference below: its partner is selected with
          it.
        </p>
      </div>
    );
  }
  const side = b === null ? 'a' : 'b';
  const seq = (b ?? a) as number;
  const kind = model.kindOf(side, seq);
  const gradient = model.gradientOf(model.pair);
  const changes = model.changesOf(side, seq);
  const leaf = !model[side].graph.indexOf.has(seq);
  const line = (what: string, of: (known: Known) => string, always = true): ReactElement | null => {
    const [one, other] = [left ? of(left) : 'not there', right ? of(right) : 'not there'];
    return always || one !== other ? (
      <Line
        what={what}
        left={oneLine(one, 120)}
        right={oneLine(other, 120)}
        differs={left !== null && right !== null && one !== other}
      />
    ) : null;
  };
  const place = (known: Known | null): Cell =>
    known?.site ? <SourceLink site={known.site} /> : known ? 'not known' : 'not there';
  const text = (known: Known | null): string => known?.site?.source_line ?? '';
  return (
    <div className="agv-compare-pair" role="region" aria-label="The chosen pair" tabIndex={0}>
      <div className="agv-head">
        <h3>{oneLine(right?.name ?? left?.name ?? '', 60)}</h3>
        <span className="agv-kind" data-kind={KIND_NAMES[kind]}>
          <b aria-hidden="true">{KIND_MARKS[kind]}</b> {KIND_NAMES[kind]}
        </span>
      </div>
      <table>
        <thead>
          <tr>
            <th scope="col">
              <span className="agv-hidden">fact</span>
            </th>
            <th scope="col">left</th>
            <th scope="col">right</th>
          </tr>
        </thead>
        <tbody>
          {line(leaf ? 'name' : 'op', known => known.name)}
          {line('shape', known => shapeText(known.shape))}
          {line('dtype', known => known.dtype, false)}
          {!leaf && line('module', known => known.scope || 'none', false)}
          {!leaf && (
            <Line
              what="line"
              left={place(left)}
              right={place(right)}
              differs={left !== null && right !== null && text(left) !== text(right)}
            />
          )}
          {text(left) !== text(right) && (
            <Line
              what="code"
              left={<code>{oneLine(text(left), 160)}</code>}
              right={<code>{oneLine(text(right), 160)}</code>}
              differs={left !== null && right !== null}
            />
          )}
          {!leaf && line('saved', known => bytesText(known.bytes))}
          <Attributes left={left} right={right} changes={changes} />
        </tbody>
      </table>
      {gradient && <p className="agv-line">Gradient: {gradientText(gradient)}</p>}
      {left && right && <ValueDeltas comparing={comparing} left={left} right={right} />}
    </div>
  );
}

/** What nodes saved that is no tensor, where it differs; and inputs that do. */
function Attributes({
  left,
  right,
  changes
}: {
  left: Known | null;
  right: Known | null;
  changes: readonly Change[];
}): ReactElement {
  const inputs = changes.filter(({ what }) => what === 'inputs');
  const of = (known: Known | null): Map<string, string> | null =>
    known?.details?.alive
      ? new Map(known.details.values.map(({ name, text }) => [name, text]))
      : null;
  const [one, other] = [of(left), of(right)];
  const names = one && other ? [...new Set([...one.keys(), ...other.keys()])] : [];
  const apart = names.filter(name => one?.get(name) !== other?.get(name));
  return (
    <>
      {inputs.map(({ of: what, from, to }) => (
        <Line key={what} what={what} left={oneLine(from)} right={oneLine(to)} differs />
      ))}
      {apart.map(name => (
        <Line
          key={name}
          what={oneLine(name, 40)}
          left={oneLine(one?.get(name) ?? 'none', 100)}
          right={oneLine(other?.get(name) ?? 'none', 100)}
          differs
        />
      ))}
    </>
  );
}

const STATISTICS: readonly (readonly [string, (values: Values) => number | null])[] = [
  ['norm', values => values.norm],
  ['mean', values => values.mean],
  ['min', values => values.min],
  ['max', values => values.max],
  ['NaN', values => values.nan],
  ['infinite', values => values.inf],
  ['zero', values => values.zero]
];

/** Numbers of the tensors that both sides still hold. */
function ValueDeltas({
  comparing,
  left,
  right
}: {
  comparing: Comparing;
  left: Known;
  right: Known;
}): ReactElement {
  const leaf = left.saved.length + right.saved.length === 0 && left.site === null;
  const names = leaf ? ['variable', 'grad'] : left.saved.filter(name => right.saved.includes(name));
  const found = names.flatMap(name => {
    const which = leaf ? name : `saved:${name}`;
    const one = answered(comparing.values('a', left.seq, which));
    const other = answered(comparing.values('b', right.seq, which));
    return one && other ? [{ name, one, other }] : [];
  });
  const { live } = useInspector();
  if (found.length === 0) {
    const why = live
      ? 'Numbers: one side has freed its tensors; recordings saved with values hold them.'
      : 'Numbers: not held on both sides.';
    return names.length > 0 ? <p className="agv-line agv-quiet">{why}</p> : <></>;
  }
  return (
    <>
      {found.map(({ name, one, other }) => (
        <table key={name} className="agv-deltas">
          <caption>{leaf ? name : `saved ${oneLine(name, 40)}`}</caption>
          <tbody>
            {STATISTICS.filter(
              ([what, of]) => (of(one) ?? 0) !== 0 || (of(other) ?? 0) !== 0 || what === 'norm'
            ).map(([what, of]) => {
              const [from, to] = [of(one), of(other)];
              return (
                <tr key={what} data-differs={from === to ? 'no' : 'yes'}>
                  <th scope="row">{what}</th>
                  <td>{numberText(from)}</td>
                  <td>{numberText(to)}</td>
                  <td>{deltaText(from, to)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      ))}
    </>
  );
}

/** '+0.3', or a factor where the number is another order of size. */
export function deltaText(from: number | null, to: number | null): string {
  if (from === null || to === null) {
    return '';
  }
  if (from === to) {
    return 'the same';
  }
  const ratio = from !== 0 ? to / from : NaN;
  return ratio > 0 && (ratio >= 2 || ratio <= 0.5)
    ? factorText(ratio)
    : `${to > from ? '+' : ''}${numberText(to - from)}`;
}
