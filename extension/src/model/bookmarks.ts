// Bookmarks of a view: which node it is anchored to, where the reader looked, what was open,
// selected and when. They are told by what code says, not by node numbers, so that they hold
// after a new layout, another run of the cell and a reload. Pure; what is read back is checked.

import { containerAt } from './containers';
import type { Container } from './container';
import type { InspectorModel } from './inspector';

/** How a node is found again: its number, and where it stands among the nodes of its container. */
export interface Address {
  session: string;
  seq: number;
  container: string;
  offset: number;
  name: string;
}

export interface Bookmark {
  digit: number;
  /** for the reader */
  title: string;
  anchor: Address;
  /** from the anchor's corner to the middle of the view, and the zoom */
  view: { dx: number; dy: number; k: number };
  selected: Address | null;
  /** the backward pass; null: the newest */
  task: number | null;
  /** position in time; null: now */
  cursor: number | null;
  /** choices of open and closed groups */
  open: [string, boolean][];
}

export const DIGITS = [1, 2, 3, 4, 5, 6, 7, 8, 9] as const;

/** Choices of groups that a bookmark keeps. */
const MOST_OPEN = 500;

export function addressOf(model: InspectorModel, seq: number): Address | null {
  const { graph, root, store } = model;
  const index = graph.indexOf.get(seq);
  if (index < 0) {
    return null;
  }
  const container = containerAt(root, index);
  const name = store.nameOf(seq);
  const offset = index - container.first;
  return { session: store.session, seq, container: container.key, offset, name };
}

function withKey(root: Container, key: string): Container | null {
  const stack = [root];
  for (let at = stack.pop(); at; at = stack.pop()) {
    if (at.key === key) return at;
    stack.push(...at.children);
  }
  return null;
}

/** The node of an address in the graph that is shown: itself, or what stands in its place. */
export function findAddress(model: InspectorModel, address: Address): number | null {
  const { graph, root, store } = model;
  if (address.session === store.session && graph.indexOf.has(address.seq)) {
    return address.seq;
  }
  const container = withKey(root, address.container);
  const index = container ? container.first + address.offset : -1;
  if (!container || index >= container.last || index < container.first) {
    return null;
  }
  const seq = graph.seqs[index];
  return store.nameOf(seq) === address.name ? seq : null;
}

/** Shows what a bookmark showed; the anchor's number now, or null where it is not there. */
export function restore(model: InspectorModel, bookmark: Bookmark): number | null {
  const { anchor, task } = bookmark;
  const same = anchor.session === model.store.session;
  const there = task !== null && same && model.store.tasks.has(task);
  model.show(there ? { kind: 'task', task } : { kind: 'latest' });
  model.folding.choose(bookmark.open);
  model.refresh();
  const seq = findAddress(model, anchor);
  if (seq === null) {
    return null;
  }
  if (bookmark.cursor !== null) model.scrub(bookmark.cursor);
  const selected = bookmark.selected ? findAddress(model, bookmark.selected) : null;
  model.select(selected);
  return seq;
}

/** The bookmark of what is shown now. */
export function bookmarkOf(
  model: InspectorModel,
  digit: number,
  anchor: number,
  view: Bookmark['view']
): Bookmark | null {
  const address = addressOf(model, anchor);
  if (!address) {
    return null;
  }
  const { target, cursor, selected } = model;
  return {
    digit,
    title: model.titleOf(selected ?? anchor),
    anchor: address,
    view,
    selected: selected === null ? null : addressOf(model, selected),
    task: target.kind === 'task' ? target.task : null,
    cursor,
    open: model.folding.chosen.slice(0, MOST_OPEN)
  };
}

function isAddress(value: unknown): value is Address {
  const found = value as Partial<Address> | null;
  return (
    typeof found === 'object' &&
    found !== null &&
    [found.session, found.container, found.name].every(text => typeof text === 'string') &&
    [found.seq, found.offset].every(number => Number.isInteger(number))
  );
}

/** Bookmarks from text that was kept somewhere; what is not one is left out. */
export function readBookmarks(text: string | null): Bookmark[] {
  let found: unknown;
  try {
    found = JSON.parse(text ?? '[]');
  } catch {
    return [];
  }
  const known = new Map<number, Bookmark>();
  for (const item of Array.isArray(found) ? (found as Partial<Bookmark>[]) : []) {
    const { digit, anchor, view, selected = null, task = null, cursor = null } = item ?? {};
    const place = view && [view.dx, view.dy, view.k].every(Number.isFinite) && view.k > 0;
    if (!DIGITS.some(one => one === digit) || !isAddress(anchor) || !view || !place) continue;
    known.set(digit as number, {
      digit: digit as number,
      title: typeof item.title === 'string' ? item.title.slice(0, 200) : anchor.name,
      anchor,
      view: { dx: view.dx, dy: view.dy, k: view.k },
      selected: isAddress(selected) ? selected : null,
      task: Number.isInteger(task) ? task : null,
      cursor: Number.isInteger(cursor) ? cursor : null,
      open: (Array.isArray(item.open) ? item.open : []).filter(
        pair => Array.isArray(pair) && typeof pair[0] === 'string' && typeof pair[1] === 'boolean'
      )
    });
  }
  return [...known.values()].sort((p, q) => p.digit - q.digit);
}
