// Inputs of the selected node that gradient does not go on to, because they had left a graph.

import type { ReactElement } from 'react';
import type { GraphBreak } from '../model/graph_breaks';
import { breaksOf } from '../model/graph_breaks';
import { oneLine } from '../protocol/text';
import { useInspector } from './presenter';
import { SourceLink } from './source_link';

/** 'w.grad and b.grad stay None' */
export function withoutText({ without }: GraphBreak): string {
  const shown = without.slice(0, 3).map(name => `\`${oneLine(name, 40)}.grad\``);
  const rest = without.length > 3 ? ` and ${without.length - 3} more` : '';
  const stay = without.length === 1 ? 'stays' : 'stay';
  return without.length === 0 ? '' : `${shown.join(', ')}${rest} ${stay} None`;
}

export function GraphBreaks({ seq }: { seq: number }): ReactElement | null {
  const { model } = useInspector();
  const breaks = breaksOf(model, seq);
  if (breaks.length === 0) {
    return null;
  }
  return (
    <>
      <div className="agv-sec">Graph breaks</div>
      <ul className="agv-list">
        {breaks.map((broken, i) => (
          <li key={i}>
            <span>
              <span aria-hidden="true">╌ ⁄⁄ </span>
              <code>{oneLine(broken.input, 40)}</code> was {broken.words}
              {broken.site && (
                <>
                  {' '}
                  at <SourceLink site={broken.site} />
                </>
              )}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
