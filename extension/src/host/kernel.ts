// A JupyterLab kernel connection as the port that a transport talks through: the panel has it from
// its notebook, a cell's output from its widget manager. Only types of JupyterLab are used, so that
// outputs need none of its code.
// docs/notes/busy-kernels.md tells why requests go over the control channel and events over a comm
// that the page never writes to.

import type { Kernel, KernelMessage } from '@jupyterlab/services';
import type { Disposable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import { ANNOUNCE_TYPE, REPLY_ONLY, REPLY_TYPE, REQUEST_TYPE } from '../protocol/schema';
import type { EventListener, KernelPort, KernelStatus, Writer } from './port';

const LOADED = "'ag_visual' in __import__('sys').modules";
const TORCH = "'torch' in __import__('sys').modules";
/**
 * Milliseconds to wait for the subshell of the event comm; without it the comm still opens, after
 * the running cell.
 */
const SUBSHELL_LIMIT = 3_000;

/**
 * Milliseconds after which a kernel that said nothing about itself is taken to be running a cell.
 */
const READY_LIMIT = 1_000;

function delay(milliseconds: number): Promise<null> {
  return new Promise(resolve => setTimeout(() => resolve(null), milliseconds));
}

function isTrue(answer: unknown): boolean {
  const { data } = (answer ?? {}) as { data?: { 'text/plain'?: unknown } };
  return data?.['text/plain'] === 'True';
}

/** A name that no other page has; also where the page is not a secure context. */
export function uniqueName(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map(byte => byte.toString(16).padStart(2, '0'))
    .join('');
}

/** JupyterLab's connections do all that is needed here; others may do less. */
export function isConnection(found: unknown): found is Kernel.IKernelConnection {
  const methods = ['sendControlMessage', 'sendShellMessage', 'createComm', 'requestExecute'];
  const signals = ['statusChanged', 'connectionStatusChanged', 'iopubMessage'];
  const has = (name: string): unknown => (found as Record<string, unknown>)[name];
  return (
    typeof found === 'object' &&
    found !== null &&
    methods.every(name => typeof has(name) === 'function') &&
    signals.every(name => typeof has(name) === 'object')
  );
}

export class LabKernel implements KernelPort {
  readonly onChange = new Signal<void>();
  readonly onOccasion = new Signal<void>();
  private own = new Set<string>();
  /**
   * The last probe found no ag_visual. Its import will be announced: until then nothing is asked,
   * so that a kernel without it gets no more than one request of ours.
   */
  private absent = false;
  /** The last probe found torch. */
  private hasTorch = false;
  /** Requests of cells that name torch, while it is not known to be there. */
  private readonly naming = new Set<string>();
  /** the kernel answered when it was last asked */
  private informed = false;
  /**
   * Requests of cells that run. The kernel says that it is idle whenever it has answered a message
   * of another channel or subshell, in the middle of a cell, too.
   */
  private readonly running = new Set<string>();
  private last: { status: KernelStatus; busy: boolean };

  constructor(private readonly kernel: Kernel.IKernelConnection) {
    this.last = { status: this.status, busy: this.busy };
    kernel.statusChanged.connect(this.changed, this);
    kernel.connectionStatusChanged.connect(this.changed, this);
    kernel.iopubMessage.connect(this.published, this);
  }

  get status(): KernelStatus {
    const { status, connectionStatus } = this.kernel;
    if (this.kernel.isDisposed || status === 'dead' || status === 'terminating') {
      return 'dead';
    }
    if (status === 'restarting' || status === 'autorestarting') {
      return 'restarting';
    }
    return connectionStatus === 'disconnected' ? 'unreachable' : 'alive';
  }

  get busy(): boolean {
    return this.kernel.status === 'busy' || this.running.size > 0;
  }

  get torch(): boolean {
    return this.hasTorch;
  }

  async ready(): Promise<boolean> {
    const end = Date.now() + READY_LIMIT;
    while (Date.now() < end) {
      // Asked for again each time: a restart replaces the promise and leaves the old one pending.
      const replied = this.kernel.info.then(() => true);
      if (await Promise.race([replied, delay(READY_LIMIT / 5).then(() => false)])) {
        this.informed = true;
        return true;
      }
    }
    this.informed = false;
    return false;
  }

  async probe(): Promise<boolean> {
    const future = this.kernel.requestExecute({
      code: '',
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { loaded: LOADED, torch: TORCH }
    });
    const id = future.msg.header.msg_id;
    this.own.add(id);
    const { content } = await future.done;
    const answers = content.status === 'ok' ? content.user_expressions : {};
    const loaded = isTrue(answers.loaded);
    this.hasTorch = isTrue(answers.torch);
    // An aborted probe, behind a cell that raised, tells nothing.
    this.absent = content.status === 'ok' && !loaded;
    return loaded;
  }

  async control(content: object): Promise<unknown> {
    const message = this.message(REQUEST_TYPE, 'control', content, { [REPLY_ONLY]: true });
    // Jupyter's types list its own messages only; the wire takes any.
    const future = this.kernel.sendControlMessage(
      message as KernelMessage.IDebugRequestMsg,
      true,
      true
    );
    const reply = await new Promise<KernelMessage.IMessage>((resolve, reject) => {
      future.onReply = resolve;
      // A kernel that dies or restarts ends it without a reply.
      future.done.then(resolve, reject);
    });
    future.dispose();
    if ((reply.header.msg_type as string) !== REPLY_TYPE) {
      throw new Error(`The kernel answered with ${reply.header.msg_type}.`);
    }
    return reply.content;
  }

  async open(
    target: string,
    data: { v: number; page: string },
    listener: EventListener
  ): Promise<Disposable> {
    const comm = this.kernel.createComm(target);
    comm.onMsg = message => listener.message(message.content.data, message.buffers ?? []);
    comm.onClose = message => {
      const { error } = message.content.data ?? {};
      listener.closed(typeof error === 'string' ? error : '');
    };
    if (!this.informed) {
      // A page that was reloaded while a cell runs: the kernel could not even say what it supports.
      this.openBehindCell(comm, data, await this.subshell());
    } else {
      await this.subshellOf(comm);
      comm.open(data);
    }
    return {
      dispose: () => {
        comm.onMsg = () => undefined;
        comm.onClose = () => undefined;
        this.end(comm);
      }
    };
  }

  async openRequests(target: string): Promise<Writer> {
    const comm = this.kernel.createComm(target);
    await this.subshellOf(comm);
    comm.open({});
    return {
      write: content => void comm.send({ ...content }),
      dispose: () => this.end(comm)
    };
  }

  /** Opened before its subshell runs, a comm would wait behind the running cell. */
  private async subshellOf(comm: Kernel.IComm): Promise<void> {
    if (this.kernel.supportsSubshells) {
      // In JupyterLab's class, not in its interface.
      const { subshellStarted } = comm as { readonly subshellStarted?: Promise<void> };
      await Promise.race([subshellStarted?.catch(() => undefined), delay(SUBSHELL_LIMIT)]);
    }
  }

  private end(comm: Kernel.IComm): void {
    if (comm.isDisposed) {
      return;
    }
    if (this.status === 'alive') {
      comm.close();
    } else {
      comm.dispose();
    }
  }

  private message(
    msg_type: string,
    channel: 'control' | 'shell',
    content: object,
    metadata: object = {},
    subshell_id?: string
  ): object {
    const { clientId: session, username } = this.kernel;
    const date = new Date().toISOString();
    const named = subshell_id === undefined ? {} : { subshell_id };
    return {
      channel,
      header: { msg_id: uniqueName(), msg_type, session, username, date, version: '5.4', ...named },
      parent_header: {},
      metadata,
      content,
      buffers: []
    };
  }

  /**
   * A subshell of our own, from a kernel that has not described itself; null where it has none.
   */
  private async subshell(): Promise<string | null> {
    const message = this.message('create_subshell_request', 'control', {});
    const { done } = this.kernel.sendControlMessage(
      message as KernelMessage.ICreateSubshellRequestMsg,
      true,
      true
    );
    const reply = await Promise.race([done.catch(() => null), delay(SUBSHELL_LIMIT)]);
    const content = reply?.content as { subshell_id?: unknown } | undefined;
    return typeof content?.subshell_id === 'string' ? content.subshell_id : null;
  }

  /** Opens a comm in a subshell that the comm itself knows nothing of. */
  private openBehindCell(
    comm: Kernel.IComm,
    data: { v: number; page: string },
    subshellId: string | null
  ): void {
    const content = { comm_id: comm.commId, target_name: comm.targetName, data };
    const message = this.message('comm_open', 'shell', content, {}, subshellId ?? undefined);
    this.kernel.sendShellMessage(message as KernelMessage.ICommOpenMsg<'shell'>, false, true);
  }

  dispose(): void {
    this.kernel.statusChanged.disconnect(this.changed, this);
    this.kernel.connectionStatusChanged.disconnect(this.changed, this);
    this.kernel.iopubMessage.disconnect(this.published, this);
    this.onChange.clear();
    this.onOccasion.clear();
  }

  private changed(): void {
    // What a kernel ran that restarts ends unheard, and so may what ends while nothing is heard.
    const { connectionStatus } = this.kernel;
    if (this.status !== 'alive' || connectionStatus !== 'connected') this.running.clear();
    const { status, busy } = this;
    if (status !== this.last.status || busy !== this.last.busy) {
      this.last = { status, busy };
      this.onChange.emit();
    }
  }

  private published(_: unknown, message: KernelMessage.IIOPubMessage): void {
    const type = message.header.msg_type as string;
    if (type === ANNOUNCE_TYPE) {
      this.absent = false;
      this.onOccasion.emit();
      return;
    }
    if (type === 'execute_input') {
      // What it imports can be asked for when it has run: the one time that there is a reason to.
      const { code } = (message as KernelMessage.IExecuteInputMsg).content;
      this.running.add((message.parent_header as { msg_id: string }).msg_id);
      this.changed();
      if (this.absent && !this.hasTorch && /\btorch\b/.test(code)) {
        this.naming.add((message.parent_header as { msg_id: string }).msg_id);
      }
      return;
    }
    if (type !== 'status') {
      return;
    }
    const { execution_state } = (message as KernelMessage.IStatusMsg).content;
    const parent = message.parent_header;
    if (
      execution_state !== 'idle' ||
      !('msg_type' in parent) ||
      parent.msg_type !== 'execute_request'
    ) {
      return;
    }
    if (this.running.delete(parent.msg_id)) this.changed();
    const named = this.naming.delete(parent.msg_id);
    if (!this.own.delete(parent.msg_id) && (named || !this.absent)) {
      this.onOccasion.emit();
    }
  }
}
