"""The inline widget: anywidget with a tiny loader; the renderer travels once per page.

Imported only when a picture is shown and ipywidgets and anywidget are installed.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from ag_visual.observe.bundle import bundle_digest, bundle_text
from ag_visual.observe.export import Recording

# Every instance carries this text; the renderer itself is asked for by the first one on a page.
LOADER = """\
const LOADED = Symbol.for('ag_visual.inspector');
const LATE = 'To draw this graph again, run its cell: no kernel answered.';

function load(model) {
  const loaded = (globalThis[LOADED] ??= new Map());
  const digest = model.get('bundle');
  if (!loaded.has(digest)) {
    loaded.set(digest, new Promise((resolve, reject) => {
      const late = setTimeout(() => finish(() => reject(new Error(LATE))), 20000);
      const listen = (message, buffers) => {
        if (message?.bundle !== digest) return;
        finish(() => {
          const address = URL.createObjectURL(new Blob([buffers[0]], { type: 'text/javascript' }));
          import(address).then(resolve, reject).finally(() => URL.revokeObjectURL(address));
        });
      };
      const finish = then => {
        clearTimeout(late);
        model.off('msg:custom', listen);
        then();
      };
      model.on('msg:custom', listen);
      model.send({ bundle: digest });
    }));
    loaded.get(digest).catch(() => loaded.delete(digest));
  }
  return loaded.get(digest);
}

function theme() {
  const { dataset, classList } = document.body;
  const dark = dataset.jpThemeLight === 'false' || classList.contains('vscode-dark');
  return dark ? 'dark' : 'light';
}

async function render({ model, el }) {
  const box = document.createElement('div');
  box.style.height = `${model.get('height')}px`;
  el.append(box);
  let view = null;
  let gone = false;
  load(model).then(
    ({ mount }) => {
      if (!gone) {
        view = mount(box, { recording: model.get('recording'), theme: theme(), host: 'inline' });
      }
    },
    error => {
      box.style.height = '';
      box.textContent = error.message;
    }
  );
  return () => {
    gone = true;
    view?.dispose();
  };
}

export default { render };
"""


class InspectorWidget(anywidget.AnyWidget):
    """One recording in a cell's output."""

    _esm = LOADER
    recording = traitlets.Dict().tag(sync=True)
    height = traitlets.Int().tag(sync=True)
    bundle = traitlets.Unicode().tag(sync=True)

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.on_msg(_send_bundle)


def _send_bundle(widget: Any, content: Any, buffers: Any) -> None:
    """A page has no renderer of this build yet: the first widget on it asks."""
    if isinstance(content, dict) and content.get("bundle") == widget.bundle:
        widget.send({"bundle": widget.bundle}, [bundle_text().encode()])


def inspector_widget(recording: Recording, height: int) -> InspectorWidget:
    """The widget of a recording."""
    return InspectorWidget(recording=recording.record, height=height, bundle=bundle_digest())
