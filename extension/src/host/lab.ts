// The plugin of JupyterLab and Notebook 7: commands, keys, launcher, and where the panel docks.
// Wires, decides nothing about graphs.

import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ILayoutRestorer } from '@jupyterlab/application';
import { ICommandPalette, WidgetTracker, showErrorMessage } from '@jupyterlab/apputils';
import { ILauncher } from '@jupyterlab/launcher';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Cell } from '../protocol/cell';
import type { Watching } from '../protocol/controller';
import type { NotebookController } from './controller';
import { dock, makeRoom } from './dock';
import { inspectorIcon } from './icon';
import { InspectorPanel } from './panel';
import { acceptDrops, pickFile, registerRecordings } from './recordings';

const PLUGIN_ID = 'ag-visual-inspector:plugin';
const CATEGORY = 'Inspector';

export const CommandIDs = {
  open: 'ag-visual:open-inspector',
  pin: 'ag-visual:open-pinned-inspector',
  record: 'ag-visual:record',
  pause: 'ag-visual:pause',
  step: 'ag-visual:step',
  into: 'ag-visual:step-into',
  out: 'ag-visual:step-out',
  problem: 'ag-visual:run-to-problem',
  continue: 'ag-visual:continue',
  compare: 'ag-visual:compare',
  recording: 'ag-visual:open-recording',
  line: 'ag-visual:select-line',
  clear: 'ag-visual:clear'
};

const WATCHING: readonly unknown[] = ['newest', 'everything', 'off'];

/** The setting of what is watched, both ways: what the panel chooses is kept by JupyterLab. */
function remembered(loaded: Promise<ISettingRegistry.ISettings> | null): Cell<Watching> {
  const cell = new Cell<Watching>('newest');
  void loaded?.then(settings => {
    const take = (): void => {
      const { composite } = settings.get('watch');
      if (WATCHING.includes(composite)) cell.set(composite as Watching);
    };
    take();
    settings.changed.connect(take);
    cell.subscribe(() => {
      if (settings.get('watch').composite !== cell.value) void settings.set('watch', cell.value);
    });
  });
  return cell;
}

