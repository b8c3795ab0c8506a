// What a transport needs of a kernel, so that it can be tested without one. JupyterLab's kernels
// are wrapped in kernel.ts.

import type { Disposable, Listenable } from '../protocol/signal';

/** Where a kernel stands, as far as this page can tell. */
export type KernelStatus =
  /** messages can be sent; `busy` tells whether a cell runs */
  | 'alive'
  | 'restarting'
  | 'dead'
  /** the page lost its connection to the server */
  | 'unreachable';

export interface EventListener {
  message(data: unknown, buffers: readonly (ArrayBuffer | ArrayBufferView)[]): void;
  /** the kernel closed the channel, or never knew it; what it said about it */
  closed(reason: string): void;
}

/** A comm that only the page writes to. */
export interface Writer extends Disposable {
  write(content: object): void;
}

export interface KernelPort extends Disposable {
  readonly status: KernelStatus;
  readonly busy: boolean;
  /** `status` or `busy` changed */
  readonly onChange: Listenable<void>;
  /** A cell ended, or the kernel said that ag_visual is there now: worth looking again. */
  readonly onOccasion: Listenable<void>;
  /** Waits a moment for the kernel to answer; false when it is occupied by a cell. */
  ready(): Promise<boolean>;
  /** Whether the last probe found that the kernel has imported torch. */
  readonly torch?: boolean;
  /** Whether the kernel has imported ag_visual. Waits for its turn: a running cell comes first. */
  probe(): Promise<boolean>;
  /**
   * Sends one request over the control channel, which a running cell does not hold up; the reply's
   * content.
   */
  control(content: object): Promise<unknown>;
  /** Opens the comm on which the kernel sends its events. */
  open(
    target: string,
    data: { v: number; page: string },
    listener: EventListener
  ): Promise<Disposable>;
  /** Opens a comm for requests to a kernel that takes no control messages of ours. */
  openRequests(target: string): Promise<Writer>;
}
