// What is recorded without asking: the user's choice, told to each kernel that is met. A kernel
// begins with the newest pass by itself, so that its first cell is not missed.

import type { Watching } from '../protocol/controller';
import type { Disposable } from '../protocol/signal';
import type { Presenter } from './presenter';

export class WatchingKernels implements Disposable {
  private readonly connections: Disposable[];
  private before: Watching;
  private connected = false;

  constructor(private readonly presenter: Presenter) {
    const { controller } = presenter;
    const { watching } = controller;
    this.before = watching?.value ?? 'newest';
    this.connections = watching
      ? [
          { dispose: watching.subscribe(() => this.changed(watching.value)) },
          controller.onStatus.connect(() => this.met())
        ]
      : [];
    this.met();
  }

  dispose(): void {
    for (const connection of this.connections) connection.dispose();
  }

  /** A kernel was found, or is gone. */
  private met(): void {
    const connected = this.presenter.controller.status.kind === 'connected';
    if (connected && !this.connected && this.before !== 'newest') void this.tell(this.before);
    this.connected = connected;
  }

  private changed(watching: Watching): void {
    const { before } = this;
    this.before = watching;
    if (!this.connected) return;
    if (before === 'everything') void this.presenter.command('record', { on: false });
    void this.tell(watching);
  }

  private tell(watching: Watching): Promise<boolean> {
    return watching === 'everything'
      ? this.presenter.command('record', { on: true, scope: 'every', every: 1 })
      : this.presenter.command('watch', { newest: watching === 'newest' });
  }
}
