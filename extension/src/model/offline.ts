// A host without a kernel: plays a recording's batches and answers from what was saved with them.

import type {
  Capabilities,
  ConnectionStatus,
  Controller,
  Kept,
  RawBatch
} from '../protocol/controller';
import type { OpenRecording } from '../protocol/recording';
import { openRecording, scalarsOf } from '../protocol/recording';
import type { CommandName, Commands, Lesson, Scalars } from '../protocol/schema';
import { Signal } from '../protocol/signal';
import type { InspectorModel } from './inspector';

const NO_KERNEL = 'This is a recording: there is no kernel to ask.';

const NO_NUMBERS =
  'The numbers of this graph were not kept. Record with torch.record(scalars=True) and export ' +
  'with values.';

const DATE: Intl.DateTimeFormatOptions = { day: 'numeric', month: 'short', year: 'numeric' };

function dated(created: string): string {
  const time = new Date(created);
  return Number.isNaN(time.getTime())
    ? 'Recording'
    : `Recording of ${time.toLocaleDateString(undefined, DATE)}`;
}

const ANSWERED: ReadonlySet<CommandName> = new Set([
  'node',
  'values',
  'card',
  'jacobians',
  'numbers',
  'local',
  'weights'
]);

/** The arguments of questions that a recording may answer. */
interface Asked {
  seq?: number;
  which?: string;
  name?: string;
  input?: string;
  at?: number;
  seqs?: number[];
}

export class OfflineController implements Controller {
  readonly capabilities: Capabilities = { live: false, control: false };
  readonly onBatch = new Signal<RawBatch>();
  readonly onStatus = new Signal<ConnectionStatus>();
  readonly status: ConnectionStatus;
  readonly kept: Kept;
  private readonly recording: OpenRecording | null;
  private readonly failure: string;
  private asked: Promise<Scalars | null> | null = null;
  private fetched: Scalars | null = null;
  private why = '';

  /** numbers: asks the kernel for those of the graph, where the recording has none. */
  constructor(
    source: unknown,
    private readonly numbers?: () => Promise<unknown>
  ) {
    let recording: OpenRecording | null = null;
    let failure = '';
    try {
      recording = openRecording(source);
    } catch (error) {
      failure = error instanceof Error ? error.message : String(error);
    }
    this.recording = recording;
    this.failure = failure;
    this.kept = {
      beside: recording?.beside ?? null,
      name: recording?.name ?? '',
      of: recording?.of ?? null,
      details: seq => recording?.details.get(seq),
      values: (seq, which) => recording?.values.get(`${seq} ${which}`)
    };
    this.status = recording
      ? {
          kind: 'offline',
          detail: recording.warning,
          busy: false,
          subject: recording.name || dated(recording.created)
        }
      : { kind: 'failed', detail: failure, busy: false, subject: '' };
  }

  /** Puts all batches into a model; the caller mounts it afterwards. */
  fill(model: InspectorModel): void {
    if (!this.recording) {
      model.fail(this.failure);
      return;
    }
    for (const batch of this.recording.batches) {
      if (model.take(batch) === 'gap') {
        model.fail('A part of the recording is missing. Save or copy it again.');
        return;
      }
    }
  }

  /** How the recording was set up for who opens it. */
  get lesson(): Lesson | null {
    return this.recording?.lesson ?? null;
  }

  /** Every number of these nodes, as far as they were kept. */
  private scalars(seqs: readonly number[]): Scalars {
    const kept = this.recording?.scalars ?? this.fetched;
    const wanted = new Set(seqs);
    const nodes = kept?.nodes.filter(({ seq }) => wanted.has(seq)) ?? [];
    const why = nodes.length > 0 ? '' : kept?.why || this.why || NO_NUMBERS;
    return { nodes, seq: kept?.seq ?? null, why };
  }

  request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    if (command === 'scalars' || command === 'local') {
      const fetched = this.fetch();
      if (fetched) return fetched.then(() => this.found(command, args));
    }
    return this.found(command, args);
  }

  /** The numbers that are still to come; null where there is nothing to wait for. */
  private fetch(): Promise<Scalars | null> | null {
    if (!this.numbers || !this.recording || this.recording.scalars || this.fetched) {
      return null;
    }
    this.asked ??= this.numbers()
      .then(value => {
        const scalars = scalarsOf(value);
        // What the kernel cannot tell now it may tell later: another graph took its place.
        if (scalars && scalars.nodes.length > 0) this.fetched = scalars;
        else this.why = scalars?.why ?? '';
        return scalars;
      })
      .finally(() => {
        this.asked = null;
      });
    return this.asked;
  }

  private found<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']> {
    const found = this.answer(command, args as Asked);
    if (found !== undefined) {
      return Promise.resolve(found as Commands[C]['result']);
    }
    return Promise.reject(new Error(ANSWERED.has(command) ? '' : NO_KERNEL));
  }

  /** What was saved with the recording. */
  private answer(
    command: CommandName,
    { seq = -1, which = '', name, input, at, seqs = [] }: Asked
  ): unknown {
    const { recording } = this;
    switch (command) {
      case 'node':
        return this.kept.details(seq);
      case 'values':
        return this.kept.values(seq, which);
      case 'card':
        return recording?.cards.get(String(seq)) ?? recording?.cards.get(name ?? '');
      case 'numbers':
        return input === undefined && at === undefined
          ? recording?.numbers.get(String(seq))
          : undefined;
      case 'jacobians':
        return recording?.jacobians;
      case 'local':
        return (recording?.scalars ?? this.fetched)?.nodes.find(numbers => numbers.seq === seq);
      case 'scalars':
        return this.scalars(seqs);
      case 'weights':
        return recording?.weights ?? undefined;
      default:
        return undefined;
    }
  }

  reveal(): Promise<boolean> {
    return Promise.resolve(false);
  }
}
