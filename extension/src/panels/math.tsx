// Formulas as MathML Core, which Chromium, Firefox and Safari draw themselves. The tree comes from
// the kernel or a recording: known elements only, and every text as text.

import type { ReactElement, ReactNode } from 'react';
import { createElement } from 'react';
import type { Math as Formula } from '../protocol/schema';
import { cut } from '../protocol/text';

const LEAVES = new Set(['mi', 'mn', 'mo', 'mtext']);
/** Elements and how many children they take; 0: any number. */
const PARENTS = new Map([
  ['mrow', 0],
  ['msqrt', 0],
  ['mtable', 0],
  ['mtr', 0],
  ['mtd', 0],
  ['mfrac', 2],
  ['msup', 2],
  ['msub', 2],
  ['munder', 2],
  ['mover', 2]
]);
const DEEPEST = 60;
const LONGEST_NAME = 60;

/** MathML drops spaces at the ends of a text. */
function spaced(text: string): string {
  return cut(text, LONGEST_NAME).replace(/^ | $/g, '\u00a0');
}

/** A minus with nothing before it that it could be taken from: browsers go by the place alone. */
function isSign(children: readonly Formula[], at: number): boolean {
  const before = at > 0 ? children[at - 1] : null;
  return (
    children[at].tag === 'mo' &&
    children[at].text === '−' &&
    (before === null || (before.tag === 'mo' && before.text !== ')' && before.text !== '|'))
  );
}

function drawn(math: Formula, key: number, depth: number): ReactNode {
  const { tag, text = '', children = [] } = math;
  if (LEAVES.has(tag)) {
    return createElement(tag, { key }, spaced(text));
  }
  const count = PARENTS.get(tag);
  if (count === undefined || depth > DEEPEST || (count > 0 && children.length !== count)) {
    return createElement('mtext', { key }, '…');
  }
  return createElement(
    tag,
    { key },
    children.map((child, i) =>
      isSign(children, i)
        ? createElement('mo', { key: i, form: 'prefix' }, child.text)
        : drawn(child, i, depth + 1)
    )
  );
}

/** One line of mathematics; `label` says it for those who do not see it. */
export function MathLine({
  math,
  label,
  small = false
}: {
  math: Formula;
  label: string;
  small?: boolean;
}): ReactElement {
  return (
    <div
      className="agv-math"
      data-small={small ? 'yes' : 'no'}
      tabIndex={0}
      role="group"
      aria-label={label}
    >
      {createElement('math', { displaystyle: 'true' }, drawn(math, 0, 0))}
    </div>
  );
}
