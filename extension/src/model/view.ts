// The graph as it is drawn: closed containers are one box each, open ones frames. It has a graph's
// own shape, so that layout and canvas need not know the difference. Pure, linear.

import { placeText } from './format';
import type { Container } from './container';
import { isNamed } from './container';
import type { Graph } from './graph';
import { NO_GRAPH, Numbers } from './graph';
import { IntMap } from './intmap';
import type { NodeState, States } from './states';
import { Flag, State } from './states';

/** A frame with a header, or the place of one box without a frame. */
export interface Frame {
  /** null: no frame is drawn */
  container: Container | null;
}

/** An open container with more than one frame in it, as a range of frames. */
export interface GroupOutline {
  container: Container;
  from: number;
  to: number;
  /** outlines inside of it, at most */
  height: number;
}

export interface View extends Graph {
  /** by box: the closed container that it stands for */
  folds: (Container | null)[];
  /** by box: the first node of the graph that it stands for; one more at the end */
  first: Uint32Array;
  /** index into `frames` by box */
  groupOf: Uint32Array;
  frames: Frame[];
  outlines: GroupOutline[];
  /** nodes that have no box: they transpose this leaf, whose badge stands for both */
  stubOf: ReadonlyMap<number, number>;
}

/** In `badgeKnown` of a view: a leaf that is known, and transposed before it is used. */
export const TURNED = 2;

/** Parameters that a closed container still shows as badges. */
const FEW_BADGES = 3;

export const NO_VIEW: View = {
  ...NO_GRAPH,
  folds: [],
  first: new Uint32Array(1),
  groupOf: new Uint32Array(0),
  frames: [],
  outlines: [],
  stubOf: new Map()
};

/** Header of a frame: what it is, and the line's text. */
export function headerOf({ container }: Frame): { place: string; line: string } {
  if (!container?.site) {
    return { place: '', line: '' };
  }
  const place = placeText(container.site);
  return isNamed(container)
    ? { place: `${container.title} · ${place}`, line: container.site.source_line }
    : { place, line: container.site.source_line };
}

class Builder {
  readonly first = new Numbers();
  readonly groupOf = new Numbers();
  readonly folds: (Container | null)[] = [];
  readonly frames: Frame[] = [];
  readonly outlines: GroupOutline[] = [];

  constructor(
    private readonly isOpen: (container: Container) => boolean,
    /** nodes that have no box of their own */
    private readonly stubs: Uint8Array
  ) {}

  /** Adds what is inside an open container; the levels of outlines in it. */
  inside(container: Container): number {
    const from = this.frames.length;
    let height = 0;
    let at = container.first;
    for (const child of container.children) {
      this.loose(at, child.first);
      height = Math.max(height, this.add(child));
      at = child.last;
    }
    this.loose(at, container.last);
    const to = this.frames.length;
    if (container.kind === 'root' || to - from < 2) {
      return height;
    }
    this.outlines.push({ container, from, to, height });
    return height + 1;
  }

  private add(container: Container): number {
    if (!this.isOpen(container)) {
      this.box(container.first, container, this.frames.push({ container: null }) - 1);
      return 0;
    }
    if (container.framed) {
      const frame = this.frames.push({ container }) - 1;
      for (let i = container.first; i < container.last; i++) {
        if (i === container.first || !this.stubs[i]) this.box(i, null, frame);
      }
      return 0;
    }
    return this.inside(container);
  }

  private loose(from: number, to: number): void {
    for (let i = from; i < to; i++) {
      if (i === from || !this.stubs[i])
        this.box(i, null, this.frames.push({ container: null }) - 1);
    }
  }

  private box(first: number, fold: Container | null, frame: number): void {
    this.first.push(first);
    this.folds.push(fold);
    this.groupOf.push(frame);
  }
}

/** The view of a graph with these containers open, and boxes for these transposes. */
export function viewOf(
  graph: Graph,
  root: Container,
  isOpen: (container: Container) => boolean,
  boxed: ReadonlySet<number> = new Set()
): View {
  const stubs = boxed.size === 0 ? graph.stubs : graph.stubs.slice();
  for (const index of boxed) stubs[index] = 0;
  const builder = new Builder(isOpen, stubs);
  builder.inside(root);
  const { folds, frames, outlines } = builder;
  const groupOf = builder.groupOf.all;
  builder.first.push(graph.seqs.length);
  const first = builder.first.all;
  const stubOf = new Map<number, number>();
  folds.forEach((fold, box) => {
    for (let i = first[box] + 1; !fold && i < first[box + 1]; i++)
      stubOf.set(graph.seqs[i], graph.badgeSeq[graph.badgeStart[i]]);
  });
  const drawn = { folds, frames, outlines, groupOf, first, stubOf };
  if (folds.length === graph.seqs.length && !folds.some(fold => fold !== null)) {
    return { ...graph, ...drawn, signature: `${graph.signature} open` };
  }
  return { ...folded(graph, folds, first), ...drawn };
}

