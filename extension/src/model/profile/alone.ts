// The host of a profile that was opened without a notebook or a recording: there is nothing to ask.

import type {
  Capabilities,
  ConnectionStatus,
  Controller,
  RawBatch
} from '../../protocol/controller';
import { oneLine } from '../../protocol/text';
import { Signal } from '../../protocol/signal';

export class ProfileAlone implements Controller {
  readonly capabilities: Capabilities = { live: false, control: false };
  readonly onBatch = new Signal<RawBatch>();
  readonly onStatus = new Signal<ConnectionStatus>();
  readonly status: ConnectionStatus;

  constructor(name: string) {
    this.status = { kind: 'offline', detail: '', busy: false, subject: oneLine(name, 60) };
  }

  request(): Promise<never> {
    return Promise.reject(new Error('This is a profile: there is no kernel to ask.'));
  }

  reveal(): Promise<boolean> {
    return Promise.resolve(false);
  }
}
