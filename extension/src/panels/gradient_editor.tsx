// Changing the gradient that waits at a paused node: as a whole, or number by number where there
// are few. The kernel makes a new array; what the program holds is never written to.

import type { ReactElement } from 'react';
import { useState } from 'react';
import type { Commands, Values } from '../protocol/schema';
import { numberText } from '../model/format';
import { useInspector } from './presenter';

type How = Commands['edit']['args']['how'];

const WAYS: { how: How; label: string; value: string }[] = [
  { how: 'scale', label: 'times', value: '0.1' },
  { how: 'clip', label: 'clip its norm to', value: '1' },
  { how: 'fill', label: 'all equal to', value: '1' },
  { how: 'zero', label: 'zero', value: '' }
];
/** Numbers that are shown one by one. */
const FEW = 64;

export function GradientEditor({ values }: { values: Values | null }): ReactElement {
  const presenter = useInspector();
  const { paused } = presenter.model.store.state;
  const [how, setHow] = useState<How>('scale');
  const [text, setText] = useState('0.1');
  const number = Number(text);
  const ready = how === 'zero' || (text.trim() !== '' && !Number.isNaN(number));
  return (
    <>
      <form
        className="agv-row"
        onSubmit={event => {
          event.preventDefault();
          if (ready) void presenter.debugger.edit(how, how === 'zero' ? undefined : number);
        }}
      >
        <label className="agv-hidden" htmlFor="agv-edit-how">
          Change the gradient
        </label>
        <select
          id="agv-edit-how"
          value={how}
          onChange={event => {
            const way = WAYS.find(one => one.how === event.target.value) ?? WAYS[0];
            setHow(way.how);
            setText(way.value);
          }}
        >
          {WAYS.map(way => (
            <option key={way.how} value={way.how}>
              {way.label}
            </option>
          ))}
        </select>
        {how !== 'zero' && (
          <input
            type="text"
            inputMode="decimal"
            aria-label="Number"
            size={7}
            value={text}
            onChange={event => setText(event.target.value)}
          />
        )}
        <button type="submit" className="agv-btn" disabled={!ready || !presenter.commandable}>
          Change gradient
        </button>
        {paused?.edited && <span className="agv-tag">changed by you</span>}
      </form>
      {values && <NumberGrid values={values} />}
    </>
  );
}

/** The numbers themselves; Enter or leaving a field puts its number into the gradient. */
function NumberGrid({ values }: { values: Values }): ReactElement | null {
  const presenter = useInspector();
  const { picture, numel } = values;
  if (!picture || picture.pooled || numel > FEW || picture.values.length !== numel) {
    return null;
  }
  const { rows, cols } = picture;
  return (
    <div className="agv-grid">
      <table aria-label="Numbers of the gradient">
        <tbody>
          {Array.from({ length: rows }, (_, row) => (
            <tr key={row}>
              {Array.from({ length: cols }, (_unused, col) => {
                const at = row * cols + col;
                return (
                  <td key={col}>
                    <Cell
                      key={`${at} ${String(picture.values[at])}`}
                      label={`Element ${at}`}
                      value={picture.values[at]}
                      put={value => void presenter.debugger.edit('element', value, at)}
                    />
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell({
  label,
  value,
  put
}: {
  label: string;
  value: number | null;
  put: (value: number) => void;
}): ReactElement {
  const shown = value === null ? 'NaN' : numberText(value);
  const [text, setText] = useState(shown);
  const commit = (): void => {
    const number = Number(text.replace('−', '-'));
    if (text !== shown && text.trim() !== '' && !Number.isNaN(number)) put(number);
    else setText(shown);
  };
  return (
    <input
      type="text"
      inputMode="decimal"
      aria-label={label}
      value={text}
      onChange={event => setText(event.target.value)}
      onBlur={commit}
      onKeyDown={event => {
        if (event.key === 'Enter') commit();
        else if (event.key === 'Escape') setText(shown);
      }}
    />
  );
}
