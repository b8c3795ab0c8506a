// The bytes of a file that a reader picked or dropped, as the recording's JSON text: a recording as
// `save` writes it (gzip), plain JSON, or a standalone page. Never trusts a length.

import { ProtocolError } from './decode';
import { RECORDING_ELEMENT } from './schema';

/** Characters of JSON that a recording may unpack to. */
const LARGEST = 2 ** 29;

async function unpacked(bytes: Uint8Array, largest: number): Promise<string> {
  const packed = new Response(bytes).body;
  if (!packed) {
    throw new ProtocolError('The file is empty.');
  }
  const reader = packed.pipeThrough(new DecompressionStream('gzip')).getReader();
  const decoder = new TextDecoder();
  const parts: string[] = [];
  let length = 0;
  for (;;) {
    let piece: ReadableStreamReadResult<Uint8Array>;
    try {
      piece = await reader.read();
    } catch {
      throw new ProtocolError(
        'The file is damaged or cut short: it cannot be unpacked. Save or copy it again.'
      );
    }
    if (piece.done) {
      return parts.join('') + decoder.decode();
    }
    length += piece.value.byteLength;
    if (length > largest) {
      void reader.cancel();
      throw new ProtocolError(`The file unpacks to more than ${largest} bytes: no recording.`);
    }
    parts.push(decoder.decode(piece.value, { stream: true }));
  }
}

/** The recording inside of a standalone page; it is read as text and never run. */
function carried(page: string): string {
  const element = page.indexOf(`id="${RECORDING_ELEMENT}"`);
  const start = element < 0 ? -1 : page.indexOf('>', element) + 1;
  const end = start <= 0 ? -1 : page.indexOf('</script>', start);
  if (start <= 0) {
    throw new ProtocolError('This page carries no ag_visual recording.');
  }
  if (end < 0) {
    throw new ProtocolError('The page is cut short: its end is missing. Save or copy it again.');
  }
  return page.slice(start, end);
}

/** The JSON text in a file; throws ProtocolError with a sentence to show. */
export async function textOfFile(
  data: ArrayBuffer | Uint8Array,
  largest = LARGEST
): Promise<string> {
  const bytes = data instanceof Uint8Array ? data : new Uint8Array(data);
  if (bytes.length === 0) {
    throw new ProtocolError('The file is empty.');
  }
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {
    return unpacked(bytes, largest);
  }
  if (bytes.length > largest) {
    throw new ProtocolError(`The file is longer than ${largest} bytes: no recording.`);
  }
  const text = new TextDecoder().decode(bytes);
  return /^\s*<(!doctype|html)/i.test(text.slice(0, 200)) ? carried(text) : text;
}