/** The graph with the nodes of each box made one. */
function folded(graph: Graph, folds: (Container | null)[], first: Uint32Array): Graph {
  const boxes = folds.length;
  const boxOf = new Uint32Array(graph.seqs.length);
  const indexOf = new IntMap();
  const seqs = new Uint32Array(boxes);
  let mark = 0x811c9dc5;
  for (let box = 0; box < boxes; box++) {
    seqs[box] = graph.seqs[first[box]];
    for (let i = first[box]; i < first[box + 1]; i++) {
      boxOf[i] = box;
      indexOf.set(graph.seqs[i], box);
    }
    mark = Math.imul(mark ^ (first[box] + (folds[box] ? 0x40000000 : 0)), 0x01000193);
  }

  const edgeFrom = new Numbers();
  const edgeTo = new Numbers();
  const drawn = new Set<number>();
  for (let e = 0; e < graph.edgeFrom.length; e++) {
    const [from, to] = [boxOf[graph.edgeFrom[e]], boxOf[graph.edgeTo[e]]];
    if (from === to) continue;
    if (folds[from] || folds[to]) {
      // Between closed containers one line stands for all.
      const key = from * boxes + to;
      if (drawn.has(key)) continue;
      drawn.add(key);
    }
    edgeFrom.push(from);
    edgeTo.push(to);
  }

  const badgeStart = new Uint32Array(boxes + 1);
  const badgeSeq = new Numbers();
  const badgeKnown = new Numbers();
  const leafUses = new Map<number, number[]>();
  for (let box = 0; box < boxes; box++) {
    badgeStart[box] = badgeSeq.length;
    const [from, to] = [graph.badgeStart[first[box]], graph.badgeStart[first[box + 1]]];
    const inside = new Map<number, number>();
    const own = graph.badgeStart[first[box] + 1];
    for (let s = from; s < to; s++) {
      const seq = graph.badgeSeq[s];
      const uses = leafUses.get(seq);
      if (!uses) leafUses.set(seq, [box]);
      else if (uses[uses.length - 1] !== box) uses.push(box);
      if (folds[box]) {
        inside.set(seq, graph.badgeKnown[s]);
      } else {
        badgeSeq.push(seq);
        badgeKnown.push(s >= own && graph.badgeKnown[s] ? TURNED : graph.badgeKnown[s]);
      }
    }
    if (inside.size <= FEW_BADGES) {
      for (const [seq, known] of inside) {
        badgeSeq.push(seq);
        badgeKnown.push(known);
      }
    }
  }
  badgeStart[boxes] = badgeSeq.length;
  return {
    task: graph.task,
    signature: `${graph.signature} ${boxes}/${mark >>> 0}`,
    seqs,
    indexOf,
    edgeFrom: edgeFrom.all,
    edgeTo: edgeTo.all,
    badgeStart,
    badgeSeq: badgeSeq.all,
    badgeKnown: Uint8Array.from(badgeKnown.all),
    leaves: graph.leaves,
    leafUses,
    stubs: new Uint8Array(boxes)
  };
}

/** What a closed container is shown as: the state that the reader must not miss. */
function together(counts: Uint32Array, nodes: number): number {
  const has = (state: number): boolean => counts[state] > 0;
  if (has(State.next)) return State.next;
  if (has(State.problem)) return State.problem;
  if (has(State.running)) return State.running;
  for (const state of [State.done, State.future, State.freed]) {
    if (counts[state] === nodes) return state;
  }
  return has(State.done) ? State.running : State.waiting;
}

/** States of the boxes from those of the nodes. */
export function viewStates(view: View, states: States): States {
  if (view.folds.length === states.node.length && !view.folds.some(fold => fold !== null)) {
    return states;
  }
  const leaf = new Map(states.leaf);
  let { nextLeaf } = states;
  const boxes = view.folds.length;
  const node = new Uint8Array(boxes);
  const flags = new Uint8Array(boxes);
  const norm = new Float64Array(boxes);
  const counts = new Uint32Array(8);
  const kept = Flag.stale | Flag.nonfinite | Flag.breakpoint | Flag.hook;
  let next = -1;
  for (let box = 0; box < boxes; box++) {
    const [from, to] = [view.first[box], view.first[box + 1]];
    norm[box] = states.norm[from];
    if (!view.folds[box]) {
      node[box] = states.node[from];
      flags[box] = states.flags[from];
      for (let i = from + 1; i < to; i++) {
        // The badge tells of the node that has no box.
        const badge = view.badgeSeq[view.badgeStart[box + 1] - to + i];
        const state = states.node[i] as NodeState;
        if (state === State.next || state === State.problem) leaf.set(badge, state);
        if (states.next === i) nextLeaf = badge;
        flags[box] |= states.flags[i] & Flag.breakpoint;
      }
    } else {
      counts.fill(0);
      for (let i = from; i < to; i++) {
        counts[states.node[i]]++;
        flags[box] |= states.flags[i] & kept;
      }
      node[box] = together(counts, to - from);
    }
    const stub = !view.folds[box] && states.next > from;
    if (states.next >= from && states.next < to && !stub) next = box;
  }
  return { ...states, node, flags, norm, next, leaf, nextLeaf };
}
