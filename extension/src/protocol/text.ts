// Text that comes from programs, made fit for one line of a label: untrusted, of any length.
// It is only ever shown through text nodes and canvas text, never as HTML.

/** Longest string the page keeps; longer ones are cut when they arrive. */
export const KEPT = 4096;

// Controls, line ends and the marks that reorder or hide neighbouring text.
const UNFIT = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+/g;

/** Cuts a long string; the cut never falls inside a surrogate pair. */
export function cut(text: string, length: number): string {
  if (text.length <= length) {
    return text;
  }
  let end = Math.max(0, length - 1);
  const last = text.charCodeAt(end - 1);
  if (last >= 0xd800 && last <= 0xdbff) {
    end -= 1;
  }
  return text.slice(0, end) + '…';
}

/** One line without control or direction marks, at most `length` characters long. */
export function oneLine(text: string, length = 200): string {
  // Cut before cleaning: a 10 MB string must not be scanned for a 200-character label.
  return cut(cut(text, 2 * length + 16).replace(UNFIT, ' '), length);
}

/** Several lines, for a code block: tabs and line ends stay. */
export function block(text: string, length = 20000): string {
  return cut(text, length).replace(UNFIT, run =>
    /^[\n\t]+$/.test(run) ? run : run.replace(/[^\n\t]/g, '')
  );
}
