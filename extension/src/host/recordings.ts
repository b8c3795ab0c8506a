// Recording files in JupyterLab, without a kernel: a document type for the file browser, a command
// for files of the reader's own disk, and files that are dropped onto the panel.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { DOMUtils } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import { ABCWidgetFactory, DocumentWidget } from '@jupyterlab/docregistry';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { InspectorModel } from '../model/inspector';
import { OfflineController } from '../model/offline';
import type { InspectorHandle } from '../panels';
import { mountInspector } from '../panels';
import { textOfFile } from '../protocol/recording_file';
import { oneLine } from '../protocol/text';
import { inspectorIcon } from './panel';

const FILE_TYPE = 'ag-visual-recording';
const FACTORY = 'Inspector';
const ENDINGS = '.agv,.json,.html,.htm';

/** A recording in a tab of its own; what is wrong with a file is said in its place. */
class RecordingView extends Widget {
  private handle: InspectorHandle | null = null;

  constructor(bytes: Promise<Uint8Array>) {
    super();
    this.addClass('ag-inspector-panel');
    this.node.tabIndex = -1;
    void bytes.then(textOfFile).then(
      text => this.present(new OfflineController(text)),
      (error: unknown) => {
        const why = document.createElement('p');
        why.className = 'ag-inspector-empty';
        why.setAttribute('role', 'alert');
        why.textContent = error instanceof Error ? error.message : String(error);
        this.node.appendChild(why);
      }
    );
  }

  override dispose(): void {
    this.handle?.dispose();
    this.handle = null;
    super.dispose();
  }

  protected override onActivateRequest(_: Message): void {
    this.node.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  }

  private present(controller: OfflineController): void {
    if (this.isDisposed) {
      return;
    }
    const host = document.createElement('div');
    host.className = 'ag-inspector-host';
    this.node.appendChild(host);
    const model = new InspectorModel({ nodes: Infinity, writes: Infinity, problems: 1000 });
    controller.fill(model);
    this.handle = mountInspector(host, controller, { model });
  }
}

function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), letter => letter.charCodeAt(0));
}

class RecordingFactory extends ABCWidgetFactory<IDocumentWidget<RecordingView>> {
  protected override createNewWidget(
    context: DocumentRegistry.Context
  ): IDocumentWidget<RecordingView> {
    const bytes = context.ready.then(() => bytesOf(context.model.toString()));
    const widget = new DocumentWidget({ content: new RecordingView(bytes), context });
    widget.title.icon = inspectorIcon;
    return widget;
  }
}

/** Opens a file of the reader's own disk in a tab. */
export function openFile(app: JupyterFrontEnd, file: File): void {
  const view = new RecordingView(file.arrayBuffer().then(data => new Uint8Array(data)));
  view.id = DOMUtils.createDomID();
  view.title.label = oneLine(file.name, 60);
  view.title.icon = inspectorIcon;
  view.title.closable = true;
  app.shell.add(view, 'main');
  app.shell.activateById(view.id);
}

/** Lets the reader pick a file, then opens it. */
export function pickFile(app: JupyterFrontEnd): void {
  const input = document.createElement('input');
  input.type = 'file';
  input.accept = ENDINGS;
  input.addEventListener('change', () => {
    const file = input.files?.[0];
    if (file) openFile(app, file);
  });
  input.click();
}

/** Recordings that are dropped onto this element open in a tab. */
export function acceptDrops(app: JupyterFrontEnd, element: HTMLElement): void {
  element.addEventListener('dragover', event => {
    if (event.dataTransfer?.types.includes('Files')) event.preventDefault();
  });
  element.addEventListener('drop', event => {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length > 0) {
      event.preventDefault();
      event.stopPropagation();
      for (const file of files) openFile(app, file);
    }
  });
}

/** A double click on a recording in the file browser opens it. */
export function registerRecordings({ docRegistry }: JupyterFrontEnd): void {
  docRegistry.addFileType({
    name: FILE_TYPE,
    displayName: 'Recording of backward passes',
    extensions: ['.agv'],
    mimeTypes: ['application/x-ag-visual-recording'],
    contentType: 'file',
    fileFormat: 'base64',
    icon: inspectorIcon
  });
  docRegistry.addWidgetFactory(
    new RecordingFactory({
      name: FACTORY,
      modelName: 'base64',
      fileTypes: [FILE_TYPE],
      defaultFor: [FILE_TYPE],
      readOnly: true
    })
  );
}
