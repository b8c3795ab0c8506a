// What helps, with the code that can be copied: of the card of a problem, and of a finding's.

import type { ReactElement, ReactNode } from 'react';
import { block } from '../protocol/text';
import { useInspector } from './presenter';
import { Words } from './source_link';

const LONGEST = 600;

/** children: what else can be done with the code, before it is copied. */
export function Repair({
  text,
  code,
  children
}: {
  text: string;
  code: string | null;
  children?: ReactNode;
}): ReactElement {
  const presenter = useInspector();
  return (
    <div className="agv-fix">
      <span>
        {code && !text.includes(code) && <code>{block(code, LONGEST)} </code>}
        <Words text={text} length={LONGEST} />
      </span>
      {code && (
        <span className="agv-fix-do">
          {children}
          <button type="button" className="agv-btn" onClick={() => void presenter.copy(code)}>
            Copy
          </button>
        </span>
      )}
    </div>
  );
}
