// A recording file: JSON with base64 buffers, opened without a kernel. Foreign and cut files are
// told apart.

import type { NodeDetails, Values } from './schema';
import { RECORDING_FORMAT, VERSION } from './schema';
import type { Batch } from './decode';
import { ProtocolError, VersionError, decodeBatch, isObject, versionText } from './decode';

export interface OpenRecording {
  created: string;
  packageVersion: string;
  batches: Batch[];
  details: Map<number, NodeDetails>;
  /** by '<seq> <which>' */
  values: Map<string, Values>;
  /** What could not be read though the rest could; empty when all is well. */
  warning: string;
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

/**
 * Opens a recording given as JSON text or as the parsed object; throws ProtocolError with a
 * sentence to show.
 */
export function openRecording(source: unknown): OpenRecording {
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
  return {
    created: typeof file.created === 'string' ? file.created : '',
    packageVersion: typeof file.package_version === 'string' ? file.package_version : '',
    batches,
    details,
    values,
    warning
  };
}
