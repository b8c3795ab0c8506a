// The values of one tensor of a node: all lanes of what a vmap holds or one of them, and in forward
// mode its tangent beside them.

import type { ReactElement } from 'react';
import { useState } from 'react';
import { oneLine } from '../protocol/text';
import type { Values } from '../protocol/schema';
import { shapeText } from '../model/format';
import type { Answer } from './answers';
import { HeatMap, summaryText } from './value_picture';
import { useInspector } from './presenter';

/** Numbers of slices as an answer, or a file from elsewhere, gives them. */
export function lanesOf(found: unknown): number[] {
  const sizes: unknown[] = Array.isArray(found) ? found.slice(0, 8) : [];
  const good = (size: unknown): size is number => Number.isInteger(size) && Number(size) >= 0;
  return sizes.every(good) ? sizes : [];
}

/** 'slice of 64', 'slice of 8 × 64'; empty for what is no slice. */
export function sliceText(lanes: readonly number[]): string {
  return lanes.length > 0 ? `slice of ${lanes.join(' × ')}` : '';
}

/** Values and tangent of what `which` names (see the command 'values'). */
export function TensorValues({ seq, which }: { seq: number; which: string }): ReactElement {
  const presenter = useInspector();
  const [lane, setLane] = useState<number | null>(null);
  const all = presenter.values(seq, which);
  const lanes = lanesOf(all.kind === 'answer' ? all.value.lanes : null);
  const count = lanes.reduce((product, size) => product * size, lanes.length > 0 ? 1 : 0);
  const picked = lane !== null && lane < count ? lane : null;
  const shown = picked === null ? all : presenter.values(seq, `${which}@${picked}`);
  const tangent = all.kind === 'answer' && all.value.tangent === true;
  return (
    <>
      {count > 0 && <LanePicker lanes={lanes} lane={picked} pick={setLane} />}
      {tangent ? (
        <div className="agv-beside">
          <ValuesView answer={shown} what="value" lane={picked} />
          <Tangent seq={seq} which={which} lane={picked} />
        </div>
      ) : (
        <ValuesView answer={shown} lane={picked} />
      )}
    </>
  );
}

/** Of a tensor with lanes the tangent may have none, or the other way round: it is asked. */
function Tangent({
  seq,
  which,
  lane
}: {
  seq: number;
  which: string;
  lane: number | null;
}): ReactElement {
  const presenter = useInspector();
  const all = presenter.values(seq, `tangent:${which}`);
  const lanes = lanesOf(all.kind === 'answer' ? all.value.lanes : null);
  const one = lane !== null && lanes.length > 0;
  const answer = one ? presenter.values(seq, `tangent:${which}@${lane}`) : all;
  return (
    <ValuesView answer={answer} what="tangent" lane={one ? lane : null} note={sliceText(lanes)} />
  );
}

function LanePicker({
  lanes,
  lane,
  pick
}: {
  lanes: readonly number[];
  lane: number | null;
  pick: (lane: number | null) => void;
}): ReactElement {
  const count = lanes.reduce((product, size) => product * size, 1);
  return (
    <p className="agv-line agv-lanes">
      <span>{sliceText(lanes)}:</span>{' '}
      <label>
        <input type="radio" checked={lane === null} onChange={() => pick(null)} /> all
      </label>{' '}
      <label>
        <input type="radio" checked={lane !== null} onChange={() => pick(0)} /> lane
      </label>{' '}
      <input
        type="number"
        aria-label="Lane"
        min={0}
        max={count - 1}
        step={1}
        value={lane ?? ''}
        placeholder="0"
        onChange={event => {
          const chosen = Math.trunc(event.target.valueAsNumber);
          if (chosen >= 0 && chosen < count) pick(chosen);
        }}
      />
      {lane !== null && lanes.length > 1 && (
        <span className="agv-quiet"> [{placeOf(lane, lanes).join(', ')}]</span>
      )}
    </p>
  );
}

/** Where a flat index lies. */
export function placeOf(flat: number, shape: readonly number[]): number[] {
  const place: number[] = [];
  for (let i = shape.length - 1; i >= 0; i--) {
    place.unshift(flat % shape[i]);
    flat = Math.floor(flat / shape[i]);
  }
  return place;
}

export function ValuesView({
  answer,
  what = '',
  lane = null,
  note = ''
}: {
  answer: Answer<Values>;
  /** 'value' or 'tangent' where both are shown */
  what?: string;
  lane?: number | null;
  note?: string;
}): ReactElement {
  if (answer.kind !== 'answer') {
    const missing = lane !== null ? 'This lane was not kept in the recording.' : '';
    return (
      <p className="agv-line agv-quiet">
        {answer.kind === 'none' ? oneLine(answer.why || missing, 300) : 'Asking the kernel…'}
      </p>
    );
  }
  const values = answer.value;
  const text = summaryText(values);
  const scalar = values.numel === 1;
  const subject = what ? `The ${what}: values` : 'Values';
  return (
    <div data-values={what || undefined}>
      {what && (
        <p className="agv-line agv-what">
          <b>{what}</b>
          {note && <span className="agv-quiet"> {note}</span>}
          {scalar && <code> {oneLine(values.text, 40)}</code>}
        </p>
      )}
      {values.picture && !scalar && (
        <HeatMap
          picture={values.picture}
          label={`${subject} of shape ${shapeText(values.shape)}: ${text}`}
        />
      )}
      {!(what && scalar) && (
        <p className="agv-line">
          {text}
          {values.picture?.pooled && !scalar ? '. Each cell stands for several elements.' : ''}
        </p>
      )}
      <DeadUnits values={values} />
    </div>
  );
}

/** Units of a rectifier that pass nothing on: their weights get no gradient from this batch. */
function DeadUnits({ values }: { values: Values }): ReactElement | null {
  const [dead, units] = values.dead ?? [0, 0];
  if (dead === 0) {
    return null;
  }
  return (
    <p className="agv-line agv-dead">
      <b aria-hidden="true">○ </b>
      {dead === units ? `All ${units}` : `${dead} of ${units}`}{' '}
      {units === 1 ? 'unit' : 'units'} of this relu are dead on this batch: no row passes them, so
      no gradient does.
    </p>
  );
}
