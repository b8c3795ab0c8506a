import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { EventListener, KernelPort, KernelStatus } from '../../src/host/port';
import type { Asked } from '../../src/host/transport';
import { Transport } from '../../src/host/transport';
import { VERSION } from '../../src/protocol/schema';
import { Signal } from '../../src/protocol/signal';

interface Request {
  id: string;
  command: string;
  [argument: string]: unknown;
}

/** A kernel that answers as the protocol says; each test changes what it needs. */
class FakeKernel implements KernelPort {
  status: KernelStatus = 'alive';
  busy = false;
  imported = true;
  mute = false;
  version: number = VERSION;
  session = 'first';
  hasControl = true;
  readonly onChange = new Signal<void>();
  readonly onOccasion = new Signal<void>();
  readonly requests: Request[] = [];
  readonly written: Request[] = [];
  readonly opened: { page: string; listener: EventListener; closed: boolean }[] = [];
  probes = 0;
  disposed = false;

  ready = (): Promise<boolean> => Promise.resolve(!this.busy);

  probe = (): Promise<boolean> => {
    this.probes += 1;
    return this.busy ? new Promise(() => undefined) : Promise.resolve(this.imported);
  };

  control(content: object): Promise<unknown> {
    const request = content as Request;
    this.requests.push(request);
    const { id, command } = request;
    if (this.mute || !this.imported) {
      return new Promise(() => undefined);
    }
    if (command === 'hello') {
      const state = { recording: false, paused: { order: 3 } };
      const about = { v: this.version, package_version: '9.9', session: this.session };
      const result = { ...about, control: this.hasControl, state };
      return Promise.resolve({ id, ok: true, result });
    }
    if (command === 'run_to') {
      return Promise.resolve({ id, ok: false, error: 'node 7 has run already' });
    }
    return Promise.resolve({ id, ok: true, result: { echoed: command } });
  }

  open(_: string, data: { page: string }, listener: EventListener) {
    const channel = { page: data.page, listener, closed: false };
    this.opened.push(channel);
    return Promise.resolve({ dispose: () => void (channel.closed = true) });
  }

  openRequests() {
    const write = (content: object): void => void this.written.push(content as Request);
    return Promise.resolve({ write, dispose: () => undefined });
  }

  dispose(): void {
    this.disposed = true;
  }

  become(status: KernelStatus): void {
    this.status = status;
    this.onChange.emit();
  }

  commands(): string[] {
    return this.requests.map(request => request.command);
  }
}

const settle = () => vi.advanceTimersByTimeAsync(1);

