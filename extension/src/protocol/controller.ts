// What the Inspector needs of its host: batches in, requests out, source lines shown.
// JupyterLab's panel, the inline widget and the standalone page each implement it once.

import type {
  CommandName,
  Commands,
  Edit,
  Header,
  NodeDetails,
  Site,
  State,
  Values
} from './schema';
import type { Cell } from './cell';
import type { OpenRecording } from './recording';
import type { Listenable } from './signal';

/** A batch as it came over the wire: not yet checked. */
export interface RawBatch {
  header: Header | unknown;
  buffer: ArrayBuffer | ArrayBufferView;
}

export type ConnectionKind =
  /** no notebook or kernel to follow */
  | 'none'
  /** a kernel is there, the channel is being opened */
  | 'connecting'
  | 'connected'
  /** the kernel died or went away; what was recorded stays on screen */
  | 'disconnected'
  /** a recording without a kernel */
  | 'offline'
  /** the recording or the channel cannot be used at all */
  | 'failed';

export interface ConnectionStatus {
  kind: ConnectionKind;
  /** one sentence for the reader; empty when there is nothing to say */
  detail: string;
  /** the kernel is executing something */
  busy: boolean;
  /** who is followed: a notebook's name, a file's name */
  subject: string;
  /** the kernel has imported PyTorch itself */
  torch?: boolean;
}

/** What a notebook runs to have its PyTorch watched. */
export const WATCH_TORCH = 'import ag_visual as ag, torch\nag.watch(torch)';

export interface Capabilities {
  /** new batches may still come */
  live: boolean;
  /** commands reach the kernel even while it runs a cell */
  control: boolean;
  /** requests reach it between cells, where control is false */
  requests?: boolean;
}

export type Theme = 'light' | 'dark';

export interface Kept {
  /** what the recording opens beside itself */
  readonly beside?: OpenRecording['beside'];
  /** as its author gave it; empty without one */
  readonly name?: string;
  /** the variables whose graph was shown as it stood; null for what was recorded */
  readonly of?: OpenRecording['of'];
  details(seq: number): NodeDetails | undefined;
  values(seq: number, which: string): Values | undefined;
}

/** A line of a cell that made nodes of the graph on screen. */
export interface LineMark {
  cell: string;
  /** the run of the cell that made them */
  execution: number | null;
  /** from 1 */
  line: number;
  /** as it ran: an edited line is not marked */
  text: string;
  nodes: number;
}

/** How much time and memory a line of a cell takes. */
export interface HeatMark {
  cell: string;
  execution: number | null;
  /** from 1 */
  line: number;
  /** as it ran */
  text: string;
  /** shares of the hottest line's, from 0 to 1 */
  time: number;
  memory: number;
  says: string;
}

/** An expression to mark where the user edits it, and what it did, in words. */
export interface PlaceMark {
  site: Site;
  kind: 'selected' | 'saved' | 'written' | 'detached';
  says: string;
}

/** What is recorded without asking. */
export type Watching = 'newest' | 'everything' | 'off';

export interface Controller {
  readonly capabilities: Capabilities;
  readonly status: ConnectionStatus;
  /** What a recording holds about its nodes, where no kernel needs to be asked. */
  readonly kept?: Kept;
  /** Emits in the order of the wire. A batch is handled when emit returns: acknowledge it then. */
  readonly onBatch: Listenable<RawBatch>;
  readonly onStatus: Listenable<ConnectionStatus>;
  /** The kernel's state as told on connecting, where the event channel may still be held up. */
  readonly onState?: Listenable<State>;
  /** Rejects with an Error whose message can be shown as it is. */
  request<C extends CommandName>(
    command: C,
    args: Commands[C]['args']
  ): Promise<Commands[C]['result']>;
  /** Shows a source line where the user edits it; false when it cannot be found. */
  reveal(site: Site): Promise<boolean>;
  /** Marks the lines that made nodes, in place of those marked before. */
  markLines?(lines: readonly LineMark[]): void;
  /** Shows beside lines what they cost, in place of what was shown before. */
  markHeat?(lines: readonly HeatMark[]): void;
  /** Marks expressions in place of those marked before; no cursor and no focus moves. */
  markPlaces?(places: readonly PlaceMark[]): void;
  /** The user asked for the nodes of a marked line. */
  readonly onLine?: Listenable<{ cell: string; line: number }>;
  /** Puts a changed copy of a cell below it; false when it cannot be found as it ran. */
  tryOut?(edit: Edit): Promise<boolean>;
  /** Inserts a cell with `WATCH_TORCH` and runs it; false where it cannot. */
  watchTorch?(): Promise<boolean>;
  /** Opens a notebook of the course that the kernel wrote; false where it is not found. */
  openNotebook?(name: string): Promise<boolean>;
  /** The name that the notebook's cells give the package; null where none imports it. */
  importedAs?(): string | null;
  /** Puts a cell with this text below the active one; nothing runs. False where it cannot. */
  insertCell?(source: string): Promise<boolean>;
  /** Shows a recording that the kernel sent, beside what is shown. */
  openRun?(recording: unknown, name: string): void;
  /** The panel stays with this notebook when another one is activated. */
  readonly pinned?: Cell<boolean>;
  /** The user's choice, remembered over restarts; absent where it cannot be kept. */
  readonly watching?: Cell<Watching>;
  /** Called once when the Inspector is listening: send what was kept. */
  ready?(): void;
}
