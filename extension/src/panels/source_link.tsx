// A place in the user's code: a link that shows it, and its text with the exact expression marked.

import type { ReactElement } from 'react';
import type { Site } from '../protocol/schema';
import { block, oneLine } from '../protocol/text';
import { placeText } from '../model/format';
import { useInspector } from './presenter';

export function SourceLink({ site }: { site: Site }): ReactElement {
  const presenter = useInspector();
  return (
    <button
      type="button"
      className="agv-link"
      title={oneLine(`${site.where}, in ${site.function || 'module'}`)}
      onClick={() => void presenter.reveal(site)}
    >
      {placeText(site)}
    </button>
  );
}

/** A sentence in which code stands between backticks. */
export function Words({ text, length = 800 }: { text: string; length?: number }): ReactElement {
  const parts = oneLine(text, length).split('`');
  // An odd number of parts means that every backtick has its partner.
  return (
    <>
      {parts.length % 2 === 1
        ? parts.map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))
        : parts.join('`')}
    </>
  );
}

/** The source line; the part that made the node is marked. */
export function SourceText({ site }: { site: Site }): ReactElement | null {
  const line = block(site.source_line, 600);
  if (!line) {
    return null;
  }
  const text = block(site.text, 600);
  const at = text && text !== line ? line.indexOf(text) : -1;
  return (
    <pre className="agv-src">
      {at < 0 ? (
        line
      ) : (
        <>
          {line.slice(0, at)}
          <mark>{text}</mark>
          {line.slice(at + text.length)}
        </>
      )}
    </pre>
  );
}
