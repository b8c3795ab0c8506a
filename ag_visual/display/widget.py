"""The inline widget: anywidget with a tiny loader; the renderer travels once per page.

Imported only when a picture is shown and ipywidgets and anywidget are installed.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from ag_visual.observe.export.bundle import bundle_digest, bundle_text
from ag_visual.observe.export.export import Recording
from ag_visual.session.session import current

# Every instance carries this text; the renderer itself is asked for by the first one on a page. A
# kernel that runs a cell answers on the control channel alone, which not every front end has.
LOADER = """\
const LOADED = Symbol.for('ag_visual.inspector');
const LATE = 'To draw this graph again, run its cell: no kernel answered.';
const SCRIPT = 'text/javascript';

function asked(kernel) {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  const header = {
    msg_id: Array.from(bytes, byte => byte.toString(16).padStart(2, '0')).join(''),
    msg_type: 'ag_visual_request', session: kernel.clientId, username: kernel.username,
    date: new Date().toISOString(), version: '5.4'
  };
  const message = {
    channel: 'control', header, parent_header: {}, metadata: {}, buffers: [],
    content: { id: header.msg_id, command: 'bundle' }
  };
  return kernel.sendControlMessage(message, true, true).done.then(reply => reply.content.result);
}

function load(model) {
  const loaded = (globalThis[LOADED] ??= new Map());
  const digest = model.get('bundle');
  if (!loaded.has(digest)) {
    loaded.set(digest, new Promise((resolve, reject) => {
      const late = setTimeout(() => finish(() => reject(new Error(LATE))), 20000);
      const take = script => finish(() => {
        const address = URL.createObjectURL(new Blob([script], { type: SCRIPT }));
        import(address).then(resolve, reject).finally(() => URL.revokeObjectURL(address));
      });
      const listen = (message, buffers) => message?.bundle === digest && take(buffers[0]);
      let open = true;
      const finish = then => {
        if (!open) return;
        open = false;
        clearTimeout(late);
        model.off('msg:custom', listen);
        then();
      };
      model.on('msg:custom', listen);
      model.send({ bundle: digest });
      const kernel = kernelOf(model);
      if (kernel) asked(kernel).then(script => script && take(script)).catch(() => undefined);
    }));
    loaded.get(digest).catch(() => loaded.delete(digest));
  }
  return loaded.get(digest);
}

function kernelOf(model) {
  const kernel = model.widget_manager?.kernel;
  return kernel?.sendControlMessage ? kernel : null;
}

function numbers(model) {
  return new Promise(resolve => {
    const late = setTimeout(() => finish({}), 20000);
    const listen = message => message?.numbers && finish(message.numbers);
    const finish = found => {
      clearTimeout(late);
      model.off('msg:custom', listen);
      resolve(found);
    };
    model.on('msg:custom', listen);
    model.send({ numbers: true });
  });
}

function theme() {
  const { dataset, classList } = document.body;
  const dark = dataset.jpThemeLight === 'false' || classList.contains('vscode-dark');
  return dark ? 'dark' : 'light';
}

async function render({ model, el }) {
  const box = document.createElement('div');
  const height = model.get('height');
  box.style.height = `${height || 320}px`;
  el.append(box);
  let view = null;
  let gone = false;
  const follow = () => view?.setLive(model.get('live'));
  load(model).then(
    ({ mountOutput }) => {
      if (gone) return;
      view = mountOutput(box, {
        recording: model.get('recording'), theme: theme(), live: model.get('live'),
        session: model.get('session'), kernel: kernelOf(model), numbers: () => numbers(model),
        grow: height === 0 && (wanted => { box.style.height = `${wanted}px`; })
      });
      model.on('change:live', follow);
    },
    error => {
      box.style.height = '';
      box.textContent = error.message;
    }
  );
  return () => {
    gone = true;
    model.off('change:live', follow);
    view?.dispose();
  };
}

export default { render };
"""


class InspectorWidget(anywidget.AnyWidget):
    """One recording in a cell's output, or the session that it belongs to, live."""

    _esm = LOADER
    recording = traitlets.Dict().tag(sync=True)
    height = traitlets.Int().tag(sync=True)  # pixels; 0: as the graph needs
    bundle = traitlets.Unicode().tag(sync=True)
    session = traitlets.Unicode().tag(sync=True)
    live = traitlets.Bool().tag(sync=True)
    picture: Any = None
    """What this is the widget of: it hears of backwards as long as its output is there."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self.on_msg(_send_bundle)
        self.on_msg(_send_numbers)


def _send_bundle(widget: Any, content: Any, buffers: Any) -> None:
    """A page has no renderer of this build yet: the first widget on it asks."""
    if isinstance(content, dict) and content.get("bundle") == widget.bundle:
        widget.send({"bundle": widget.bundle}, [bundle_text().encode()])


def _send_numbers(widget: Any, content: Any, buffers: Any) -> None:
    """A reader wants the numbers of a graph that was drawn without them."""
    if isinstance(content, dict) and content.get("numbers") and widget.picture is not None:
        widget.send({"numbers": widget.picture.numbers() or {}})


def inspector_widget(
    recording: Recording, height: int | None, *, live: bool = False
) -> InspectorWidget:
    """The widget of a recording; live: it follows the session of this process instead."""
    return InspectorWidget(
        recording=recording.record,
        height=height or 0,
        bundle=bundle_digest(),
        session=current().id,
        live=live,
    )
