// Runs the layout away from the page's thread where a worker may be started, otherwise in pieces
// between frames. Small graphs are laid out at once: a worker's start costs more than they do.

import type { Layout, LayoutInput } from './measures';
import { layOut, layoutSteps } from './layout';
import source from './worker_source';

/** Up to so many nodes and edges a layout takes about a frame. */
export const AT_ONCE = 5000;
/** Longest piece of main-thread work where no worker can be started. */
const PIECE_MS = 8;
/** A worker that says nothing for so long was stopped by the page's policy. */
const SILENCE_MS = 10_000;

type Reply = { id: number; layout: Layout } | { id: number; error: string };

export class LayoutRunner {
  private worker: Worker | null = null;
  private usable = typeof Worker === 'function' && typeof Blob === 'function';
  private url = '';
  private newest = 0;
  private settle = new Map<
    number,
    { done: (layout: Layout) => void; failed: (error: Error) => void }
  >();

  /** The layout of a graph that is small enough to be laid out within a frame; or null. */
  atOnce(input: LayoutInput): Layout | null {
    if (input.count + input.edgeFrom.length > AT_ONCE) {
      return null;
    }
    this.newest++;
    return layOut(input);
  }

  /** Starts the worker before there is work for it. */
  warm(): void {
    this.start();
  }

  /** The layout of the newest input; null when another run was started before this one ended. */
  async run(input: LayoutInput): Promise<Layout | null> {
    const small = this.atOnce(input);
    if (small) {
      return small;
    }
    const id = ++this.newest;
    const worker = this.start();
    if (worker) {
      try {
        const layout = await this.ask(worker, id, input);
        return id === this.newest ? layout : null;
      } catch {
        this.stop();
        this.usable = false;
      }
    }
    return this.inPieces(id, input);
  }

  dispose(): void {
    this.newest++;
    this.stop();
  }

  private start(): Worker | null {
    if (!this.usable || this.worker) {
      return this.worker;
    }
    try {
      this.url = URL.createObjectURL(new Blob([source], { type: 'text/javascript' }));
      this.worker = new Worker(this.url);
    } catch {
      this.usable = false;
      return null;
    }
    this.worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      const waiting = this.settle.get(data.id);
      this.settle.delete(data.id);
      if ('layout' in data) waiting?.done(data.layout);
      else waiting?.failed(new Error(data.error));
    };
    // A policy that forbids blob workers is told here, not by the constructor.
    this.worker.onerror = () => this.failAll(new Error('The layout worker could not be started.'));
    return this.worker;
  }

  private ask(worker: Worker, id: number, input: LayoutInput): Promise<Layout> {
    return new Promise((done, failed) => {
      const timer = setTimeout(
        () => {
          this.settle.delete(id);
          failed(new Error('The layout worker does not answer.'));
        },
        SILENCE_MS + input.count / 10
      );
      const ending =
        <T>(call: (value: T) => void) =>
        (value: T): void => {
          clearTimeout(timer);
          call(value);
        };
      this.settle.set(id, { done: ending(done), failed: ending(failed) });
      worker.postMessage({ id, input });
    });
  }

  private failAll(error: Error): void {
    const waiting = [...this.settle.values()];
    this.settle.clear();
    for (const { failed } of waiting) failed(error);
  }

  private stop(): void {
    this.worker?.terminate();
    this.worker = null;
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = '';
    this.failAll(new Error('The layout was stopped.'));
  }

  private async inPieces(id: number, input: LayoutInput): Promise<Layout | null> {
    const steps = layoutSteps(input);
    for (;;) {
      const until = performance.now() + PIECE_MS;
      while (performance.now() < until) {
        const step = steps.next();
        if (step.done) return id === this.newest ? step.value : null;
      }
      await new Promise(resolve => setTimeout(resolve));
      if (id !== this.newest) return null;
    }
  }
}
