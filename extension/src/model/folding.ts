// Which containers are open: the reader's choices, and for the rest what keeps a large graph
// readable. Pure.

import type { Container } from './container';
import { containerAt } from './containers';

/** Up to so many nodes a graph opens as a whole. */
export const WHOLE = 160;
/** A container of so few nodes is opened with all that is in it. */
const AT_ONCE = 40;
/** Boxes that a large graph opens with at most. */
export const FIRST_VIEW = 320;

/** Between a container's key and the place of a node in it. */
const TRANSPOSE = '#transpose ';

/** The same for the same node of another pass of the same program. */
function placeOf(root: Container, index: number): string {
  const container = containerAt(root, index);
  return `${container.key}${TRANSPOSE}${index - container.first}`;
}

export class Folding {
  /** grows with every choice */
  version = 0;
  private choices = new Map<string, boolean>();
  private opened: ReadonlySet<Container> = new Set();

  /** Takes the containers of another graph; choices stay for those of the same key. */
  settle(root: Container): void {
    this.opened = firstView(root);
    this.version++;
  }

  isOpen(container: Container): boolean {
    if (container.kind === 'root') {
      return true;
    }
    return this.choices.get(container.key) ?? this.opened.has(container);
  }

  set(container: Container, open: boolean): void {
    this.choices.set(container.key, open);
    if (open && container.nodes <= AT_ONCE) {
      // Who opens a small one wants to see what is in it.
      for (const child of container.children) {
        if (!this.choices.has(child.key)) this.set(child, true);
      }
    }
    this.version++;
  }

  /** Gives transposes a box of their own, or back to the badges of what they transpose. */
  setBoxed(root: Container, indexes: readonly number[], boxed: boolean): void {
    for (const index of indexes) {
      if (boxed) this.choices.set(placeOf(root, index), true);
      else this.choices.delete(placeOf(root, index));
    }
    this.version++;
  }

  /** Those of these transposes that have a box of their own. */
  boxed(root: Container, stubs: Uint8Array): Set<number> {
    const found = new Set<number>();
    const known = [...this.choices.keys()].some(key => key.includes(TRANSPOSE));
    for (let i = 0; known && i < stubs.length; i++) {
      if (stubs[i] && this.choices.get(placeOf(root, i))) found.add(i);
    }
    return found;
  }

  /** Every container of the graph; choices about other graphs stay. */
  setAll(root: Container, open: boolean): void {
    for (const key of [...this.choices.keys()]) {
      if (key.includes(TRANSPOSE)) this.choices.delete(key);
    }
    const stack = [...root.children];
    for (let at = stack.pop(); at; at = stack.pop()) {
      this.choices.set(at.key, open);
      stack.push(...at.children);
    }
    this.version++;
  }

  /** The reader's choices, to be kept. */
  get chosen(): [string, boolean][] {
    return [...this.choices];
  }

  /** Takes choices that were kept in place of those of now. */
  choose(choices: readonly [string, boolean][]): void {
    this.choices = new Map(choices);
    this.version++;
  }

  forget(): void {
    this.choices = new Map();
    this.version++;
  }
}

/** Boxes that a container is drawn with when it is open and all inside is closed. */
function boxes(container: Container): number {
  let inside = 0;
  for (const child of container.children) inside += child.nodes;
  return container.children.length + container.nodes - inside;
}

/**
 * Level by level from the outside, as long as there is room. What repeats stays closed in a large
 * graph: one turn is like the next.
 */
function firstView(root: Container): Set<Container> {
  const opened = new Set<Container>();
  const whole = root.nodes <= WHOLE;
  let shown = boxes(root);
  let level = root.children;
  while (level.length > 0) {
    const next: Container[] = [];
    for (const container of level) {
      const more = boxes(container) - 1;
      if (!whole && (container.kind === 'repeat' || shown + more > FIRST_VIEW)) continue;
      opened.add(container);
      shown += more;
      next.push(...container.children);
    }
    level = next;
  }
  return opened;
}