function activate(
  app: JupyterFrontEnd,
  notebooks: INotebookTracker,
  palette: ICommandPalette | null,
  launcher: ILauncher | null,
  restorer: ILayoutRestorer | null,
  settings: ISettingRegistry | null
): void {
  const { commands } = app;
  registerRecordings(app);
  const tracker = new WidgetTracker<InspectorPanel>({ namespace: 'ag-visual-inspector' });
  let panel: InspectorPanel | null = null;
  const loaded = settings?.load(PLUGIN_ID) ?? null;
  const watching = remembered(loaded);

  /** Opens the panel beside a notebook; an open one is shown where it is. */
  const open = (beside: NotebookPanel | null, focus: boolean): InspectorPanel => {
    if (!panel || panel.isDisposed) {
      const made = new InspectorPanel(app, notebooks, watching);
      panel = made;
      acceptDrops(app, made.node);
      void tracker.add(made);
      made.onPinned.connect(() => void tracker.save(made));
    }
    if (!panel.isAttached) {
      dock(app, panel, beside);
    }
    if (focus) {
      app.shell.activateById(panel.id);
    }
    return panel;
  };

  const pins = new WidgetTracker<InspectorPanel>({ namespace: 'ag-visual-inspector-pinned' });

  /** Opens a panel that stays with a notebook. */
  const pin = (notebook: NotebookPanel): InspectorPanel => {
    const there = pins.find(other => other.pinned === notebook);
    const pinned = there ?? new InspectorPanel(app, notebooks, watching, notebook);
    if (!there) {
      const open = [panel, pins.currentWidget, pins.find(() => true) ?? null];
      const above = open.find(one => one?.isAttached && !one.isDisposed) ?? null;
      void pins.add(pinned);
      pinned.onPinned.connect(() => void pins.save(pinned));
      dock(app, pinned, notebook, above);
      notebook.context.pathChanged.connect(() => void pins.save(pinned));
    }
    app.shell.activateById(pinned.id);
    return pinned;
  };

  /** The notebook of that path, perhaps a moment later: the layout is being restored. */
  const notebookAt = async (path: string): Promise<NotebookPanel | null> => {
    const find = (): NotebookPanel | null =>
      notebooks.find(one => one.context.path === path) ?? null;
    await notebooks.restored;
    return find();
  };

  /** The panel that keys and commands mean: of the notebook that is active. */
  const meant = (): InspectorPanel | null => {
    const notebook = notebooks.currentWidget;
    const own = panel && !panel.isDisposed ? panel : null;
    const shows = (one: InspectorPanel): boolean => one.notebook === notebook;
    return (own && shows(own) ? own : null) ?? pins.find(shows) ?? own;
  };
  const controller = (): NotebookController | null => meant()?.controller ?? null;
  const connected = (): boolean => controller()?.status.kind === 'connected';
  const paused = (): boolean => controller()?.paused ?? false;

  const request = (
    label: string,
    ask: (to: NotebookController) => Promise<unknown>
  ): Promise<void> => {
    const to = controller();
    return to
      ? ask(to).then(
          () => undefined,
          (error: unknown) =>
            showErrorMessage(label, error instanceof Error ? error : String(error))
        )
      : Promise.resolve();
  };

  commands.addCommand(CommandIDs.open, {
    label: args => (args.isPalette || args.isLauncher ? 'Open the Inspector' : 'Inspector'),
    caption: 'Watch the backward passes of this notebook',
    icon: inspectorIcon,
    describedBy: {
      args: {
        type: 'object',
        properties: { focus: { type: 'boolean' }, pinned: { type: 'string' } }
      }
    },
    execute: args => {
      const opened = open(notebooks.currentWidget, args.focus !== false);
      const { pinned } = args;
      if (typeof pinned === 'string' && pinned) {
        void notebookAt(pinned).then(notebook => {
          if (notebook && !opened.isDisposed) opened.pin(notebook);
        });
      }
      return opened;
    }
  });
  commands.addCommand(CommandIDs.pin, {
    label: 'Open an Inspector That Stays with This Notebook',
    caption: 'Two notebooks can be watched at once',
    icon: inspectorIcon,
    describedBy: { args: { type: 'object', properties: { path: { type: 'string' } } } },
    isEnabled: args => typeof args.path === 'string' || notebooks.currentWidget !== null,
    execute: async args => {
      const { path } = args;
      const notebook =
        typeof path === 'string' ? await notebookAt(path) : notebooks.currentWidget;
      return notebook ? pin(notebook) : undefined;
    }
  });
  commands.addCommand(CommandIDs.record, {
    label: 'Record Backward Passes',
    isEnabled: connected,
    execute: () =>
      request('Record', to => to.request('record', { on: true, scope: 'every', every: 1 }))
  });
  commands.addCommand(CommandIDs.pause, {
    label: 'Pause Before the Next Node',
    isEnabled: () => connected() && !paused(),
    execute: () => request('Pause', to => to.request('pause', {}))
  });
  commands.addCommand(CommandIDs.step, {
    label: 'Step Over a Node or Closed Group',
    isEnabled: paused,
    execute: () => meant()?.inspector?.run('step')
  });
  commands.addCommand(CommandIDs.into, {
    label: 'Step One Node',
    isEnabled: paused,
    execute: () => meant()?.inspector?.run('into')
  });
  commands.addCommand(CommandIDs.out, {
    label: 'Step Out of the Group',
    isEnabled: paused,
    execute: () => meant()?.inspector?.run('out')
  });
  commands.addCommand(CommandIDs.problem, {
    label: 'Run to the Next Problem',
    isEnabled: paused,
    execute: () => meant()?.inspector?.run('problem')
  });
  commands.addCommand(CommandIDs.continue, {
    label: 'Continue the Backward Pass',
    isEnabled: paused,
    execute: () => meant()?.inspector?.run('continue')
  });
  commands.addCommand(CommandIDs.recording, {
    label: 'Open Recording or Profile…',
    caption: 'What save_recording wrote, a profile, a Chrome trace; no kernel is needed',
    icon: inspectorIcon,
    execute: () => pickFile(app)
  });
  commands.addCommand(CommandIDs.compare, {
    label: 'Compare with the Backward Pass Before',
    isEnabled: () => controller() !== null,
    execute: () => meant()?.inspector?.compare()
  });
  commands.addCommand(CommandIDs.line, {
    label: 'Select the Nodes of This Line',
    caption: 'Those that the line with the cursor made, in the graph of the Inspector',
    isEnabled: () => controller() !== null,
    execute: () => controller()?.selectLine() ?? false
  });
  commands.addCommand(CommandIDs.clear, {
    label: 'Clear the Recording',
    isEnabled: connected,
    execute: () => request('Clear', to => to.request('clear', {}))
  });

  for (const command of Object.values(CommandIDs)) {
    palette?.addItem({ command, category: CATEGORY, args: { isPalette: true } });
  }
  launcher?.add({
    command: CommandIDs.open,
    category: 'Other',
    args: { isLauncher: true },
    rank: 20
  });
  void restorer?.restore(tracker, {
    command: CommandIDs.open,
    args: one => ({ focus: false, pinned: one.pinned?.context.path ?? '' }),
    name: () => 'inspector'
  });
  void restorer?.restore(pins, {
    command: CommandIDs.pin,
    args: one => ({ path: one.pinned?.context.path ?? '' }),
    name: one => one.pinned?.context.path ?? ''
  });

  // What a layout that is restored puts over each other was put there by its reader.
  void app.restored.then(() => {
    notebooks.widgetAdded.connect((_, notebook) => {
      requestAnimationFrame(() => {
        pins.forEach(pinned => makeRoom(app, pinned, notebook, notebooks));
        if (panel?.isAttached) makeRoom(app, panel, notebook, notebooks);
      });
    });
  });

  // A notebook can ask for the panel, so that a lesson opens as its teacher meant it.
  const wanted = loaded?.then(found => found.get('openWithNotebook').composite !== false);
  notebooks.widgetAdded.connect((_, notebook) => {
    void Promise.all([notebook.revealed, notebook.context.ready, app.restored]).then(async () => {
      const asked = notebook.model?.getMetadata('ag_visual') as { inspector?: unknown } | undefined;
      if (asked?.inspector === 'open' && !notebook.isDisposed && (await (wanted ?? true))) {
        open(notebook, false);
      }
    });
  });
}

export const plugin: JupyterFrontEndPlugin<void> = {
  id: PLUGIN_ID,
  description: 'The Inspector: the backward graph of the active notebook, live.',
  autoStart: true,
  requires: [INotebookTracker],
  optional: [ICommandPalette, ILauncher, ILayoutRestorer, ISettingRegistry],
  activate
};
