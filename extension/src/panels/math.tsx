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

/** Names in a formula that lead to a node: they can be pointed at. */
export interface Pointing {
  /** what is said of a name, by name; of others it is nothing */
  says: ReadonlyMap<string, string>;
  /** null: no longer */
  point(name: string | null): void;
}

/** 'self' of `self`, 'tensors[0]' of a name with a number below; else ''. */
function nameIn({ tag, text = '', children = [] }: Formula): string {
  if (tag === 'mi') {
    return text;
  }
  const [base, below] = children;
  const indexed = tag === 'msub' && base?.tag === 'mi' && below?.tag === 'mn';
  return indexed ? `${base.text}[${below.text}]` : '';
}

function pointed(name: string, key: number, { says, point }: Pointing): Record<string, unknown> {
  return {
    key,
    className: 'agv-named',
    tabIndex: 0,
    'aria-label': `${name}: ${says.get(name)}`,
    onMouseEnter: () => point(name),
    onMouseLeave: () => point(null),
    onFocus: () => point(name),
    onBlur: () => point(null)
  };
}

function drawn(math: Formula, key: number, depth: number, pointing: Pointing | null): ReactNode {
  const { tag, text = '', children = [] } = math;
  const name = pointing ? nameIn(math) : '';
  const props = pointing?.says.has(name) ? pointed(name, key, pointing) : { key };
  if (LEAVES.has(tag)) {
    return createElement(tag, props, spaced(text));
  }
  const count = PARENTS.get(tag);
  if (count === undefined || depth > DEEPEST || (count > 0 && children.length !== count)) {
    return createElement('mtext', { key }, '…');
  }
  return createElement(
    tag,
    props,
    children.map((child, i) =>
      isSign(children, i)
        ? createElement('mo', { key: i, form: 'prefix' }, child.text)
        : drawn(child, i, depth + 1, pointing)
    )
  );
}

/** One line of mathematics; `label` says it for those who do not see it. */
export function MathLine({
  math,
  label,
  small = false,
  pointing = null
}: {
  math: Formula;
  label: string;
  small?: boolean;
  pointing?: Pointing | null;
}): ReactElement {
  return (
    <div
      className="agv-math"
      data-small={small ? 'yes' : 'no'}
      tabIndex={0}
      role="group"
      aria-label={label}
    >
      {createElement('math', { displaystyle: 'true' }, drawn(math, 0, 0, pointing))}
    </div>
  );
}
