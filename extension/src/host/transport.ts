// The page's side of the wire to one kernel: finds ag_visual in it, opens the event channel, hands
// batches on undecoded, acknowledges them, and turns requests into promises with time limits. Knows
// nothing of JupyterLab.

import type { ConnectionKind, RawBatch } from '../protocol/controller';
import type { CommandName, Commands, Hello, Reply, State } from '../protocol/schema';
import { COMM_TARGET, REQUESTS_TARGET, VERSION } from '../protocol/schema';
import type { Disposable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import type { KernelPort, Writer } from './port';

export interface Link {
  kind: ConnectionKind;
  /** one sentence for the reader */
  detail: string;
  /** commands reach the kernel while a cell runs */
  control: boolean;
  /** requests reach the kernel at all: without control, between cells */
  requests: boolean;
  /** torch was there when the kernel was last asked */
  torch?: boolean;
}

/**
 * Milliseconds a request may take; writing a file, summing up a large tensor and running a backward
 * again take longer than a step.
 */
const LIMITS: Partial<Record<CommandName, number>> = {
  export: 60_000,
  check: 30_000,
  values: 20_000,
  numbers: 20_000,
  scalars: 20_000,
  card: 20_000,
  resync: 20_000
};
const LIMIT = 8_000;
const HELLO_LIMIT = 4_000;
/**
 * An idle kernel answers a probe in a few milliseconds; one that has not by now runs or pauses a
 * cell.
 */
const PROBE_LIMIT = 1_000;

const WAITING = 'Waiting for this notebook to import ag_visual.';
const WAITING_TO_RECORD = `${WAITING} It is recorded from then on, as before the restart.`;
const RESTARTING = 'The kernel is restarting.';
const DEAD = 'The kernel died. What it sent before is still here.';
const UNREACHABLE = 'The connection to the server is lost. What was received is still here.';
const NO_CONTROL =
  'This kernel takes no commands while a cell runs: record, then look through what was recorded.';

/** Of use only while a cell runs. */
const WHILE_RUNNING: ReadonlySet<CommandName> = new Set([
  ...(['pause', 'step', 'continue', 'run_to', 'step_past', 'step_to_problem'] as const),
  ...(['edit', 'breakpoint'] as const)
]);

class TimeLimit extends Error {}

/** What its reader asked of a kernel that the next one is asked for, too. */
export interface Asked {
  record: Commands['record']['args'] | null;
  /** the session that was asked */
  session: string;
}

function state(header: unknown): unknown {
  return typeof header === 'object' && header !== null && 'state' in header ? header.state : null;
}

function within<T>(promise: Promise<T>, milliseconds: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new TimeLimit()), milliseconds);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

export class Transport implements Disposable {
  readonly onBatch = new Signal<RawBatch>();
  readonly onLink = new Signal<Link>();
  /** The kernel's state as it stood when the kernel was found. */
  readonly onState = new Signal<State>();
  /** Names this page to the kernel, also after it reconnected. */
  readonly page: string;

  private current: Link = { kind: 'connecting', detail: '', control: true, requests: false };
  private readonly connections: Disposable[];
  private events: Disposable | null = null;
  /** requests take this way where there is no control channel */
  private writer: Writer | null = null;
  private readonly replies = new Map<string, (reply: unknown) => void>();
  /** grows when the kernel's life changes: whatever was begun before is stale then */
  private life = 0;
  private attempt: Promise<void> | null = null;
  /** a wake-up came while an attempt was under way, perhaps too late for it */
  private missed = false;
  private listening = false;
  private session = '';
  private requests = 0;
  private disposed = false;

  constructor(
    private readonly port: KernelPort,
    page: string,
    private readonly asked: Asked = { record: null, session: '' }
  ) {
    this.page = page;
    this.connections = [
      port.onChange.connect(() => this.onStanding()),
      port.onOccasion.connect(() => this.onOccasion())
    ];
    this.look();
  }

  get link(): Link {
    return this.current;
  }

  /**
   * The Inspector listens from now on. A channel that opens brings everything kept; one that is
   * open already is asked to send it again.
   */
  listen(): void {
    if (!this.listening) {
      this.listening = true;
      if (this.events) {
        this.post('resync', { page: this.page });
      }
    }
  }

