// Recordings, profiles and traces in JupyterLab, without a kernel: document types for the file
// browser, a command for files of the reader's own disk, files that are dropped onto the panel.

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { DOMUtils } from '@jupyterlab/apputils';
import type { DocumentRegistry, IDocumentWidget } from '@jupyterlab/docregistry';
import { ABCWidgetFactory, DocumentWidget } from '@jupyterlab/docregistry';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { InspectorModel } from '../model/inspector';
import { OfflineController } from '../model/offline';
import { ProfileAlone } from '../model/profile/alone';
import type { InspectorHandle, InspectorOptions } from '../panels';
import { mountInspector } from '../panels';
import type { Controller } from '../protocol/controller';
import { kindOfFile } from '../protocol/file_kind';
import { textOfFile } from '../protocol/recording_file';
import { oneLine } from '../protocol/text';
import { inspectorIcon } from './icon';

const FILE_TYPE = 'ag-visual-recording';
const TRACE_TYPE = 'ag-visual-trace';
const FACTORY = 'Inspector';
const TRACE_FACTORY = 'Timeline';
const ENDINGS = '.agv,.agprof,.json,.gz,.html,.htm';

/** A file in a tab of its own; what is wrong with it is said in its place. */
class FileView extends Widget {
  private handle: InspectorHandle | null = null;

  constructor(file: Promise<Blob>, name: string) {
    super();
    this.addClass('ag-inspector-panel');
    this.node.tabIndex = -1;
    void file
      .then(async blob => {
        if ((await kindOfFile(blob, name)) === 'profile') {
          const called = name.split('/').pop() ?? name;
          this.present(new ProfileAlone(called), { profile: { file: blob, name: called } });
          return;
        }
        const text = await textOfFile(await blob.arrayBuffer());
        const controller = new OfflineController(text);
        const model = new InspectorModel({ nodes: Infinity, writes: Infinity, problems: 1000 });
        controller.fill(model);
        this.present(controller, { model });
      })
      .catch((error: unknown) => {
        const why = document.createElement('p');
        why.className = 'ag-inspector-empty';
        why.setAttribute('role', 'alert');
        why.textContent = error instanceof Error ? error.message : String(error);
        this.node.appendChild(why);
      });
  }

  override dispose(): void {
    this.handle?.dispose();
    this.handle = null;
    super.dispose();
  }

  protected override onActivateRequest(_: Message): void {
    this.node.querySelector<HTMLElement>('[tabindex="0"]')?.focus();
  }

  private present(controller: Controller, options: InspectorOptions): void {
    if (this.isDisposed) {
      return;
    }
    const host = document.createElement('div');
    host.className = 'ag-inspector-host';
    this.node.appendChild(host);
    this.handle = mountInspector(host, controller, options);
  }
}

function blobOf(base64: string): Blob {
  return new Blob([Uint8Array.from(atob(base64), letter => letter.charCodeAt(0))]);
}

class FileFactory extends ABCWidgetFactory<IDocumentWidget<FileView>> {
  protected override createNewWidget(
    context: DocumentRegistry.Context
  ): IDocumentWidget<FileView> {
    const file = context.ready.then(() => blobOf(context.model.toString()));
    const content = new FileView(file, context.path);
    const widget = new DocumentWidget({ content, context });
    widget.title.icon = inspectorIcon;
    return widget;
  }
}

/** Opens a file of the reader's own disk in a tab. */
export function openFile(app: JupyterFrontEnd, file: File): void {
  openBlob(app, file, file.name);
}

/** Opens a recording that the kernel sent in a tab. */
export function openRun(app: JupyterFrontEnd, recording: unknown, name: string): void {
  openBlob(app, new Blob([JSON.stringify(recording)]), name);
}

function openBlob(app: JupyterFrontEnd, file: Blob, name: string): void {
  const view = new FileView(Promise.resolve(file), name);
  view.id = DOMUtils.createDomID();
  view.title.label = oneLine(name, 60);
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

/** Files that are dropped onto this element open in a tab. */
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

/**
 * A double click in the file browser opens recordings, profiles and files that are named as traces;
 * any other JSON file opens by “Open With”.
 */
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
    new FileFactory({
      name: FACTORY,
      modelName: 'base64',
      fileTypes: [FILE_TYPE],
      defaultFor: [FILE_TYPE],
      readOnly: true
    })
  );
  docRegistry.addFileType({
    name: TRACE_TYPE,
    displayName: 'Profile or trace',
    extensions: ['.agprof', '.trace.json', '.trace.json.gz', '.agprof.gz'],
    mimeTypes: ['application/x-ag-visual-profile'],
    contentType: 'file',
    fileFormat: 'base64',
    icon: inspectorIcon
  });
  docRegistry.addWidgetFactory(
    new FileFactory({
      name: TRACE_FACTORY,
      modelName: 'base64',
      fileTypes: [TRACE_TYPE, 'json'],
      defaultFor: [TRACE_TYPE],
      readOnly: true
    })
  );
}
