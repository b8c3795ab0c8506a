// A recording file: JSON with base64 buffers, opened without a kernel. Foreign and cut files are
// told apart.

import type {
  CardNumbers,
  Jacobian,
  Lesson,
  Math as MathTree,
  NodeDetails,
  Numbers,
  OpCard,
  Scalars,
  Values,
  Weights
} from './schema';
import { RECORDING_FORMAT, VERSION } from './schema';
import type { Batch } from './decode';
import { ProtocolError, VersionError, decodeBatch, isObject, versionText } from './decode';
import { readLesson } from './lesson';
import { cut } from './text';

export interface OpenRecording {
  created: string;
  packageVersion: string;
  batches: Batch[];
  details: Map<number, NodeDetails>;
  /** by '<seq> <which>' */
  values: Map<string, Values>;
  /** by seq, and by name for nodes that were gone */
  cards: Map<string, OpCard>;
  /** by seq */
  numbers: Map<string, CardNumbers>;
  /** opens as a comparison with this one at the left; its recording is null for itself */
  beside: { recording: OpenRecording | null; tasks: (number | null)[] } | null;
  /** every number of small graphs */
  scalars: Scalars | null;
  jacobians: Jacobian[];
  /** norms of the values of parameters when it was written */
  weights: Weights | null;
  lesson: Lesson | null;
  /** as its author gave it; empty without one */
  name: string;
  /** the variables whose graph was shown as it stood; null for what was recorded */
  of: string[] | null;
  /** What could not be read though the rest could; empty when all is well. */
  warning: string;
}

/** Characters of a name that are shown, and variables of one picture. */
const LONGEST_NAME = 120;
const MOST_VARIABLES = 20;

function textOf(value: unknown): string {
  return typeof value === 'string' ? cut(value, LONGEST_NAME) : '';
}

function bytesOf(base64: unknown): ArrayBuffer {
  if (typeof base64 !== 'string') {
    throw new ProtocolError('A batch of the recording has no data.');
  }
  let binary: string;
  try {
    binary = atob(base64);
  } catch {
    throw new ProtocolError('A batch of the recording is damaged (its data is not base64).');
  }
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  return bytes.buffer;
}

function parse(source: unknown): unknown {
  if (typeof source !== 'string') {
    return source;
  }
  if (source.trim() === '') {
    throw new ProtocolError('The recording is empty.');
  }
  try {
    return JSON.parse(source);
  } catch {
    const known = source.slice(0, 400).includes(RECORDING_FORMAT);
    throw new ProtocolError(
      known
        ? 'The recording is cut short: its end is missing. Save or copy it again.'
        : 'This is not an ag_visual recording.'
    );
  }
}

function isDetails(value: unknown): value is NodeDetails {
  return (
    isObject(value) &&
    typeof value.seq === 'number' &&
    typeof value.name === 'string' &&
    ['next', 'outputs', 'saved', 'values', 'hooks'].every(key => Array.isArray(value[key]))
  );
}

function isValues(value: unknown): value is Values {
  return isObject(value) && Array.isArray(value.shape) && isObject(value.histogram);
}

/** Deeper than any formula: a file from elsewhere shall not run out of the stack. */
const DEEPEST_MATH = 100;

function isMath(value: unknown, depth = 0): value is MathTree {
  return (
    depth < DEEPEST_MATH &&
    isObject(value) &&
    typeof value.tag === 'string' &&
    (value.text === undefined || typeof value.text === 'string') &&
    (value.children === undefined ||
      (Array.isArray(value.children) &&
        value.children.every((child: unknown) => isMath(child, depth + 1))))
  );
}

function isCard(value: unknown): value is OpCard {
  return (
    isObject(value) &&
    ['op', 'says', 'text', 'note'].every(key => typeof value[key] === 'string') &&
    isMath(value.forward) &&
    Array.isArray(value.given) &&
    Array.isArray(value.derivatives) &&
    value.derivatives.every(
      (one: unknown) =>
        isObject(one) &&
        ['input', 'says', 'text'].every(key => typeof one[key] === 'string') &&
        isMath(one.math) &&
        Array.isArray(one.where) &&
        one.where.every((line: unknown) => isMath(line))
    )
  );
}

function isNumbers(value: unknown): value is CardNumbers {
  return (
    isObject(value) &&
    isMath(value.math) &&
    ['input', 'text', 'source'].every(key => typeof value[key] === 'string') &&
    ['inputs', 'index', 'shape', 'used'].every(key => Array.isArray(value[key]))
  );
}

function isEnd(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value.name === 'string' &&
    Array.isArray(value.shape) &&
    value.shape.every(size => typeof size === 'number') &&
    (value.seq === null || typeof value.seq === 'number')
  );
}

function isJacobian(value: unknown): value is Jacobian {
  if (!isObject(value) || typeof value.kind !== 'string' || typeof value.function !== 'string') {
    return false;
  }
  const { rows, columns, blocks } = value;
  return (
    typeof value.id === 'number' &&
    Array.isArray(rows) &&
    Array.isArray(columns) &&
    Array.isArray(blocks) &&
    [...rows, ...columns].every(isEnd) &&
    blocks.every(
      (block: unknown) =>
        isObject(block) &&
        typeof block.row === 'number' &&
        typeof block.column === 'number' &&
        isEnd(rows[block.row]) &&
        isEnd(columns[block.column]) &&
        isValues(block.values) &&
        isPicture(block.values.picture)
    )
  );
}

