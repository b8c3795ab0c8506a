// A JupyterLab kernel connection as the port that a transport talks through.
// docs/notes/busy-kernels.md tells why requests go over the control channel and events over a comm
// that the page never writes to.

import type { Kernel } from '@jupyterlab/services';
import { KernelMessage } from '@jupyterlab/services';
import type { Disposable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import { ANNOUNCE_TYPE, REPLY_TYPE, REQUEST_TYPE } from '../protocol/schema';
import type { EventListener, KernelPort, KernelStanding } from './port';

const LOADED = "'ag_visual' in __import__('sys').modules";
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

export class LabKernel implements KernelPort {
  readonly onChange = new Signal<void>();
  readonly onOccasion = new Signal<void>();
  private own = new Set<string>();
  /** the kernel told about itself when it was last asked */
  private informed = false;
  private last: { standing: KernelStanding; busy: boolean };

  constructor(private readonly kernel: Kernel.IKernelConnection) {
    this.last = { standing: this.standing, busy: this.busy };
    kernel.statusChanged.connect(this.changed, this);
    kernel.connectionStatusChanged.connect(this.changed, this);
    kernel.iopubMessage.connect(this.published, this);
  }

  get standing(): KernelStanding {
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
    return this.kernel.status === 'busy';
  }

  async ready(): Promise<boolean> {
    const end = Date.now() + READY_LIMIT;
    while (Date.now() < end) {
      // Asked for again each time: a restart replaces the promise and leaves the old one pending.
      const told = this.kernel.info.then(() => true);
      if (await Promise.race([told, delay(READY_LIMIT / 5).then(() => false)])) {
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
      user_expressions: { loaded: LOADED }
    });
    const id = future.msg.header.msg_id;
    this.own.add(id);
    const { content } = await future.done;
    if (content.status !== 'ok') {
      return false;
    }
    const answer = content.user_expressions.loaded as
      { data?: { 'text/plain'?: string } } | undefined;
    return answer?.data?.['text/plain'] === 'True';
  }

  async control(content: object): Promise<unknown> {
    // Jupyter's types list its own messages only; the wire takes any.
    const message = KernelMessage.createMessage({
      msgType: REQUEST_TYPE as 'debug_request',
      channel: 'control',
      session: this.kernel.clientId,
      username: this.kernel.username,
      content: content as KernelMessage.IDebugRequestMsg['content']
    });
    const reply = await this.kernel.sendControlMessage(message, true, true).done;
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
    // In JupyterLab's class, not in its interface.
    const comm: Kernel.IComm & { readonly subshellStarted?: Promise<void> } =
      this.kernel.createComm(target);
    comm.onMsg = message => listener.message(message.content.data, message.buffers ?? []);
    comm.onClose = message => {
      const { error } = message.content.data ?? {};
      listener.closed(typeof error === 'string' ? error : '');
    };
    if (!this.informed) {
      // A page that was reloaded while a cell runs: the kernel could not even say what it supports.
      this.openBehindCell(comm, data, await this.subshell());
    } else {
      if (this.kernel.supportsSubshells) {
        // Opened before its subshell runs, the comm would wait behind the running cell.
        const started = comm.subshellStarted?.catch(() => undefined);
        await Promise.race([started, delay(SUBSHELL_LIMIT)]);
      }
      comm.open(data);
    }
    return {
      dispose: () => {
        comm.onMsg = () => undefined;
        comm.onClose = () => undefined;
        if (!comm.isDisposed) {
          if (this.standing === 'alive') {
            comm.close();
          } else {
            comm.dispose();
          }
        }
      }
    };
  }

  /**
   * A subshell of our own, from a kernel that told nothing about itself; null where it has none.
   */
  private async subshell(): Promise<string | null> {
    const message = KernelMessage.createMessage({
      msgType: 'create_subshell_request',
      channel: 'control',
      session: this.kernel.clientId,
      username: this.kernel.username,
      content: {}
    });
    const { done } = this.kernel.sendControlMessage(message, true, true);
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
    const message = KernelMessage.createMessage({
      msgType: 'comm_open',
      channel: 'shell',
      session: this.kernel.clientId,
      username: this.kernel.username,
      subshellId: subshellId ?? undefined,
      content: { comm_id: comm.commId, target_name: comm.targetName, data }
    });
    this.kernel.sendShellMessage(message, false, true);
  }

  dispose(): void {
    this.kernel.statusChanged.disconnect(this.changed, this);
    this.kernel.connectionStatusChanged.disconnect(this.changed, this);
    this.kernel.iopubMessage.disconnect(this.published, this);
    this.onChange.clear();
    this.onOccasion.clear();
  }

  private changed(): void {
    const { standing, busy } = this;
    if (standing !== this.last.standing || busy !== this.last.busy) {
      this.last = { standing, busy };
      this.onChange.emit();
    }
  }

  private published(_: unknown, message: KernelMessage.IIOPubMessage): void {
    const type = message.header.msg_type as string;
    if (type === ANNOUNCE_TYPE) {
      this.onOccasion.emit();
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
    if (!this.own.delete(parent.msg_id)) {
      this.onOccasion.emit();
    }
  }
}
