// The Inspector in a cell's output: a picture of what was recorded, or live, with a bar above that
// says which and why. Each live output is a page of its own to the kernel.

import { LabKernel, isConnection, uniqueName } from '../host/kernel';
import { LiveController } from '../host/live';
import type { InspectorHandle } from '../panels/index';
import { keepKeys } from '../panels/own_keys';
import type { RawBatch, Theme } from '../protocol/controller';
import type { Disposable } from '../protocol/signal';
import type { MountOptions } from './inspector';

export interface OutputOptions {
  recording: unknown;
  theme?: Theme;
  /** The session whose graph the recording shows. */
  session: string;
  /** Live from the start. */
  live: boolean;
  /** The front end's connection to the kernel, where it gives one to outputs. */
  kernel: unknown;
  /** Asks for the numbers of the graph, where the recording has none. */
  numbers?: () => Promise<unknown>;
  /** Gives the output another height; false: it is fixed. */
  grow?: ((height: number) => void) | false;
}

export interface OutputHandle extends Disposable {
  /** A backward runs through the graph that is shown: follow it. */
  setLive(live: boolean): void;
  /** What is shown now. */
  readonly inspector: InspectorHandle;
}

type Mount = (element: HTMLElement, options: MountOptions) => InspectorHandle;

const PICTURE = 'The graph as it was when its cell ran.';
const LIVE = 'Follows every backward pass of this kernel.';
const NO_WAY =
  'A picture: this front end gives outputs no way to a kernel that is running a cell. ' +
  'Record first, then look through the recording here.';
const OTHER_SESSION =
  'A picture: the kernel was restarted since. Run the cell again to follow it live.';

const CSS = `
.agv-output { display: grid; grid-template-rows: auto minmax(0, 1fr); height: 100%; }
.agv-output-bar { display: flex; align-items: center; gap: 10px; padding: 0 0 6px;
  font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); color: inherit; }
.agv-output-bar button { font: inherit; color: inherit; background: none; padding: 2px 10px;
  border: 1px solid color-mix(in srgb, currentColor 45%, transparent); cursor: pointer; }
.agv-output-bar button:first-of-type { border-radius: 5px 0 0 5px; }
.agv-output-bar button:last-of-type { border-radius: 0 5px 5px 0; margin-left: -11px; }
.agv-output-bar button[aria-pressed="true"] { font-weight: 650;
  background: color-mix(in srgb, currentColor 14%, transparent); }
.agv-output-bar button:focus-visible { outline: 2px solid #0b6e99; outline-offset: 1px; }
.agv-output-frame { min-height: 0;
  border: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
`;

class Output implements OutputHandle {
  private readonly root = document.createElement('div');
  private readonly words = document.createElement('span');
  private readonly buttons: HTMLButtonElement[] = [];
  private readonly frame = document.createElement('div');
  /** of the bar above: what is mounted has its own */
  private readonly keys: Disposable;
  private controller: LiveController | null = null;
  private shown: InspectorHandle;
  /** why it can only be a picture; empty where it can be live */
  private obstacle: string;
  /** the reader chose the picture: nothing else makes it live then */
  private chosen = false;

  constructor(
    element: HTMLElement,
    private readonly options: OutputOptions,
    private readonly mount: Mount
  ) {
    const { kernel } = options;
    this.obstacle = isConnection(kernel) ? '' : NO_WAY;
    this.root.className = 'agv-output';
    const style = document.createElement('style');
    style.textContent = CSS;
    const bar = document.createElement('div');
    bar.className = 'agv-output-bar';
    this.words.setAttribute('role', 'status');
    for (const [label, live] of [['Picture', false], ['Live', true]] as const) {
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = label;
      button.addEventListener('click', () => {
        this.chosen = !live;
        this.turn(live);
      });
      this.buttons.push(button);
    }
    bar.append(...this.buttons, this.words);
    this.frame.className = 'agv-output-frame';
    this.root.append(style, bar, this.frame);
    this.keys = keepKeys(bar);
    element.append(this.root);
    this.shown = this.show(options.live && this.obstacle === '');
  }

  get inspector(): InspectorHandle {
    return this.shown;
  }

  setLive(live: boolean): void {
    if (live && !this.chosen) {
      this.turn(true);
    }
  }

  dispose(): void {
    this.keys.dispose();
    this.shown.dispose();
    this.controller?.dispose();
    this.controller = null;
    this.root.remove();
  }

  private turn(live: boolean): void {
    if (live === (this.controller !== null) || (live && this.obstacle !== '')) {
      return;
    }
    this.shown.dispose();
    this.controller?.dispose();
    this.shown = this.show(live);
  }

  private show(live: boolean): InspectorHandle {
    const { kernel, recording, theme } = this.options;
    const box = document.createElement('div');
    box.style.height = '100%';
    this.frame.replaceChildren(box);
    this.controller = null;
    if (live && isConnection(kernel)) {
      const page = uniqueName();
      this.controller = new LiveController(new LabKernel(kernel), page);
      this.controller.onBatch.connect(batch => this.check(batch));
    }
    this.updateWords();
    const transport = this.controller ?? undefined;
    const { numbers, grow } = this.options;
    const around = (): number => this.root.clientHeight - box.clientHeight;
    const grown = grow ? (height: number): void => grow(height + around()) : undefined;
    return this.mount(box, { recording, transport, theme, host: 'inline', numbers, grow: grown });
  }

  /** A page that was loaded again may meet another session: its numbers mean other nodes. */
  private check(batch: RawBatch): void {
    const { session } = batch.header as { session?: unknown };
    if (typeof session === 'string' && session !== this.options.session) {
      this.obstacle = OTHER_SESSION;
      // Not while the batch is being handed on.
      queueMicrotask(() => this.controller && this.turn(false));
    }
  }

  private updateWords(): void {
    const live = this.controller !== null;
    this.words.textContent = this.obstacle || (live ? LIVE : PICTURE);
    for (const button of this.buttons) {
      button.hidden = this.obstacle !== '';
      button.setAttribute('aria-pressed', String((button.textContent === 'Live') === live));
    }
  }
}

/** Puts a recording into a cell's output, live where that is wanted and possible. */
export function output(element: HTMLElement, options: OutputOptions, mount: Mount): OutputHandle {
  return new Output(element, options, mount);
}
