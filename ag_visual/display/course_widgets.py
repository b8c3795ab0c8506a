"""Questions and handouts in a page: small anywidgets, made of text nodes alone.

Imported only when one is shown and anywidget is installed. What a student gives travels to the
kernel, which knows the answer; the reply comes back as traits, so that a reload finds it again.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

# A text with `code` in it, as text nodes; nothing is ever read as HTML.
_WORDS = """\
function say(element, text) {
  element.replaceChildren(...text.split('`').map((part, i) => {
    if (i % 2 === 0) return part;
    const code = document.createElement('code');
    code.textContent = part;
    return code;
  }));
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}
"""

QUESTION = (
    _WORDS
    + """
const LATE = 'No reply yet: the kernel runs a cell, or is gone. If so, run this cell again.';
const SIGNS = { right: '✓ Right. ', wrong: '✗ Not yet. ', unclear: '', shown: '' };
let number = 0;

function render({ model, el }) {
  const name = `ag-question-${++number}`;
  const choices = model.get('choices');
  const legend = make('legend', { id: name });
  say(legend, model.get('text'));
  const fields = make('fieldset', {}, legend);
  const check = make('button', { type: 'submit' }, 'Check');
  const show = make('button', { type: 'button' }, 'Show the answer');
  let given;
  if (choices.length > 0) {
    const radios = choices.map((choice, i) => {
      const radio = make('input', { type: 'radio', name: `${name}-choice`, value: String(i) });
      const words = make('span');
      say(words, choice);
      fields.append(make('label', { class: 'ag-choice' }, radio, words));
      radio.checked = choice === model.get('given');
      return radio;
    });
    given = () => choices[radios.findIndex(radio => radio.checked)] ?? '';
    fields.append(make('div', { class: 'ag-row' }, check, show));
  } else {
    const field = make('input', {
      type: 'text', 'aria-label': 'Your answer: a number, or something like 2*3', size: '16',
      autocomplete: 'off', spellcheck: 'false', placeholder: '2*3', 'aria-describedby': name
    });
    field.value = model.get('given');
    given = () => field.value;
    fields.append(make('div', { class: 'ag-row' }, field, check, show));
  }
  const status = make('p', { role: 'status' });
  const form = make('form', { class: 'ag-question' }, fields, status);
  // JupyterLab's keys of the command mode would take Enter and the arrows. It looks at the element
  // that has the focus, not at those around it.
  for (const control of form.querySelectorAll('input, button'))
    control.setAttribute('data-lm-suppress-shortcuts', 'true');
  let waiting;

  const reply = () => {
    clearTimeout(waiting);
    const verdict = model.get('verdict');
    form.dataset.verdict = verdict;
    say(status, verdict ? SIGNS[verdict] + model.get('reply') : '');
    show.hidden = verdict !== 'wrong';
  };
  const send = message => {
    clearTimeout(waiting);
    waiting = setTimeout(() => say(status, LATE), 4000);
    model.send(message);
  };
  const onSubmit = event => {
    event.preventDefault();
    send({ check: given() });
  };
  // JupyterLab takes Enter from text fields of outputs: the browser would not send the form.
  const onKey = event => {
    if (event.key === 'Enter' && event.target.type === 'text' && !event.shiftKey) onSubmit(event);
  };
  const onShow = () => {
    check.focus();
    send({ show: given() });
  };
  form.addEventListener('submit', onSubmit);
  form.addEventListener('keydown', onKey);
  show.addEventListener('click', onShow);
  model.on('change:replies', reply);
  reply();
  el.append(form);
  return () => {
    clearTimeout(waiting);
    model.off('change:replies', reply);
  };
}

export default { render };
"""
)

HANDOUT = (
    _WORDS
    + """
// Where the notebook's server has the page; null where the front end does not tell.
function folder(model) {
  const config = document.getElementById('jupyter-config-data');
  const path = model.widget_manager?.context?.path;
  if (!config || !path) return null;
  const { baseUrl } = JSON.parse(config.textContent);
  const parts = path.replace(/^[^/]*:/, '').split('/').slice(0, -1).map(encodeURIComponent);
  return [`${baseUrl}files`, ...parts, ''].join('/');
}

