// Jacobians and Hessians that were computed: each block a heat map whose rows are elements of an
// output and whose columns are elements of an input. Its names lead to the tensors' nodes.

import type { KeyboardEvent, PointerEvent, ReactElement } from 'react';
import { useState } from 'react';
import { oneLine } from '../protocol/text';
import type { Jacobian, JacobianBlock, JacobianEnd, Picture } from '../protocol/schema';
import { numberText, plural, shapeText } from '../model/format';
import { useInspector } from './presenter';
import { SourceLink } from './source_link';
import { placeOf } from './tensor_values';
import { HeatMap, summaryText } from './value_picture';

const NAMES: Record<string, string> = {
  jacrev: 'by reverse mode',
  jacfwd: 'by forward mode',
  jacobian: 'by autograd.functional',
  hessian: ''
};
/** Rows and columns that are labelled one by one. */
const MOST_LABELS = 16;

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** The place of an element as it is written: [0, 2]; nothing of a scalar. */
function elementText(flat: number, shape: readonly number[]): string {
  return shape.length === 0 ? '' : `[${placeOf(flat, shape).join(', ')}]`;
}

export function Jacobians(): ReactElement {
  const presenter = useInspector();
  const answer = presenter.jacobians();
  if (answer.kind !== 'answer' || answer.value.length === 0) {
    return (
      <p className="agv-quiet" style={{ margin: 0 }}>
        {answer.kind === 'waiting'
          ? 'Asking the kernel…'
          : (answer.kind === 'none' && oneLine(answer.why, 300)) ||
            'The numbers of these Jacobians were not kept.'}
      </p>
    );
  }
  return (
    <>
      {[...answer.value].reverse().map(one => (
        <Matrix key={one.id} jacobian={one} />
      ))}
    </>
  );
}

function Matrix({ jacobian }: { jacobian: Jacobian }): ReactElement {
  const { kind, rows, columns, blocks, site } = jacobian;
  const name = oneLine(jacobian.function, 40) || 'a function';
  const how = NAMES[kind] ?? oneLine(kind, 30);
  return (
    <section className="agv-jacobian" aria-label={`${kind} of ${name}`}>
      <h3>
        {kind === 'hessian' ? 'Hessian' : 'Jacobian'} of {name}
      </h3>
      <p className="agv-sub">
        {site && <SourceLink site={site} />}
        {site && how && ' · '}
        {how}
      </p>
      {blocks.map(block => (
        <Block
          key={`${block.row} ${block.column}`}
          block={block}
          row={rows[block.row]}
          column={columns[block.column]}
          second={kind === 'hessian'}
        />
      ))}
    </section>
  );
}

/** A tensor's name; where its node is in the graph, the way to it. */
function EndLink({ end }: { end: JacobianEnd }): ReactElement {
  const presenter = useInspector();
  const { model } = presenter;
  const { seq } = end;
  const name = oneLine(end.name, 40) || '?';
  const known = seq !== null && (model.store.nodeRow.has(seq) || model.store.leafRow.has(seq));
  return known ? (
    <button
      type="button"
      className="agv-link"
      title={`Go to ${model.store.nameOf(seq)}`}
      onClick={() => presenter.goAnywhere(seq)}
    >
      {name}
    </button>
  ) : (
    <code>{name}</code>
  );
}

function Block({
  block,
  row,
  column,
  second
}: {
  block: JacobianBlock;
  row: JacobianEnd;
  column: JacobianEnd;
  second: boolean;
}): ReactElement {
  const [cell, setCell] = useState<[number, number] | null>(null);
  const { values } = block;
  const { picture } = values;
  const words = summaryText(values);
  const size = `${plural(sizeOf(row.shape), 'row')}, ${plural(sizeOf(column.shape), 'column')}`;
  return (
    <div className="agv-block">
      <p className="agv-line">
        rows: <EndLink end={row} /> {shapeText(row.shape)}
        {second && ' (its gradient)'} · columns: <EndLink end={column} />{' '}
        {shapeText(column.shape)}
      </p>
      {picture && values.numel > 0 && (
        <Labelled
          picture={picture}
          row={row}
          column={column}
          cell={cell}
          choose={setCell}
          label={`${size}: ${words}`}
        />
      )}
      <p className="agv-line" role="status">
        {picture && cell ? (
          <CellText picture={picture} row={row} column={column} cell={cell} second={second} />
        ) : (
          words
        )}
      </p>
    </div>
  );
}

