// Inputs of the selected node that gradient does not go on to, because they had left a graph.

import type { ReactElement } from 'react';
import type { Cut } from '../model/cuts';
import { cutsOf } from '../model/cuts';
import { oneLine } from '../protocol/text';
import { useInspector } from './presenter';
import { SourceLink } from './source_link';

/** 'w.grad and b.grad stay None' */
export function withoutText({ without }: Cut): string {
  const shown = without.slice(0, 3).map(name => `\`${oneLine(name, 40)}.grad\``);
  const rest = without.length > 3 ? ` and ${without.length - 3} more` : '';
  const stay = without.length === 1 ? 'stays' : 'stay';
  return without.length === 0 ? '' : `${shown.join(', ')}${rest} ${stay} None`;
}

export function Cuts({ seq }: { seq: number }): ReactElement | null {
  const { model } = useInspector();
  const cuts = cutsOf(model, seq);
  if (cuts.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Graph breaks</div>
      <ul className="agv-list">
        {cuts.map((cut, i) => (
          <li key={i}>
            <span>
              <span aria-hidden="true">╌ ⁄⁄ </span>
              <code>{oneLine(cut.input, 40)}</code> was {cut.words}
              {cut.site && (
                <>
                  {' '}
                  at <SourceLink site={cut.site} />
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