async function connected(kernel = new FakeKernel()) {
  const transport = new Transport(kernel, 'page-1');
  await settle();
  expect(transport.link.kind).toBe('connected');
  return { kernel, transport };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Another process of the same kernel, in which nothing is imported yet. */
async function restart(kernel: FakeKernel): Promise<void> {
  kernel.imported = false;
  kernel.become('restarting');
  kernel.become('alive');
  await settle();
  kernel.session += ' again';
}

describe('a restart', () => {
  const record = { on: true, scope: 'every', every: 1 } as const;

  it('goes on recording with the import, and says so before', async () => {
    const { kernel, transport } = await connected();
    const told: unknown[] = [];
    transport.onState.connect(state => told.push(state));
    await transport.request('record', record);
    await restart(kernel);
    expect(transport.link).toMatchObject({
      kind: 'connecting',
      detail: expect.stringContaining('It is recorded from then on')
    });
    kernel.requests.length = 0;
    kernel.imported = true;
    kernel.onOccasion.emit();
    await settle();
    expect(kernel.commands()).toEqual(['hello', 'record']);
    expect(kernel.requests[1]).toMatchObject(record);
    expect(told[told.length - 1]).toEqual({ echoed: 'record' });
  });

  it('records nothing that was not being recorded, and no session twice', async () => {
    const { kernel, transport } = await connected();
    await transport.request('record', record);
    kernel.become('unreachable');
    kernel.become('alive');
    await settle();
    await transport.request('record', { on: false });
    await restart(kernel);
    expect(transport.link.detail).not.toContain('recorded');
    kernel.imported = true;
    kernel.onOccasion.emit();
    await settle();
    expect(kernel.commands().filter(command => command === 'record')).toHaveLength(2);
  });

  it('goes on with the kernel that takes the place of another', async () => {
    const asked: Asked = { record: null, session: '' };
    const first = new Transport(new FakeKernel(), 'page-1', asked);
    await settle();
    await first.request('record', record);
    first.dispose();
    const kernel = new FakeKernel();
    kernel.session = 'another';
    new Transport(kernel, 'page-1', asked);
    await settle();
    expect(kernel.commands()).toEqual(['hello', 'record']);
  });

  it('goes on where requests come over a channel of their own', async () => {
    const kernel = new FakeKernel();
    kernel.hasControl = false;
    const transport = new Transport(kernel, 'page-1');
    await settle();
    void transport.request('record', record);
    const [{ id }] = kernel.written;
    kernel.opened[0].listener.message({ reply: { id, ok: true, result: {} } }, []);
    await settle();
    await restart(kernel);
    kernel.imported = true;
    kernel.onOccasion.emit();
    await settle();
    expect(kernel.written.map(({ command }) => command)).toEqual(['record', 'record']);
  });
});

describe('finding ag_visual', () => {
  it('says hello, then opens the event channel under the name of its page', async () => {
    const { kernel } = await connected();
    expect(kernel.commands()).toEqual(['hello']);
    expect(kernel.opened.map(channel => channel.page)).toEqual(['page-1']);
  });

  it('waits for the import and looks again on a wake-up', async () => {
    const kernel = new FakeKernel();
    kernel.imported = false;
    const transport = new Transport(kernel, 'page-1');
    await settle();
    expect(transport.link).toMatchObject({
      kind: 'connecting',
      detail: expect.stringContaining('import ag_visual')
    });
    kernel.onOccasion.emit();
    await settle();
    expect(kernel.probes).toBe(2);
    // A kernel without ag_visual would log each unknown request as an error.
    expect(kernel.requests).toEqual([]);
    kernel.imported = true;
    kernel.onOccasion.emit();
    await settle();
    expect(transport.link.kind).toBe('connected');
  });

  it('gets through to a kernel whose cell is running or paused', async () => {
    const kernel = new FakeKernel();
    kernel.busy = true;
    const transport = new Transport(kernel, 'page-1');
    await settle();
    expect(transport.link.kind).toBe('connected');
    expect(kernel.opened).toHaveLength(1);
  });

  it('says hello again where the first one was lost, ever more seldom', async () => {
    const kernel = new FakeKernel();
    kernel.busy = true;
    kernel.mute = true;
    const transport = new Transport(kernel, 'page-1');
    await vi.advanceTimersByTimeAsync(60_000);
    expect(transport.link.kind).toBe('connecting');
    expect(kernel.commands().length).toBeGreaterThan(2);
    expect(kernel.commands().length).toBeLessThan(8);
    kernel.mute = false;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(transport.link.kind).toBe('connected');
    expect(kernel.probes).toBe(1);
  });

  it('says hello where the probe was lost', async () => {
    const kernel = new FakeKernel();
    kernel.probe = () => Promise.reject(new Error('Canceled future'));
    const transport = new Transport(kernel, 'page-1');
    await vi.advanceTimersByTimeAsync(2_000);
    expect(transport.link.kind).toBe('connected');
  });

  it('is there at once when a running cell imports ag_visual and the kernel says so', async () => {
    const kernel = new FakeKernel();
    kernel.busy = true;
    kernel.imported = false;
    const transport = new Transport(kernel, 'page-1');
    await vi.advanceTimersByTimeAsync(10_000);
    expect(transport.link.kind).toBe('connecting');
    kernel.imported = true;
    kernel.onOccasion.emit();
    await settle();
    expect(transport.link.kind).toBe('connected');
    expect(kernel.probes).toBe(1);
  });

  it('does not miss an import that ends while it looks', async () => {
    const kernel = new FakeKernel();
    const { probe } = kernel;
    let answer: (imported: boolean) => void = () => undefined;
    kernel.probe = () => new Promise(resolve => (answer = resolve));
    const transport = new Transport(kernel, 'page-1');
    await settle();
    kernel.onOccasion.emit();
    kernel.probe = probe;
    answer(false);
    await settle();
    expect(transport.link.kind).toBe('connected');
  });

  it('tells the state that the kernel was found in, before any batch', async () => {
    const kernel = new FakeKernel();
    const transport = new Transport(kernel, 'page-1');
    const told: unknown[] = [];
    transport.onState.connect(state => told.push(state));
    await settle();
    expect(told).toEqual([{ recording: false, paused: { order: 3 } }]);
  });

  it('refuses another wire format with both numbers', async () => {
    const kernel = new FakeKernel();
    kernel.version = VERSION + 1;
    const transport = new Transport(kernel, 'page-1');
    await settle();
    expect(transport.link.kind).toBe('failed');
    expect(transport.link.detail).toContain(`format ${VERSION + 1}`);
    expect(transport.link.detail).toContain(`format ${VERSION}`);
    expect(kernel.opened).toHaveLength(0);
  });

  it('asks for everything once somebody listens, before or after it is connected', async () => {
    const late = await connected();
    late.transport.listen();
    expect(late.kernel.requests.at(-1)).toMatchObject({ command: 'resync', page: 'page-1' });

    const kernel = new FakeKernel();
    const early = new Transport(kernel, 'page-2');
    early.listen();
    expect(kernel.commands()).not.toContain('resync');
    await settle();
    // A channel that opens brings everything by itself.
    expect(kernel.commands()).toEqual(['hello']);
    early.listen();
    expect(kernel.commands()).toEqual(['hello']);
  });
});

describe('batches', () => {
  it('are handed on as they came and acknowledged after the listeners', async () => {
    const { kernel, transport } = await connected();
    const seen: unknown[] = [];
    transport.onBatch.connect(raw => {
      expect(kernel.commands()).not.toContain('ack');
      seen.push(raw);
    });
    const header = { v: 1, batch: 3 };
    const buffer = new DataView(new ArrayBuffer(16));
    kernel.opened[0].listener.message(header, [buffer]);
    expect(seen).toEqual([{ header, buffer }]);
    expect(kernel.requests.at(-1)).toMatchObject({ command: 'ack', batch: 3, page: 'page-1' });
  });

  it('answers a ping without troubling anybody', async () => {
    const { kernel, transport } = await connected();
    const listener = vi.fn();
    transport.onBatch.connect(listener);
    kernel.opened[0].listener.message({ ping: 1 }, []);
    expect(listener).not.toHaveBeenCalled();
    expect(kernel.requests.at(-1)?.command).toBe('ack');
  });
});

describe('requests', () => {
  it('resolve with the result and carry their arguments and an id of their own', async () => {
    const { kernel, transport } = await connected();
    await expect(transport.request('breakpoint', { on: true, seq: 4 })).resolves.toEqual({
      echoed: 'breakpoint'
    });
    await transport.request('step', {});
    const [first, second] = kernel.requests.slice(-2);
    expect(first).toMatchObject({ command: 'breakpoint', on: true, seq: 4 });
    expect(first.id).not.toBe(second.id);
  });

  it('reject with what the kernel said', async () => {
    const { transport } = await connected();
    await expect(transport.request('run_to', { seq: 7 })).rejects.toThrow('node 7 has run already');
  });

  it('reject in words after their time', async () => {
    const { kernel, transport } = await connected();
    kernel.mute = true;
    const step = expect(transport.request('step', {})).rejects.toThrow(
      /'step' within 8 s.*interrupt/
    );
    await vi.advanceTimersByTimeAsync(8_000);
    await step;
  });

  it('leave the kernel time to run a backward again', async () => {
    const { kernel, transport } = await connected();
    kernel.mute = true;
    const check = expect(transport.request('check', { seq: 4 })).rejects.toThrow('within 30 s');
    const scalars = expect(transport.request('scalars', { seqs: [4] })).rejects.toThrow(
      'within 20 s'
    );
    await vi.advanceTimersByTimeAsync(30_000);
    await Promise.all([check, scalars]);
  });

  it('reject at once where there is no kernel or no control channel', async () => {
    const kernel = new FakeKernel();
    kernel.hasControl = false;
    const { transport } = await connected(kernel);
    await expect(transport.request('step', {})).rejects.toThrow('record, then look');
    kernel.become('dead');
    await expect(transport.request('step', {})).rejects.toThrow('The kernel died');
  });
});

describe('a kernel without control messages', () => {
  const answering = async () => {
    const kernel = new FakeKernel();
    kernel.hasControl = false;
    const { transport } = await connected(kernel);
    const [{ listener }] = kernel.opened;
    return { kernel, transport, listener };
  };

  it('is asked over a comm and answers among the events', async () => {
    const { kernel, transport, listener } = await answering();
    expect(transport.link).toMatchObject({ control: false, requests: true });
    const node = transport.request('node', { seq: 4 });
    const [{ id, ...asked }] = kernel.written;
    expect(asked).toEqual({ command: 'node', seq: 4, page: 'page-1' });
    listener.message({ v: VERSION, reply: { id: 'another', ok: true, result: null } }, []);
    listener.message({ v: VERSION, reply: { id, ok: true, result: { name: 'Mul' } } }, []);
    await expect(node).resolves.toEqual({ name: 'Mul' });
    expect(kernel.commands()).toEqual(['hello']);
  });

  it('gets its batches acknowledged, or it would send no more', async () => {
    const { kernel, listener } = await answering();
    listener.message({ v: VERSION, batch: 3, state: { control: false } }, []);
    expect(kernel.written).toMatchObject([{ command: 'ack', batch: 3, page: 'page-1' }]);
  });

  it('takes no commands that need a running cell', async () => {
    const { kernel, transport } = await answering();
    for (const command of ['pause', 'step', 'continue'] as const) {
      await expect(transport.request(command, {})).rejects.toThrow('record, then look');
    }
    expect(kernel.written).toEqual([]);
  });

  it('was perhaps only too busy to say hello', async () => {
    const { kernel, transport, listener } = await answering();
    listener.message({ v: VERSION, batch: 1, state: { control: true } }, []);
    expect(transport.link).toMatchObject({ kind: 'connected', detail: '', control: true });
    await transport.request('step', {});
    expect(kernel.commands()).toContain('step');
  });
});

describe('a kernel that goes away', () => {
  it('is found again after a restart once the notebook imports ag_visual again', async () => {
    const { kernel, transport } = await connected();
    transport.listen();
    kernel.become('restarting');
    expect(transport.link).toMatchObject({
      kind: 'disconnected',
      detail: 'The kernel is restarting.'
    });
    expect(kernel.opened[0].closed).toBe(true);
    kernel.imported = false;
    kernel.become('alive');
    await settle();
    expect(transport.link.kind).toBe('connecting');
    kernel.imported = true;
    kernel.onOccasion.emit();
    await settle();
    expect(transport.link.kind).toBe('connected');
    expect(kernel.opened).toHaveLength(2);
    expect(kernel.commands()).toEqual(['hello', 'resync', 'hello']);
  });

  it('is found again after a lost connection, even while its cell is paused', async () => {
    const { kernel, transport } = await connected();
    kernel.become('unreachable');
    expect(transport.link.kind).toBe('disconnected');
    kernel.busy = true;
    kernel.become('alive');
    await settle();
    expect(transport.link.kind).toBe('connected');
  });

  it('does not reach the page with messages from its former life', async () => {
    const { kernel, transport } = await connected();
    const listener = vi.fn();
    transport.onBatch.connect(listener);
    const [former] = kernel.opened;
    kernel.become('restarting');
    former.listener.message({ batch: 1 }, []);
    former.listener.closed('');
    expect(listener).not.toHaveBeenCalled();
    expect(transport.link.detail).toBe('The kernel is restarting.');
  });

  it('goes back to waiting when it closes the channel', async () => {
    const { kernel, transport } = await connected();
    kernel.opened[0].listener.closed('');
    expect(transport.link.kind).toBe('connecting');
    kernel.onOccasion.emit();
    await settle();
    expect(transport.link.kind).toBe('connected');
    expect(kernel.opened).toHaveLength(2);
  });

  it('is told apart from a kernel that refuses this page', async () => {
    const { kernel, transport } = await connected();
    kernel.opened[0].listener.closed('another format');
    expect(transport.link).toMatchObject({ kind: 'failed', detail: 'another format' });
  });
});

it('disposing ends everything', async () => {
  const { kernel, transport } = await connected();
  transport.dispose();
  transport.dispose();
  expect(kernel.disposed).toBe(true);
  expect(kernel.opened[0].closed).toBe(true);
  await expect(transport.request('step', {})).rejects.toThrow('closed');
});
