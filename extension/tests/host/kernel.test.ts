import type { Kernel } from '@jupyterlab/services';
import { describe, expect, it } from 'vitest';
import { LabKernel } from '../../src/host/kernel';
import { ANNOUNCE_TYPE } from '../../src/protocol/schema';
import { Signal } from '../../src/protocol/signal';

/** JupyterLab's connection, as far as finding ag_visual needs it. */
class FakeConnection {
  status = 'idle';
  connectionStatus = 'connected';
  isDisposed = false;
  loaded = 'False';
  torch = 'False';
  probed = 'ok';
  asked = 0;
  readonly statusChanged = lumino<void>();
  readonly connectionStatusChanged = lumino<void>();
  readonly iopubMessage = lumino<unknown>();

  requestExecute() {
    const msg_id = `probe-${++this.asked}`;
    const loaded = { data: { 'text/plain': this.loaded } };
    const torch = { data: { 'text/plain': this.torch } };
    const reply = { content: { status: this.probed, user_expressions: { loaded, torch } } };
    const done = Promise.resolve().then(() => {
      this.ends(msg_id);
      return reply;
    });
    return { msg: { header: { msg_id } }, done };
  }

  /** A cell begins to run. */
  begins(msg_id: string, code: string): void {
    this.iopubMessage.emit({
      header: { msg_type: 'execute_input' },
      parent_header: { msg_type: 'execute_request', msg_id },
      content: { code, execution_count: 1 }
    });
  }

  /** An execution is over. */
  ends(msg_id: string): void {
    this.iopubMessage.emit({
      header: { msg_type: 'status' },
      parent_header: { msg_type: 'execute_request', msg_id },
      content: { execution_state: 'idle' }
    });
  }
}

/** A signal that, like JupyterLab's, calls its slots with a sender and with `this`. */
function lumino<T>() {
  const signal = new Signal<T>();
  return {
    emit: (value: T) => signal.emit(value),
    connect: (slot: (sender: unknown, value: T) => void, self: unknown) =>
      signal.connect(value => slot.call(self, null, value)),
    disconnect: () => undefined
  };
}

async function found(loaded: boolean, probed = 'ok') {
  const connection = new FakeConnection();
  connection.loaded = loaded ? 'True' : 'False';
  connection.probed = probed;
  const kernel = new LabKernel(connection as unknown as Kernel.IKernelConnection);
  let occasions = 0;
  kernel.onOccasion.connect(() => void (occasions += 1));
  expect(await kernel.probe()).toBe(loaded);
  return { connection, kernel, occasions: () => occasions };
}

describe('occasions to look for ag_visual', () => {
  it('are none where it is absent, until the kernel announces it', async () => {
    const { connection, occasions } = await found(false);
    connection.ends('cell-1');
    connection.ends('cell-2');
    expect(occasions()).toBe(0);
    connection.iopubMessage.emit({ header: { msg_type: ANNOUNCE_TYPE } });
    expect(occasions()).toBe(1);
    connection.ends('cell-3');
    expect(occasions()).toBe(2);
  });

  it('are the ends of cells where it is present: a failed attempt is made again', async () => {
    const { connection, occasions } = await found(true);
    connection.ends('cell-1');
    expect(occasions()).toBe(1);
  });

  it('are the ends of cells where nothing is known, as after a probe behind an error', async () => {
    const { connection, occasions } = await found(false, 'aborted');
    connection.ends('cell-1');
    expect(occasions()).toBe(1);
  });

  it('are the ends of cells that name torch, until it is known to be there', async () => {
    const { connection, kernel, occasions } = await found(false);
    expect(kernel.torch).toBe(false);
    connection.begins('cell-1', 'torchlight = 1');
    connection.ends('cell-1');
    expect(occasions()).toBe(0);
    connection.begins('cell-2', 'import torch');
    expect(occasions()).toBe(0);
    connection.ends('cell-2');
    expect(occasions()).toBe(1);
    connection.torch = 'True';
    await kernel.probe();
    expect(kernel.torch).toBe(true);
    connection.begins('cell-3', 'torch.ones(3)');
    connection.ends('cell-3');
    expect(occasions()).toBe(1);
  });
});

describe('a kernel', () => {
  it('is busy while a cell runs, whatever else it answers meanwhile', () => {
    const connection = new FakeConnection();
    const kernel = new LabKernel(connection as unknown as Kernel.IKernelConnection);
    const told: boolean[] = [];
    kernel.onChange.connect(() => told.push(kernel.busy));
    connection.status = 'busy';
    connection.statusChanged.emit();
    connection.begins('cell', 'train()');
    connection.status = 'idle'; // it has answered another channel's message
    connection.statusChanged.emit();
    expect(kernel.busy).toBe(true);
    connection.ends('cell');
    expect(told).toEqual([true, false]);
  });

  it('runs nothing any more that it ran before a restart or while it was not heard', () => {
    const connection = new FakeConnection();
    const kernel = new LabKernel(connection as unknown as Kernel.IKernelConnection);
    connection.begins('cell', 'train()');
    connection.status = 'restarting';
    connection.statusChanged.emit();
    connection.status = 'idle';
    connection.statusChanged.emit();
    expect(kernel.busy).toBe(false);
    connection.begins('cell', 'train()');
    connection.connectionStatus = 'connecting';
    connection.connectionStatusChanged.emit();
    connection.connectionStatus = 'connected';
    connection.connectionStatusChanged.emit();
    expect(kernel.busy).toBe(false);
  });
});
