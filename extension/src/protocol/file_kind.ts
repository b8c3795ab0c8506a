// Which of the Inspector's files one is, by its name and how it begins: recordings and traces of
// other programs have the same endings.

import { RECORDING_FORMAT } from './schema';

/** Bytes of a file that are looked at, unpacked. */
const LOOKED_AT = 2 ** 16;

async function beginning(file: Blob): Promise<string> {
  const head = new Uint8Array(await file.slice(0, LOOKED_AT).arrayBuffer());
  const decoder = new TextDecoder();
  if (head[0] !== 0x1f || head[1] !== 0x8b) {
    return decoder.decode(head);
  }
  const reader = (new Response(head).body as ReadableStream<Uint8Array>)
    .pipeThrough(new DecompressionStream('gzip'))
    .getReader();
  let text = '';
  try {
    while (text.length < LOOKED_AT) {
      const piece = await reader.read();
      if (piece.done) break;
      text += decoder.decode(piece.value, { stream: true });
    }
    void reader.cancel().catch(() => undefined);
  } catch {
    // Only the first bytes were given to it: it ends where they end.
  }
  return text;
}

/** What a file is to be opened as; what is wrong with it is said by who opens it. */
export async function kindOfFile(file: Blob, name: string): Promise<'recording' | 'profile'> {
  if (/\.(agv|html?)$/i.test(name)) {
    return 'recording';
  }
  const text = await beginning(file);
  const recording = text.includes(RECORDING_FORMAT) || /^\s*<(!doctype|html)/i.test(text);
  return recording ? 'recording' : 'profile';
}
