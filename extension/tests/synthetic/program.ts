// A make-believe program: it creates nodes line by line and runs backward passes over them, as
// events on the wire.

import type { Site } from '../../src/protocol/schema';
import { NONE } from '../../src/protocol/schema';
import { Writer } from './writer';

export interface OpOptions {
  /** the exact expression on the line */
  text?: string;
  saved?: { name: string; storage: number; version?: number; shape?: number[]; own?: boolean }[];
  site?: number;
}

interface Made {
  seq: number;
  next: number[];
  leaf: boolean;
}

export class Program {
  readonly writer: Writer;
  readonly made = new Map<number, Made>();
  step = 1;
  private seq = 0;
  private storages = 0;
  private taskId = 0;

  constructor(
    readonly cell: string[],
    readonly count: number | null = 4,
    writer = new Writer()
  ) {
    this.writer = writer;
  }

  storage(): number {
    return ++this.storages;
  }

  get last(): number {
    return this.seq;
  }

  site(line: number, text?: string): Site {
    const source = this.cell[line - 1] ?? '';
    const col = text ? Math.max(0, source.indexOf(text)) : 0;
    return {
      file: '/tmp/ipykernel_1/123.py',
      kind: 'cell',
      cell_id: 'cell-4',
      execution_count: this.count,
      line,
      col,
      end_line: line,
      end_col: col + (text ?? source).length,
      function: '<module>',
      text: text ?? source,
      where: `cell In[${this.count}], line ${line}`,
      source_line: source.trim()
    };
  }

  leaf(label: string, shape: number[], storage = this.storage()): number {
    const { writer } = this;
    const seq = ++this.seq;
    writer.row('leaves', {
      seq,
      label: writer.string(label),
      shape: writer.string(shape.join('×')),
      dtype: writer.string('float32'),
      storage,
      t: writer.t,
      site: NONE
    });
    this.made.set(seq, { seq, next: [], leaf: true });
    return seq;
  }

  /** A parameter of a module, as it is told once. */
  parameter(
    parameter: number,
    name: string,
    shape: number[],
    storage: number,
    { module = 1000, trained = true }: { module?: number; trained?: boolean } = {}
  ): void {
    const { writer } = this;
    writer.row('parameters', {
      parameter,
      module,
      order: parameter,
      name: writer.string(name),
      shape: writer.string(shape.join('×')),
      dtype: writer.string('float32'),
      storage,
      flags: trained ? 1 : 0,
      t: writer.t
    });
  }

  /** It gets no gradient, from this pass on. line 0: none is to blame. */
  absent(parameter: number, task: number, kind: string, text: string, line = 0): void {
    const { writer } = this;
    writer.row('absent', {
      parameter,
      task,
      kind: writer.string(kind),
      text: writer.string(text),
      repair: writer.string(line ? 'remove it' : ''),
      site: line ? writer.site(this.site(line)) : NONE,
      t: writer.t
    });
  }

  /** line 0: a node whose source line is unknown. */
  op(
    name: string,
    line: number,
    inputs: (number | null)[],
    shape: number[],
    options: OpOptions = {}
  ): number {
    const { writer } = this;
    const seq = ++this.seq;
    writer.t += 0.02 + ((seq * 7919) % 13) / 200;
    const numel = shape.reduce((a, b) => a * b, 1);
    writer.row('nodes', {
      seq,
      name: writer.string(name),
      site: line > 0 ? writer.site(this.site(line, options.text)) : NONE,
      thread: 0,
      t: writer.t,
      shape: writer.string(shape.join('×')),
      dtype: writer.string('float32'),
      outputs: 1,
      numel,
      step: this.step
    });
    inputs.forEach((input, src_index) =>
      writer.row('edges', { src: seq, dst: input ?? NONE, src_index, dst_index: 0 })
    );
    for (const saved of options.saved ?? []) {
      const of = saved.shape ?? shape;
      writer.row('saved', {
        node: seq,
        name: writer.string(saved.name),
        storage: saved.storage,
        version: saved.version ?? 0,
        bytes: 4 * of.reduce((a, b) => a * b, 1),
        shape: writer.string(of.join('×')),
        dtype: writer.string('float32'),
        flags: saved.own ? 1 : 0
      });
    }
    this.made.set(seq, { seq, next: inputs.filter(input => input !== null), leaf: false });
    return seq;
  }

