// Where a backward pass stops: the list, and what can be added to it.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { Breakpoint, Commands } from '../protocol/schema';
import { oneLine } from '../protocol/text';
import { numberText, placeText } from '../model/format';
import { Menu } from './menu';
import { useInspector } from './presenter';

type Criteria = Omit<Commands['breakpoint']['args'], 'on' | 'number'>;

/** A breakpoint in words. */
export function breakpointWords(point: Breakpoint | Criteria): string {
  const parts: string[] = [];
  if (point.seq !== undefined) parts.push(`node #${point.seq}`);
  if (point.name !== undefined) parts.push(`every ${oneLine(point.name, 60)}`);
  if (point.line !== undefined) parts.push(`nodes of line ${point.line}`);
  if (point.above !== undefined) parts.push(`gradient norm above ${numberText(point.above)}`);
  if (point.nonfinite) parts.push('NaN or ∞ in the gradient');
  if (point.shape !== undefined) {
    parts.push(`gradient of shape ${oneLine(point.shape, 40) || 'scalar'}`);
  }
  return parts.join(', ');
}

const KINDS = [
  { kind: 'above', label: 'gradient norm above', start: '100', example: '100' },
  { kind: 'nonfinite', label: 'NaN or ∞ in the gradient', start: '', example: '' },
  { kind: 'shape', label: 'gradient of shape', start: '', example: '4×2, * for any' },
  { kind: 'name', label: 'every node named', start: '', example: 'ReluBackward0' }
] as const;
type Kind = (typeof KINDS)[number]['kind'];

function criteriaOf(kind: Kind, text: string): Criteria | null {
  const trimmed = text.trim();
  if (kind === 'nonfinite') {
    return { nonfinite: true };
  }
  if (kind === 'above') {
    return trimmed !== '' && Number.isFinite(Number(trimmed)) ? { above: Number(trimmed) } : null;
  }
  if (trimmed === '') {
    return null;
  }
  return kind === 'shape' ? { shape: trimmed } : { name: trimmed };
}

function ConditionForm(): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const [kind, setKind] = useState<Kind>('above');
  const [text, setText] = useState<string>('100');
  const criteria = criteriaOf(kind, text);
  const names = new Set(Array.from(model.graph.seqs.subarray(0, 2000), s => model.store.nameOf(s)));
  return (
    <form
      className="agv-form"
      onSubmit={event => {
        event.preventDefault();
        if (criteria) void presenter.command('breakpoint', { on: true, ...criteria });
      }}
    >
      <select
        aria-label="Stop where"
        value={kind}
        onChange={event => {
          const chosen = KINDS.find(one => one.kind === event.target.value) ?? KINDS[0];
          setKind(chosen.kind);
          setText(chosen.start);
        }}
      >
        {KINDS.map(one => (
          <option key={one.kind} value={one.kind}>
            {one.label}
          </option>
        ))}
      </select>
      {kind !== 'nonfinite' && (
        <input
          type="text"
          aria-label={KINDS.find(one => one.kind === kind)?.label}
          placeholder={KINDS.find(one => one.kind === kind)?.example}
          list={kind === 'name' ? 'agv-node-names' : undefined}
          value={text}
          onChange={event => setText(event.target.value)}
        />
      )}
      <datalist id="agv-node-names">
        {[...names].slice(0, 200).map(name => (
          <option key={name} value={name} />
        ))}
      </datalist>
      <button type="submit" className="agv-btn" disabled={!criteria || !presenter.commandable}>
        Add
      </button>
    </form>
  );
}

export function Breakpoints(): ReactElement {
  const presenter = useInspector();
  const { model, commandable } = presenter;
  const points = model.store.state.breakpoints;
  const { selected } = model;
  const node = selected !== null && model.graph.indexOf.has(selected) ? selected : null;
  const site = node === null ? null : model.siteOf(node);
  const here = points.some(point => point.kind === 'node' && point.seq === node);
  return (
    <Menu
      label={points.length > 0 ? `Breakpoints ${points.length}` : 'Breakpoints'}
      icon="breakpoint"
      badge={points.length > 0 ? String(points.length) : undefined}
      title="Where a backward pass stops"
      side="left"
    >
      {() => (
        <>
          {points.length === 0 && <p>A backward pass stops before a node with a breakpoint.</p>}
          {points.map(point => (
            <div className="agv-sheet-row" key={point.id}>
              {point.kind === 'node' && point.seq !== undefined ? (
                <button
                  type="button"
                  className="agv-link agv-elide"
                  onClick={() => presenter.goTo(point.seq ?? 0)}
                >
                  {oneLine(model.titleOf(point.seq), 60)}{' '}
                  <span className="agv-quiet">#{point.seq}</span>
                </button>
              ) : (
                <span className="agv-elide">{breakpointWords(point)}</span>
              )}
              <button
                type="button"
                disabled={!commandable}
                aria-label={`Remove the breakpoint: ${breakpointWords(point)}`}
                onClick={() =>
                  void presenter.command('breakpoint', { on: false, number: point.id })
                }
              >
                Remove
              </button>
            </div>
          ))}
          <hr />
          {node !== null && !here && (
            <button
              type="button"
              disabled={!commandable}
              onClick={() => presenter.debugger.toggleBreakpoint(node)}
            >
              Break before {oneLine(model.titleOf(node), 60)} <small>the selected node (B)</small>
            </button>
          )}
          {site && (
            <button
              type="button"
              disabled={!commandable}
              onClick={() =>
                void presenter.command('breakpoint', {
                  on: true,
                  line: site.line,
                  place: site.cell_id ?? site.file
                })
              }
            >
              Break at {placeText(site)} <small>nodes of the selected line</small>
            </button>
          )}
          <ConditionForm />
        </>
      )}
    </Menu>
  );
}
