// What can be saved and cleared.

import type { ReactElement } from 'react';
import { oneLine } from '../protocol/text';
import { plural } from '../model/format';
import { dotOf, jsonOf } from '../model/text_graph';
import { Menu } from './menu';
import { useInspector } from './presenter';

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function ExportMenu(): ReactElement {
  const presenter = useInspector();
  const nothing = presenter.model.graph.seqs.length === 0;
  const png = async (): Promise<void> => {
    const blob = await presenter.canvas?.picture();
    if (blob) download(blob, 'backward-graph.png');
    else
      presenter.notify(
        'error',
        'The browser could not make the picture: the graph is too large for one image.'
      );
  };
  const text = (content: string, type: string, ending: string): void =>
    download(new Blob([content], { type }), `backward-graph.${ending}`);
  const svg = (): void => {
    const drawn = presenter.canvas?.svg();
    if (drawn) text(drawn, 'image/svg+xml', 'svg');
  };
  const html = async (values: boolean, source: boolean): Promise<void> => {
    try {
      const written = await presenter.controller.request('export', { values, source });
      presenter.notify('info', `Saved as ${oneLine(written.html, 300)}`);
    } catch (error) {
      presenter.notify('error', error instanceof Error ? error.message : String(error));
    }
  };
  const parts = presenter.model.graph.seqs.length;
  return (
    <Menu label="Export" icon="export" title="Save the graph" side="right">
      {close => (
        <>
          <button type="button" disabled={nothing} onClick={() => (close(), void png())}>
            Picture (PNG) <small>the graph as it looks now</small>
          </button>
          <button type="button" disabled={nothing} onClick={() => (close(), svg())}>
            Drawing (SVG) <small>the same for papers, in any size</small>
          </button>
          <button
            type="button"
            disabled={nothing}
            onClick={() => (close(), text(dotOf(presenter.model), 'text/vnd.graphviz', 'dot'))}
          >
            Graph (DOT) <small>for Graphviz, closed groups as one node</small>
          </button>
          <button
            type="button"
            disabled={nothing}
            onClick={() => (close(), text(jsonOf(presenter.model), 'application/json', 'json'))}
          >
            Graph (JSON) <small>every node with edges, saved tensors and norm</small>
          </button>
          {presenter.live && (
            <>
              <button
                type="button"
                disabled={!presenter.reachable || nothing}
                onClick={() => (close(), void html(true, true))}
              >
                Page that needs no kernel (HTML){' '}
                <small>{plural(parts, 'node')}, with values and source lines</small>
              </button>
              <button
                type="button"
                disabled={!presenter.reachable || nothing}
                onClick={() => (close(), void html(false, false))}
              >
                The same without values and source <small>to share what must not be read</small>
              </button>
              <hr />
              <button
                type="button"
                disabled={!presenter.reachable || nothing}
                onClick={() => (close(), void presenter.command('clear', {}))}
              >
                Clear the recording
              </button>
            </>
          )}
          {presenter.lessonLink && (
            <>
              <hr />
              <button
                type="button"
                onClick={() => (close(), void presenter.copy(presenter.lessonLink?.() ?? ''))}
              >
                Copy lesson link <small>this page as it is set up now</small>
              </button>
            </>
          )}
        </>
      )}
    </Menu>
  );
}