  write(storage: number, version: number, op: string, line: number, writes = version): void {
    const { writer } = this;
    writer.t += 0.02;
    writer.row('writes', {
      storage,
      version,
      writes,
      op: writer.string(op),
      site: writer.site(this.site(line)),
      t: writer.t
    });
  }

  /**
   * The nodes of a backward in the engine's order: newest first, as soon as all before them ran.
   */
  order(root: number): number[] {
    const needs = new Map<number, number>();
    const stack = [root];
    const seen = new Set(stack);
    while (stack.length > 0) {
      for (const next of this.made.get(stack.pop() as number)?.next ?? []) {
        needs.set(next, (needs.get(next) ?? 0) + 1);
        if (!seen.has(next)) {
          seen.add(next);
          stack.push(next);
        }
      }
    }
    const order: number[] = [];
    const ready = [root];
    while (ready.length > 0) {
      // AccumulateGrad comes before every other ready node, as in torch.
      ready.sort(
        (a, b) => Number(this.made.get(a)?.leaf) - Number(this.made.get(b)?.leaf) || a - b
      );
      const seq = ready.pop() as number;
      order.push(seq);
      for (const next of this.made.get(seq)?.next ?? []) {
        const left = (needs.get(next) ?? 0) - 1;
        needs.set(next, left);
        if (left === 0) {
          ready.push(next);
        }
      }
    }
    return order;
  }

  /** Runs a backward; `until` nodes only when given. The task stays open then. */
  backward(
    root: number,
    line: number,
    options: {
      until?: number;
      retain?: boolean;
      nanAt?: number;
      /** the gradient's norm at a node; undefined: a plain one */
      norm?: (seq: number) => number | undefined;
      /** how many cells had run */
      count?: number;
    } = {}
  ): number {
    const { writer } = this;
    const task = ++this.taskId;
    const order = this.order(root);
    writer.t += 0.3;
    const begun = { task, total: order.length, retain: options.retain ? 1 : 0, thread: 0 };
    const execution_count = options.count ?? (this.count ?? 0) + 2;
    const site = writer.site({ ...this.site(line), execution_count });
    writer.row('tasks', { ...begun, t: writer.t, site, ended: 0, root });
    const until = Math.min(options.until ?? order.length, order.length);
    for (let i = 0; i < until; i++) {
      const t0 = writer.t;
      writer.t += 0.03 + ((order[i] * 104729) % 17) / 150;
      const given = options.norm?.(order[i]);
      const late = i >= (options.nanAt ?? Infinity);
      const bad = given === undefined ? late : !Number.isFinite(given);
      const plain = 0.9 * Math.exp((-4 * i) / order.length) * (1 + 0.4 * Math.sin(i));
      writer.row('runs', {
        seq: order[i],
        task,
        order: i,
        t0,
        t1: writer.t,
        norm: given ?? (bad ? NaN : plain),
        flags: bad ? 1 : 0
      });
    }
    if (until === order.length) {
      writer.row('tasks', { ...begun, t: writer.t, site, ended: 1, root: NONE });
      if (!options.retain) {
        for (const seq of order) {
          if (!this.made.get(seq)?.leaf) writer.row('freed', { seq, t: writer.t });
        }
      }
    } else {
      writer.state.paused = {
        task,
        seq: order[until],
        order: until,
        total: order.length,
        thread: 0,
        since: writer.t
      };
    }
    this.step++;
    return task;
  }
}
