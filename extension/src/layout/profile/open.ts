// From the bytes of a file to a profile that can be painted, whichever of the formats it is in.

import { ChromeTrace, TRACE_LIMITS } from '../../model/profile/chrome';
import { isProfileFile, readColumns } from '../../model/profile/columns_file';
import type { Profile } from '../../model/profile/profile';
import { countText } from '../../model/format';
import type { Lanes } from './lanes';
import { placeLanes } from './lanes';

export interface Opened {
  profile: Profile;
  lanes: Lanes;
}

export interface Progress {
  bytes: number;
  events: number;
}

const HALF_MB = 2 ** 19;
/** Bytes of a file in our own format, unpacked: it is read as a whole. */
const LARGEST_COLUMNS = 2 ** 30;

const BROKEN = 'The packed file is damaged or cut short: it could not be unpacked to its end.';

class Chunks {
  broken = '';
  private readonly reader: ReadableStreamDefaultReader<Uint8Array>;

  constructor(
    stream: ReadableStream<Uint8Array>,
    private readonly packed: boolean
  ) {
    this.reader = stream.getReader();
  }

  /** The next bytes; null at the end, also where what is packed breaks off. */
  async next(): Promise<Uint8Array | null> {
    try {
      const piece = await this.reader.read();
      return piece.done ? null : piece.value;
    } catch (error) {
      this.broken = this.packed
        ? BROKEN
        : `The file could not be read to its end: ${error instanceof Error ? error.message : ''}`;
      return null;
    }
  }

  cancel(): void {
    void this.reader.cancel().catch(() => undefined);
  }
}

async function unpacked(file: Blob): Promise<Chunks> {
  const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
  const packed = head[0] === 0x1f && head[1] === 0x8b;
  const stream = file.stream() as ReadableStream<Uint8Array>;
  return new Chunks(
    packed ? stream.pipeThrough(new DecompressionStream('gzip')) : stream,
    packed
  );
}

/** Throws an Error with a sentence to show. */
export async function openProfile(
  file: Blob,
  progress: (done: Progress) => void = () => undefined
): Promise<Opened> {
  const head = new Uint8Array(await file.slice(0, 64).arrayBuffer());
  if (isProfileFile(head)) {
    // Read at once: in pieces it would take as long again as everything else.
    if (file.size > LARGEST_COLUMNS) throw tooLarge();
    const profile = readColumns(new Uint8Array(await file.arrayBuffer()));
    return { profile, lanes: placeLanes(profile) };
  }
  if ((head[0] === 0xff && head[1] === 0xfe) || (head[0] === 0xfe && head[1] === 0xff)) {
    throw new Error('This file is text in UTF-16: save it as UTF-8.');
  }
  const chunks = await unpacked(file);
  const first = await chunks.next();
  const profile =
    first && isProfileFile(first)
      ? await columnsOf(first, chunks)
      : await traceOf(first, chunks, progress);
  return { profile, lanes: placeLanes(profile) };
}

function tooLarge(): Error {
  return new Error(`This profile is larger than ${countText(LARGEST_COLUMNS)} bytes.`);
}

async function columnsOf(first: Uint8Array, chunks: Chunks): Promise<Profile> {
  const parts = [first];
  let length = first.length;
  for (let part = await chunks.next(); part; part = await chunks.next()) {
    length += part.length;
    if (length > LARGEST_COLUMNS) {
      chunks.cancel();
      throw tooLarge();
    }
    parts.push(part);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return readColumns(bytes);
}

async function traceOf(
  first: Uint8Array | null,
  chunks: Chunks,
  progress: (done: Progress) => void
): Promise<Profile> {
  const trace = new ChromeTrace(TRACE_LIMITS);
  let told = 0;
  for (let part = first; part; part = await chunks.next()) {
    for (let at = 0; at < part.length; at += HALF_MB) {
      if (!trace.push(part.subarray(at, at + HALF_MB))) {
        chunks.cancel();
        return trace.finish();
      }
    }
    if (trace.progress.bytes - told > 8 * HALF_MB) {
      told = trace.progress.bytes;
      progress(trace.progress);
    }
  }
  return trace.finish(chunks.broken);
}