function isPicture(value: unknown): boolean {
  return (
    value === null ||
    (isObject(value) &&
      Array.isArray(value.values) &&
      Number(value.rows) * Number(value.cols) === value.values.length &&
      value.values.every((one: unknown) => one === null || typeof one === 'number'))
  );
}

function besideOf(value: unknown): OpenRecording['beside'] {
  if (!isObject(value)) {
    return null;
  }
  const recording = isObject(value.recording) ? openRecording(value.recording, true) : null;
  const tasks = Array.isArray(value.tasks) ? value.tasks : [];
  return { recording, tasks: tasks.map(task => (typeof task === 'number' ? task : null)) };
}

function isLocal(value: unknown): value is Numbers {
  return (
    isObject(value) &&
    typeof value.seq === 'number' &&
    typeof value.name === 'string' &&
    ['inputs', 'outputs'].every(
      key =>
        Array.isArray(value[key]) &&
        value[key].every(one => isObject(one) && Array.isArray(one.shape))
    )
  );
}

export function scalarsOf(value: unknown): Scalars | null {
  return isObject(value) && Array.isArray(value.nodes)
    ? {
        nodes: value.nodes.filter(isLocal),
        seq: typeof value.seq === 'number' ? value.seq : null,
        why: typeof value.why === 'string' ? cut(value.why, 600) : ''
      }
    : null;
}

function normsOf(value: unknown): Weights['parameters'] {
  const norms = Object.entries(isObject(value) ? value : {});
  return Object.fromEntries(
    norms.filter((each): each is [string, number | string] =>
      ['number', 'string'].includes(typeof each[1])
    )
  );
}

function weightsOf(value: unknown): Weights | null {
  return isObject(value)
    ? {
        parameters: normsOf(value.parameters),
        storages: normsOf(value.storages),
        left_out: typeof value.left_out === 'number' ? value.left_out : 0
      }
    : null;
}

/**
 * Opens a recording given as JSON text or as the parsed object; throws ProtocolError with a
 * sentence to show.
 */
export function openRecording(source: unknown, alone = false): OpenRecording {
  const file = parse(source);
  if (!isObject(file) || file.format !== RECORDING_FORMAT) {
    throw new ProtocolError('This is not an ag_visual recording.');
  }
  if (file.v !== VERSION) {
    throw new VersionError(versionText('The recording', file.v));
  }
  if (!Array.isArray(file.batches)) {
    throw new ProtocolError('The recording holds no batches.');
  }
  const batches: Batch[] = [];
  let warning = '';
  for (const [position, item] of file.batches.entries()) {
    try {
      if (!isObject(item)) {
        throw new ProtocolError('A batch of the recording is damaged.');
      }
      batches.push(decodeBatch(item.header, bytesOf(item.buffer)));
    } catch (error) {
      if (batches.length === 0 || !(error instanceof ProtocolError)) {
        throw error;
      }
      // Later batches count on this one's strings: what came before is sound, what follows is not.
      warning =
        `Batch ${position + 1} of ${file.batches.length} is damaged; ` +
        `shown is what came before it. ${error.message}`;
      break;
    }
  }
  const details = new Map<number, NodeDetails>();
  for (const [seq, reply] of Object.entries(isObject(file.details) ? file.details : {})) {
    if (isDetails(reply)) {
      details.set(Number(seq), reply);
    }
  }
  const values = new Map<string, Values>();
  for (const [key, reply] of Object.entries(isObject(file.values) ? file.values : {})) {
    if (isValues(reply)) {
      values.set(key, reply);
    }
  }
  const cards = new Map<string, OpCard>();
  const kept = Array.isArray(file.cards) ? (file.cards as unknown[]) : [];
  for (const [key, at] of Object.entries(isObject(file.card_of) ? file.card_of : {})) {
    const card = typeof at === 'number' ? kept[at] : undefined;
    if (isCard(card)) {
      cards.set(key, card);
    }
  }
  const numbers = new Map<string, CardNumbers>();
  for (const [seq, reply] of Object.entries(isObject(file.numbers) ? file.numbers : {})) {
    if (isNumbers(reply)) {
      numbers.set(seq, reply);
    }
  }
  return {
    created: typeof file.created === 'string' ? file.created : '',
    packageVersion: typeof file.package_version === 'string' ? file.package_version : '',
    batches,
    details,
    values,
    cards,
    numbers,
    beside: alone ? null : besideOf(file.beside),
    scalars: scalarsOf(file.scalars),
    jacobians: Array.isArray(file.jacobians) ? file.jacobians.filter(isJacobian) : [],
    weights: weightsOf(file.weights),
    lesson: readLesson(file.lesson),
    name: textOf(file.name),
    of: Array.isArray(file.of) ? file.of.slice(0, MOST_VARIABLES).map(textOf) : null,
    warning
  };
}
