// What the kernel (or the recording) was asked about nodes and values: each question is asked once
// per moment, and the newest answer is kept. Panels read these while they draw.

import type { InspectorModel } from '../model/inspector';
import { newestPass } from '../model/parameters';
import { STATE_NAMES } from '../model/states';
import type { Controller } from '../protocol/controller';
import type {
  Jacobian,
  NodeDetails,
  NodeHooks,
  Scalars,
  Values,
  Weights
} from '../protocol/schema';
import type { Disposable } from '../protocol/signal';

/** What is known of a request: waiting, an answer, or why there is none. */
export type Answer<T> =
  { kind: 'waiting' } | { kind: 'answer'; value: T } | { kind: 'none'; why: string };

const WAITING: { kind: 'waiting' } = { kind: 'waiting' };

/** A question that was asked: about which moment, when it was answered, and how. */
interface Asked {
  moment: string;
  at: number;
  answer: Answer<unknown>;
}

const REMEMBERED = 400;
/** While a backward runs freely, answers about a node are renewed this often. */
const RENEW_MS = 2000;
/** A question that was not answered is asked again after this time. */
const ASK_AGAIN_MS = 3000;
/** How the kernel refuses what it may answer a moment later. */
const BUSY = /^busy\b/;
const VALUE_BYTES = 200_000;
/** Nodes that are drawn number by number; the kernel's own limit is the same. */
const MOST_DRAWN = 120;

export class Answers implements Disposable {
  private readonly asked = new Map<string, Asked>();
  /** how often a gradient was changed by hand: what was known of it is asked for again */
  private edits = 0;
  private again: ReturnType<typeof setTimeout> | undefined;
  private disposed = false;
  /** after which pass norms of values were asked for, and when */
  private weighed = { task: -1, at: -Infinity };

  constructor(
    private readonly controller: Controller,
    private readonly model: InspectorModel,
    private readonly changed: () => void
  ) {}

  dispose(): void {
    this.disposed = true;
    clearTimeout(this.again);
    this.asked.clear();
  }

  /** A gradient was changed: answers about this stop are no longer true. */
  edited(): void {
    this.edits++;
    this.changed();
  }

  /** What is kept of a node; asked for again when its state changed. */
  details(seq: number): Answer<NodeDetails> {
    return this.ask(`node ${seq}`, this.momentOf(seq), () =>
      this.controller.request('node', { seq })
    );
  }

  /** Hooks of all nodes that live; asked for again when some ran, and at each stop. */
  hooks(): Answer<NodeHooks[]> {
    const { store, graph } = this.model;
    const { paused } = store.state;
    const stop = paused ? `${paused.task}.${paused.order}` : '';
    const moment = `${graph.signature} ${graph.task} ${store.hooks.rows} ${stop}`;
    return this.ask('hooks', moment, () => this.controller.request('hooks', {}));
  }

  /** Jacobians that were computed while recorded; asked for again when there are more. */
  jacobians(): Answer<Jacobian[]> {
    return this.ask('jacobians', String(this.model.store.state.jacobians ?? 0), () =>
      this.controller.request('jacobians', {})
    );
  }

  values(seq: number, which: string): Answer<Values> {
    return this.ask(`values ${seq} ${which}`, this.momentOf(seq), () =>
      this.controller.request('values', { seq, which, limit: VALUE_BYTES })
    );
  }

  /** Norms of values; while one pass comes after the other they are not asked for at each. */
  weights(): Answer<Weights> {
    const { weighed } = this;
    const task = newestPass(this.model.store);
    const now = performance.now();
    if (task !== weighed.task) {
      if (now - weighed.at > RENEW_MS) this.weighed = { task, at: now };
      else this.comeBack(RENEW_MS);
    }
    return this.ask('weights', String(this.weighed.task), () =>
      this.controller.request('weights', {})
    );
  }

  /** Has all drawn again a moment later. */
  private comeBack(after: number): void {
    clearTimeout(this.again);
    this.again = setTimeout(this.changed, after);
  }

  /** Every number of the graph on screen. */
  scalars(): Answer<Scalars> {
    const { graph, store, axis } = this.model;
    const { paused } = store.state;
    const count = graph.seqs.length + graph.leaves.length;
    if (count > MOST_DRAWN) {
      const why =
        `This graph has ${count} nodes; ` +
        `numbers are drawn one by one up to ${MOST_DRAWN}.`;
      return { kind: 'answer', value: { nodes: [], seq: null, why } };
    }
    const stop = paused ? `${paused.task}.${paused.order}.${this.edits}` : '';
    const seqs = [...graph.seqs, ...graph.leaves];
    return this.ask(`scalars ${graph.task} ${seqs[0]}`, `${stop} ${axis.runs.length}`, () =>
      this.controller.request('scalars', { seqs })
    );
  }

  /** The newest answer to a question; while a newer one is under way the one before stays. */
  private ask<T>(question: string, moment: string, request: () => Promise<T>): Answer<T> {
    const { session, epoch } = this.model.store;
    const key = `${session} ${epoch} ${question}`;
    const known = this.asked.get(key);
    const late = known?.answer.kind === 'none' && performance.now() - known.at > ASK_AGAIN_MS;
    if (known && known.moment === moment && !(late && this.controller.capabilities.live)) {
      return known.answer as Answer<T>;
    }
    if (this.model.status.kind !== 'connected' && this.model.status.kind !== 'offline') {
      return (known?.answer as Answer<T>) ?? { kind: 'none', why: '' };
    }
    if (this.asked.size > REMEMBERED) this.asked.clear();
    const entry: Asked = { moment, at: performance.now(), answer: known?.answer ?? WAITING };
    this.asked.set(key, entry);
    const settle = (answer: Answer<unknown>): void => {
      entry.answer = answer;
      entry.at = performance.now();
      if (this.disposed) {
        return;
      }
      this.changed();
      if (answer.kind === 'none' && BUSY.test(answer.why)) {
        // Nothing else may happen that draws what is still being looked at: it asks again then.
        this.comeBack(ASK_AGAIN_MS + 1);
      }
    };
    request().then(
      value => settle({ kind: 'answer', value }),
      (error: unknown) =>
        settle({ kind: 'none', why: error instanceof Error ? error.message : String(error) })
    );
    return entry.answer as Answer<T>;
  }

  /** Changes whenever an answer about this node may have changed. */
  private momentOf(seq: number): string {
    const { store } = this.model;
    const { paused } = store.state;
    const { live } = this.controller.capabilities;
    const clock = paused || !live ? 0 : Math.floor(store.now / RENEW_MS);
    const stop = paused ? `${paused.task}.${paused.order}.${this.edits}` : '';
    return `${stop} ${STATE_NAMES[this.model.stateOf(seq)]} ${clock}`;
  }
}