/** Elements that a row (or column) of the picture stands for: the first one, and one after. */
function span(at: number, cells: number, all: number): [number, number] {
  return [Math.floor((at * all) / cells), Math.floor(((at + 1) * all) / cells)];
}

function spanText(at: number, cells: number, shape: readonly number[]): string {
  const [first, end] = span(at, cells, sizeOf(shape));
  const text = elementText(first, shape);
  return end - first > 1 ? `${text} to ${elementText(end - 1, shape)}` : text;
}

function CellText({
  picture,
  row,
  column,
  cell: [r, c],
  second
}: {
  picture: Picture;
  row: JacobianEnd;
  column: JacobianEnd;
  cell: [number, number];
  second: boolean;
}): ReactElement {
  const value = picture.values[r * picture.cols + c];
  const above = `${oneLine(row.name, 40)}${spanText(r, picture.rows, row.shape)}`;
  const below = `${oneLine(column.name, 40)}${spanText(c, picture.cols, column.shape)}`;
  return (
    <>
      <code>{second ? `∂²/∂${above} ∂${below}` : `∂${above} / ∂${below}`}</code> ={' '}
      <b>{value === null || value === undefined ? 'not finite' : numberText(value)}</b>
      {picture.pooled && ' (mean)'}
    </>
  );
}

/** A heat map with its labels; arrow keys go from cell to cell, as the pointer does. */
function Labelled({
  picture,
  row,
  column,
  cell,
  choose,
  label
}: {
  picture: Picture;
  row: JacobianEnd;
  column: JacobianEnd;
  cell: [number, number] | null;
  choose: (cell: [number, number] | null) => void;
  label: string;
}): ReactElement {
  const { rows, cols } = picture;
  const point = (event: PointerEvent<HTMLDivElement>): void => {
    const canvas = event.currentTarget.querySelector('canvas');
    if (!canvas) return;
    const box = canvas.getBoundingClientRect();
    const r = Math.floor(((event.clientY - box.top) / box.height) * rows);
    const c = Math.floor(((event.clientX - box.left) / box.width) * cols);
    if (r >= 0 && r < rows && c >= 0 && c < cols) choose([r, c]);
  };
  const key = (event: KeyboardEvent): void => {
    const [r, c] = cell ?? [0, -1];
    if (event.key === 'ArrowRight') choose([r, Math.min(cols - 1, c + 1)]);
    else if (event.key === 'ArrowLeft') choose([r, Math.max(0, c - 1)]);
    else if (event.key === 'ArrowDown') choose([Math.min(rows - 1, r + 1), Math.max(0, c)]);
    else if (event.key === 'ArrowUp') choose([Math.max(0, r - 1), Math.max(0, c)]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const each = (count: number): number[] =>
    count <= MOST_LABELS ? Array.from({ length: count }, (_, i) => i) : [];
  return (
    <div className="agv-matrix">
      <div className="agv-cols" aria-hidden="true">
        {each(cols).map(c => (
          <span key={c} data-on={cell?.[1] === c ? 'yes' : 'no'}>
            {spanText(c, cols, column.shape)}
          </span>
        ))}
      </div>
      <div className="agv-rows" aria-hidden="true">
        {each(rows).map(r => (
          <span key={r} data-on={cell?.[0] === r ? 'yes' : 'no'}>
            {spanText(r, rows, row.shape)}
          </span>
        ))}
      </div>
      <div
        className="agv-cells"
        role="application"
        aria-label="Elements, by arrow keys"
        tabIndex={0}
        onKeyDown={key}
        onPointerMove={point}
        onPointerLeave={() => choose(null)}
      >
        <HeatMap picture={picture} label={label} fill />
        {cell && (
          <span
            className="agv-cell"
            style={{
              left: `${(100 * cell[1]) / cols}%`,
              top: `${(100 * cell[0]) / rows}%`,
              width: `${100 / cols}%`,
              height: `${100 / rows}%`
            }}
          />
        )}
      </div>
    </div>
  );
}
