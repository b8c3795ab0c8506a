// A make-believe live kernel: trains, pauses before nodes, steps, and answers like the real one.

import type {
  Capabilities,
  ConnectionStatus,
  Controller,
  RawBatch
} from '../../src/protocol/controller';
import type {
  CommandName,
  Commands,
  ProfilePiece,
  Site,
  State
} from '../../src/protocol/schema';
import { NONE } from '../../src/protocol/schema';
import { Signal } from '../../src/protocol/signal';
import { pieceOf } from './profiles';
import { Program } from './program';

const CELL = ['z = torch.tanh(x @ W + b)', 'loss = (z - y).pow(2).mean()', 'loss.backward()'];

export class FakeKernel implements Controller {
  capabilities: Capabilities = { live: true, control: true };
  readonly onBatch = new Signal<RawBatch>();
  readonly onStatus = new Signal<ConnectionStatus>();
  status: ConnectionStatus = {
    kind: 'connected',
    detail: '',
    busy: false,
    subject: 'Untitled.ipynb'
  };
  readonly asked: { command: string; args: unknown }[] = [];
  readonly revealed: Site[] = [];
  /** what a profile that runs has collected since a row */
  pieceFrom: (since: number) => ProfilePiece = () => pieceOf([]);
  /** commands that are refused, with the sentence */
  readonly refuse: Record<string, string> = {};
  program = new Program(CELL);
  private problems = 0;
  private order: number[] = [];
  private at = 0;
  private task = 0;

  constructor() {
    this.program.writer.state.recording = false;
  }

  get state(): State {
    return this.program.writer.state;
  }

  flush(): void {
    this.onBatch.emit(this.program.writer.flush());
  }

  ready(): void {
    this.flush();
  }

  setStatus(status: Partial<ConnectionStatus>): void {
    this.status = { ...this.status, ...status };
    this.onStatus.emit(this.status);
  }

  forward(): number {
    const { program } = this;
    const W = program.leaf('W', [8, 4]);
    const b = program.leaf('b', [4]);
    const mm = program.op('MmBackward0', 1, [null, W], [16, 4], { text: 'x @ W' });
    const add = program.op('AddBackward0', 1, [mm, b], [16, 4], { text: 'x @ W + b' });
    const tanh = program.op('TanhBackward0', 1, [add], [16, 4], {
      text: 'torch.tanh(x @ W + b)',
      saved: [{ name: 'result', storage: program.storage(), own: true }]
    });
    const sub = program.op('SubBackward0', 2, [tanh], [16, 4], { text: 'z - y' });
    const pow = program.op('PowBackward0', 2, [sub], [16, 4], { text: '(z - y).pow(2)' });
    return program.op('MeanBackward0', 2, [pow], [], { text: '(z - y).pow(2).mean()' });
  }

  /** One training step in one batch. */
  train(): void {
    this.program.backward(this.forward(), 3);
    this.flush();
  }

  /** An in-place mistake in a cell that ran as the `count`th. */
  fail(node: number, count: number): void {
    const where = { ...this.program.site(3), execution_count: count };
    const seen = this.problems++;
    this.program.writer.problem({
      id: seen + 1,
      kind: 'modified-by-inplace',
      title: 'A tensor that mul saved was overwritten before backward could use it',
      detail: '',
      node_seq: node,
      node_name: 'MulBackward0',
      saved_name: 'self',
      tensor: { name: 'x', shape: [4], dtype: 'float32' },
      saved: null,
      writes: [],
      more_writes: 0,
      version_then: 0,
      version_now: 1,
      repair: null,
      where,
      text: 'modified by an inplace operation'
    });
    this.flush();
  }

  /** Begins a backward and stops before its first node. */
  begin(): void {
    const { program } = this;
    const root = this.forward();
    this.order = program.order(root);
    this.at = 0;
    this.task += 1000;
    const { writer } = program;
    writer.row('tasks', {
      task: this.task,
      t: writer.t,
      site: writer.site(program.site(3)),
      total: this.order.length,
      retain: 0,
      ended: 0,
      thread: 0,
      root
    });
    this.stop();
    this.flush();
  }

  private stop(): void {
    const { state } = this;
    state.paused =
      this.at < this.order.length
        ? {
            task: this.task,
            seq: this.order[this.at],
            order: this.at,
            total: this.order.length,
            thread: 0,
            since: 0
          }
        : null;
  }

  private runOne(): void {
    const { writer } = this.program;
    writer.t += 1;
    const norm = Math.exp(-this.at / 4);
    writer.row('runs', {
      seq: this.order[this.at],
      task: this.task,
      order: this.at,
      t0: writer.t - 0.5,
      t1: writer.t,
      norm,
      flags: 0
    });
    this.at += 1;
    if (this.at === this.order.length) {
      writer.row('tasks', {
        task: this.task,
        t: writer.t,
        site: writer.site(this.program.site(3)),
        total: this.at,
        retain: 0,
        ended: 1,
        thread: 0,
        root: NONE
      });
    }
  }

  request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    this.asked.push({ command, args });
    const refused = this.refuse[command];
    if (refused) {
      return Promise.reject(new Error(refused));
    }
    const given = args as { on?: boolean; seq?: number; name?: string };
    const { state } = this;
    if (command === 'record') {
      state.recording = given.on === true;
      state.scope = given.on ? 'every' : 'off';
    } else if (command === 'watch') {
      state.scope = (args as Commands['watch']['args']).newest ? 'newest' : 'off';
    } else if (command === 'pause') {
      state.pause_next = true;
    } else if (command === 'step') {
      this.runOne();
      this.stop();
    } else if (command === 'continue' || command === 'run_to') {
      do this.runOne();
      while (this.at < this.order.length && this.order[this.at] !== given.seq);
      this.stop();
    } else if (command === 'breakpoint') {
      state.breakpoints = state.breakpoints.filter(
        point => point.seq !== given.seq || point.name !== given.name
      );
      if (given.on) {
        const id = state.breakpoints.length + 1;
        state.breakpoints.push(
          given.seq === undefined
            ? { id, kind: 'name', name: given.name }
            : { id, kind: 'node', seq: given.seq }
        );
      }
    } else if (command === 'profile') {
      const { number, since } = args as Commands['profile']['args'];
      if (number !== state.profile) return Promise.reject(new Error('not here any more'));
      const piece = this.pieceFrom(since);
      return Promise.resolve(piece as unknown as Commands[C]['result']);
    } else {
      return Promise.reject(new Error(`not kept: ${command}`));
    }
    setTimeout(() => this.flush());
    return Promise.resolve(structuredClone(state) as unknown as Commands[C]['result']);
  }

  reveal(site: Site): Promise<boolean> {
    this.revealed.push(site);
    return Promise.resolve(true);
  }
}
