// A kernel without a notebook around it, for a cell's output: live while its session is the one
// that the output was made in.

import type { Capabilities, ConnectionStatus, Controller, RawBatch } from '../protocol/controller';
import type { CommandName, Commands, Site, State } from '../protocol/schema';
import type { Disposable } from '../protocol/signal';
import { Signal } from '../protocol/signal';
import type { KernelPort } from './port';
import { Transport } from './transport';

export class LiveController implements Controller, Disposable {
  readonly onBatch = new Signal<RawBatch>();
  readonly onStatus = new Signal<ConnectionStatus>();
  readonly onState = new Signal<State>();
  private readonly transport: Transport;

  constructor(
    private readonly port: KernelPort,
    page: string
  ) {
    this.transport = new Transport(port, page);
    port.onChange.connect(() => this.announce());
    this.transport.onLink.connect(() => this.announce());
    this.transport.onState.connect(state => this.onState.emit(state));
    this.transport.onBatch.connect(batch => this.onBatch.emit(batch));
  }

  get capabilities(): Capabilities {
    const { kind, control, requests } = this.transport.link;
    return { live: kind === 'connected', control, requests };
  }

  get status(): ConnectionStatus {
    const { kind, detail } = this.transport.link;
    return { kind, detail, busy: this.port.busy, subject: '' };
  }

  request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    return this.transport.request(command, args);
  }

  reveal(site: Site): Promise<boolean> {
    const where = site.where || 'this line';
    return Promise.reject(
      new Error(`An output cannot go to ${where}: the Inspector beside the notebook can.`)
    );
  }

  ready(): void {
    this.transport.listen();
  }

  dispose(): void {
    this.transport.dispose();
    this.onBatch.clear();
    this.onStatus.clear();
    this.onState.clear();
  }

  private announce(): void {
    this.onStatus.emit(this.status);
  }
}