  /** Asks the kernel; rejects with a sentence for the reader. */
  async request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    if (this.disposed) {
      throw new Error('This notebook is closed.');
    }
    if (this.current.kind !== 'connected') {
      throw new Error(this.current.detail || 'There is no connection to the kernel yet.');
    }
    if (!this.current.control && (!this.writer || WHILE_RUNNING.has(command))) {
      throw new Error(NO_CONTROL);
    }
    const result = await this.send(command, args, LIMITS[command] ?? LIMIT);
    if (command === 'record') {
      const record = args as Commands['record']['args'];
      Object.assign(this.asked, { record: record.on ? record : null, session: this.session });
    }
    return result;
  }

  dispose(): void {
    if (this.disposed) {
      return;
    }
    this.disposed = true;
    this.life += 1;
    this.connections.forEach(connection => connection.dispose());
    this.closeEvents();
    this.onBatch.clear();
    this.onLink.clear();
    this.onState.clear();
    this.port.dispose();
  }

  private async send<C extends CommandName>(
    command: C,
    args: Commands[C]['args'],
    limit: number
  ): Promise<Commands[C]['result']> {
    const id = `${this.page}:${++this.requests}`;
    let reply: Reply<C>;
    try {
      const asked = { id, command, ...args };
      const answered = this.writer ? this.write(this.writer, asked) : this.port.control(asked);
      reply = (await within(answered, limit)) as Reply<C>;
    } catch (error) {
      if (error instanceof TimeLimit) {
        throw new Error(
          `The kernel did not answer '${command}' within ${limit / 1000} s. ` +
            'It may be inside one long computation: wait, or interrupt the kernel.'
        );
      }
      throw new Error(`'${command}' was not answered: the kernel is gone or restarting.`);
    } finally {
      this.replies.delete(id);
    }
    if (reply.ok) {
      return reply.result;
    }
    throw new Error(reply.error || `The kernel refused '${command}' and gave no reason.`);
  }

  /** The answer comes among the events. */
  private write(writer: Writer, content: { id: string }): Promise<unknown> {
    return new Promise(resolve => {
      this.replies.set(content.id, resolve);
      writer.write({ ...content, page: this.page });
    });
  }

  private onStanding(): void {
    const { status } = this.port;
    if (status === 'alive') {
      if (this.current.kind === 'disconnected') {
        // After a restart nothing is imported; after a lost connection everything is still there.
        const restarted = this.current.detail !== UNREACHABLE;
        this.settle({ kind: 'connecting', detail: restarted ? this.waiting : '' });
        this.look();
      }
      return;
    }
    this.life += 1;
    this.attempt = null;
    this.closeEvents();
    const detail = { restarting: RESTARTING, dead: DEAD, unreachable: UNREACHABLE }[status];
    this.settle({ kind: 'disconnected', detail });
  }

  private onOccasion(): void {
    this.missed = this.attempt !== null;
    this.look();
  }

  private look(): void {
    if (this.attempt || this.disposed || this.current.kind === 'connected') {
      return;
    }
    if (this.port.status !== 'alive') {
      this.onStanding();
      return;
    }
    this.missed = false;
    const { life } = this;
    const attempt = this.find()
      .catch(() => this.stale(life) || this.wait())
      .then(() => {
        if (this.attempt === attempt) {
          this.attempt = null;
          if (this.missed) {
            this.look();
          }
        }
      });
    this.attempt = attempt;
  }

  private wait(): void {
    this.settle({ kind: 'connecting', detail: this.waiting });
  }

  private get waiting(): string {
    return this.asked.record ? WAITING_TO_RECORD : WAITING;
  }

  /** A kernel that was restarted records as the one before did. */
  private async askAgain(session: string): Promise<void> {
    this.session = session;
    const { record } = this.asked;
    if (record && session !== this.asked.session && (this.current.control || this.writer)) {
      this.asked.session = session;
      await this.send('record', record, LIMIT).then(
        known => this.onState.emit(known),
        () => undefined
      );
    }
  }

  /**
   * Whether ag_visual is in the kernel. An idle kernel is probed, which leaves no trace in its log.
   * While a cell runs or is paused, the probe waits behind it, or is lost where the connection of
   * the page is not up yet, and saying hello over the control channel gets through: tried once the
   * probe is late (a page that was reloaded), when the kernel announces ag_visual (a cell that
   * imports it), and again each time after twice the time: a hello can be lost or late, too, and
   * a paused cell gives no wake-up.
   */
  private async present(free: boolean): Promise<boolean> {
    const { life } = this;
    const probed = this.port.probe().catch(() => new Promise<never>(() => undefined));
    let patience = free ? PROBE_LIMIT : 0;
    while (!this.stale(life)) {
      const found = await Promise.race([probed, this.wakeUp(patience)]);
      if (found !== null || (await this.hello())) {
        return found ?? true;
      }
      patience = Math.max(PROBE_LIMIT, 2 * patience);
    }
    return false;
  }

  /** The next wake-up, or the end of these milliseconds. */
  private wakeUp(milliseconds: number): Promise<null> {
    return new Promise(resolve => {
      const end = (): void => {
        clearTimeout(timer);
        connection.dispose();
        resolve(null);
      };
      const connection = this.port.onOccasion.connect(end);
      const timer = setTimeout(end, milliseconds);
    });
  }

  private async find(): Promise<void> {
    const { life } = this;
    const free = await this.port.ready();
    if (this.stale(life)) {
      return;
    }
    const present = await this.present(free);
    if (this.stale(life)) {
      return;
    }
    const hello = present ? await this.hello() : null;
    if (this.stale(life)) {
      return;
    }
    if (!present) {
      this.wait();
      return;
    }
    if (hello && hello.v !== VERSION) {
      this.settle({
        kind: 'failed',
        detail:
          `ag_visual ${hello.package_version} in this kernel speaks format ${hello.v}, ` +
          `this Inspector format ${VERSION}: ` +
          'install one release in both places, then reload the page.',
        control: false
      });
      return;
    }
    const control = hello?.control ?? false;
    const { listening } = this;
    // Commands work from here on, even where a running cell still holds up the event channel.
    this.connected(control);
    if (hello) {
      this.onState.emit(hello.state);
      void this.askAgain(hello.session);
    }
    const events = await this.port.open(
      COMM_TARGET,
      { v: VERSION, page: this.page },
      {
        message: (data, buffers) => this.stale(life) || this.receive(data, buffers),
        closed: reason => this.stale(life) || this.lost(reason)
      }
    );
    if (this.stale(life)) {
      events.dispose();
      return;
    }
    this.events = events;
    if (!control) {
      const writer = await this.port.openRequests(REQUESTS_TARGET);
      if (this.stale(life)) {
        writer.dispose();
        return;
      }
      this.writer = writer;
      this.connected(false);
      void this.askAgain(this.session);
    }
    if (this.listening !== listening) {
      this.post('resync', { page: this.page });
    }
  }

  private connected(control: boolean): void {
    const detail = control ? '' : NO_CONTROL;
    this.settle({ kind: 'connected', detail, control, requests: control || this.writer !== null });
  }

  private async hello(): Promise<Hello | null> {
    try {
      return await this.send('hello', {}, HELLO_LIMIT);
    } catch {
      return null;
    }
  }

  private receive(header: unknown, buffers: readonly (ArrayBuffer | ArrayBufferView)[]): void {
    if (typeof header === 'object' && header !== null && 'reply' in header) {
      const reply = header.reply as { id?: unknown } | null;
      this.replies.get(String(reply?.id))?.(reply);
      return;
    }
    const reported = state(header) as { control?: unknown } | null;
    if (reported?.control === true && this.current.kind === 'connected' && !this.current.control) {
      // The kernel was too busy to say hello in time; it does take commands.
      this.closeWriter();
      this.connected(true);
    }
    const buffer = buffers[0] ?? new ArrayBuffer(0);
    const batch =
      typeof header === 'object' && header !== null && 'batch' in header ? header.batch : undefined;
    if (typeof batch === 'number') {
      this.onBatch.emit({ header, buffer });
      const { session } = header as { session?: unknown };
      if (typeof session === 'string' && session !== this.session) void this.askAgain(session);
      this.post('ack', { batch, page: this.page });
    } else {
      // A ping: a background page may not run its timers, but it answers messages.
      this.post('ack', { batch: 0, page: this.page });
    }
  }

  /** Sends what needs no answer. */
  private post<C extends CommandName>(command: C, args: Commands[C]['args']): void {
    this.send(command, args, LIMIT).catch(() => undefined);
  }

  /**
   * The kernel closed the channel: the session ended there, or ag_visual was never ready to listen.
   */
  private lost(reason: string): void {
    this.events = null;
    this.closeWriter();
    this.life += 1;
    this.attempt = null;
    if (reason) {
      this.settle({ kind: 'failed', detail: reason, control: false });
    } else {
      this.wait();
    }
  }

  private closeEvents(): void {
    this.events?.dispose();
    this.events = null;
    this.closeWriter();
  }

  private closeWriter(): void {
    this.writer?.dispose();
    this.writer = null;
  }

  private stale(life: number): boolean {
    return this.disposed || life !== this.life;
  }

  private settle(changed: Partial<Link> & Pick<Link, 'kind' | 'detail'>): void {
    const link: Link = { control: true, requests: false, torch: this.port.torch, ...changed };
    const { kind, detail, control, requests, torch } = this.current;
    const same = kind === link.kind && detail === link.detail && torch === link.torch;
    if (!same || control !== link.control || requests !== link.requests) {
      this.current = link;
      this.onLink.emit(link);
    }
  }
}