function render({ model, el }) {
  const links = model.get('links');
  const at = folder(model);
  const items = model.get('texts').map((text, i) => {
    const words = make('span');
    say(words, text || 'The page');
    const own = at !== null && !/^([a-z]+:|[/\\\\])/i.test(links[i]);
    const link = own
      ? make('a', { href: at + links[i], target: '_blank', rel: 'noopener' }, words)
      : words;
    const address = make('code');
    address.textContent = links[i];
    return make('li', {}, link, address);
  });
  el.append(make('ol', { class: 'ag-handout' }, ...items));
}

export default { render };
"""
)

STYLE = """
.ag-question, .ag-handout {
  max-width: 46em; font: 14px/1.45 var(--jp-content-font-family, system-ui, sans-serif);
  color: var(--jp-content-font-color1, inherit);
}
.ag-question { margin: 4px 0; padding: 2px 14px 4px;
  border-left: 4px solid var(--jp-border-color1, #bdbdbd); }
.ag-question[data-verdict='right'] { border-color: #2e7d32; }
.ag-question[data-verdict='wrong'] { border-color: #c25700; }
.ag-question fieldset { margin: 0; padding: 0; border: 0; min-inline-size: 0; }
.ag-question legend { padding: 0; margin: 0 0 8px; font-weight: 600; font-size: inherit;
  width: auto; border: 0; color: inherit; line-height: inherit; }
.ag-question .ag-choice { display: flex; gap: 8px; align-items: baseline; padding: 3px 0;
  cursor: pointer; }
.ag-question .ag-choice input { margin: 0; accent-color: var(--jp-brand-color1, #1976d2); }
.ag-question .ag-row { display: flex; flex-wrap: wrap; gap: 8px; margin-top: 6px; }
.ag-question .ag-row input, .ag-question button {
  font: inherit; min-height: 30px; padding: 2px 10px; border-radius: 3px;
  color: inherit; background: var(--jp-layout-color1, transparent);
  border: 1px solid var(--jp-border-color0, #8a8a8a);
}
.ag-question button { cursor: pointer; background: var(--jp-layout-color2, transparent); }
.ag-question button[hidden] { display: none; }
.ag-question :is(input, button):focus-visible {
  outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px;
}
.ag-question p { min-height: 1.45em; margin: 8px 0 2px; }
.ag-question code, .ag-handout code { font-family: var(--jp-code-font-family, monospace);
  font-size: 0.92em; color: inherit; background: transparent; }
.ag-handout { margin: 4px 0; padding-left: 1.8em; }
.ag-handout li { margin: 4px 0 8px; }
.ag-handout a { color: var(--jp-content-link-color, #1565c0); }
.ag-handout code { display: block; overflow-wrap: anywhere; font-size: 0.8em;
  color: var(--jp-content-font-color2, inherit); }
"""


class QuestionWidget(anywidget.AnyWidget):
    """A `Question` in a page: what was given, and what the kernel said of it."""

    _esm = QUESTION
    _css = STYLE
    text = traitlets.Unicode().tag(sync=True)
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)
    given = traitlets.Unicode().tag(sync=True)
    verdict = traitlets.Enum(["", "right", "wrong", "unclear", "shown"], "").tag(sync=True)
    reply = traitlets.Unicode().tag(sync=True)
    replies = traitlets.Int().tag(sync=True)
    """Counts the replies: the same one may come twice."""
    question: Any = None

    def __init__(self, *, question: Any, **values: Any) -> None:
        super().__init__(**values)
        self.question = question
        self.on_msg(_answer)


def _answer(widget: Any, content: Any, buffers: Any) -> None:
    """A student's answer, or the wish to see the right one."""
    if not isinstance(content, dict):
        return
    given = content.get("check", content.get("show"))
    if not isinstance(given, str):
        return
    if "show" in content:
        verdict, text = "shown", widget.question.shown_answer
    else:
        right, text = widget.question.check(given)
        verdict = {True: "right", False: "wrong", None: "unclear"}[right]
    with widget.hold_sync():
        widget.given, widget.verdict, widget.reply = given, verdict, text
        widget.replies += 1


class HandoutWidget(anywidget.AnyWidget):
    """Links to one page, a lesson each."""

    _esm = HANDOUT
    _css = STYLE
    texts = traitlets.List(traitlets.Unicode()).tag(sync=True)
    links = traitlets.List(traitlets.Unicode()).tag(sync=True)
