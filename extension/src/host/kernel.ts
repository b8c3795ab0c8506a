// A JupyterLab kernel connection as the port that a transport talks through. See docs/notes on busy
// kernels for why requests go over the control channel and events over a comm that the page never
// writes to.

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

export class LabKernel implements KernelPort {
  readonly onChange = new Signal<void>();
  readonly onOccasion = new Signal<void>();
  private own = new Set<string>();
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

  async ready(): Promise<void> {
    await this.kernel.info;
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
    if (this.kernel.supportsSubshells) {
      // Opened before its subshell runs, the comm would wait behind the running cell.
      const waited = new Promise<void>(resolve => setTimeout(resolve, SUBSHELL_LIMIT));
      await Promise.race([comm.subshellStarted?.catch(() => undefined), waited]);
    }
    comm.onMsg = message => listener.message(message.content.data, message.buffers ?? []);
    comm.onClose = message => {
      const { error } = message.content.data ?? {};
      listener.closed(typeof error === 'string' ? error : '');
    };
    comm.open(data);
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
