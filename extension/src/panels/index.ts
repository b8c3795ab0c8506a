// The renderer's one door: mountInspector puts the Inspector into an element of any host.

import { createElement } from 'react';
import { createRoot } from 'react-dom/client';
import type { Controller, Theme } from '../protocol/controller';
import type { Control } from '../protocol/schema';
import type { Lesson } from '../protocol/schema';
import type { Disposable } from '../protocol/signal';
import type { InspectorModel } from '../model/inspector';
import type { PaintStats } from '../draw/frame_times';
import type { TimeStats } from '../draw/profile/canvas';
import { followAddress } from './address';
import { App } from './app';
import type { TextStorage } from './bookmarks';
import { compareWithBefore, openBeside } from './compare/compare_menu';
import { Links } from './links';
import { keepKeys } from './own_keys';
import { InspectorContext, Presenter } from './presenter';
import { injectStyle } from './style';
import { watchTheme } from './theme';

export interface InspectorOptions {
  /** 'auto' (the default) follows the host's own theme. */
  theme?: Theme | 'auto';
  /** 'focused': the page around scrolls until the graph has the focus (cell outputs). */
  wheel?: 'always' | 'focused';
  /** The keys work at once, without a click into the panel. */
  focus?: boolean;
  /** The page has an address of its own: lessons are read from it and written to it. */
  address?: boolean;
  /** A lesson that a recording carries; one in the address takes its place. */
  lesson?: Lesson | null;
  /** A model that outlives the view; a new one by default. */
  model?: InspectorModel;
  /** A profile's file to begin with, in the Time mode. */
  profile?: { file: Blob | Promise<Blob>; name: string };
  /** Where bookmarks are kept; without one they last as long as the view. */
  storage?: TextStorage;
  /** The same for how graphs are drawn. */
  choices?: TextStorage;
  /** Where it is kept whether the side was closed by hand. */
  sidePlace?: TextStorage;
  /** A cell's output: little room, the side is a drawer. */
  compact?: boolean;
  /** Asks for so many pixels of height, where the host can give them. */
  grow?: (height: number) => void;
}

export interface InspectorHandle extends Disposable {
  readonly model: InspectorModel;
  setTheme(theme: Theme | 'auto'): void;
  /** Frame times and the moment of the first frame with nodes. */
  stats(): PaintStats | null;
  /** The same of the Time mode's timeline. */
  timeStats(): TimeStats | null;
  /** A lesson hides this control. */
  hides(control: Control): boolean;
  /** Goes on with a paused backward as the Inspector's own buttons do. */
  run(how: 'step' | 'into' | 'out' | 'problem' | 'continue'): void;
  /** Shows the backward pass on screen beside the one before it, or closes the comparison. */
  compare(): void;
  /** Where a node, or what hides it, stands on the page; null while nothing stands still. */
  placeOf(seq: number): DOMRect | null;
}

/** Puts the Inspector into an element, which it fills; dispose takes it out again. */
export function mountInspector(
  element: HTMLElement,
  controller: Controller,
  options: InspectorOptions = {}
): InspectorHandle {
  injectStyle(element);
  const { model, storage, choices, compact, sidePlace } = options;
  const presenter = new Presenter(controller, model, storage, choices, compact, sidePlace);
  const links = new Links(presenter);
  const keys = compact ? keepKeys(element) : null;
  if (options.lesson) presenter.teaching.take(options.lesson);
  if (options.profile) void presenter.timing.read(options.profile.file, options.profile.name);
  const address = options.address ? followAddress(presenter) : null;
  const setTheme = (theme: Theme): void => presenter.theme.set(theme);
  const repaint = (): void => {
    presenter.canvas?.setPalette();
    presenter.timing.canvas?.setPalette();
  };
  let watching = watchTheme(element, options.theme ?? 'auto', setTheme, repaint);
  try {
    openBeside(presenter);
  } catch (error) {
    presenter.notify('error', error instanceof Error ? error.message : String(error));
  }
  const root = createRoot(element);
  root.render(
    createElement(
      InspectorContext.Provider,
      { value: presenter },
      createElement(App, {
        wheel: options.wheel ?? 'always',
        focus: options.focus ?? false,
        grow: options.grow
      })
    )
  );
  let disposed = false;
  return {
    model: presenter.model,
    setTheme: theme => {
      watching.dispose();
      watching = watchTheme(element, theme, setTheme, repaint);
    },
    stats: () => presenter.canvas?.paintStats ?? null,
    timeStats: () => presenter.timing.canvas?.stats ?? null,
    hides: control => presenter.hides(control),
    run: how => {
      if (presenter.hides(how === 'continue' ? 'continue' : 'step')) return;
      if (how === 'step') presenter.debugger.step();
      else if (how === 'into') presenter.debugger.stepInto();
      else if (how === 'out') presenter.debugger.stepOut();
      else if (how === 'problem') presenter.debugger.stepToProblem();
      else presenter.debugger.continue();
    },
    compare: () => {
      if (presenter.comparing.value) presenter.compare(null);
      else compareWithBefore(presenter);
    },
    placeOf: seq => presenter.canvas?.placeOf(seq) ?? null,
    dispose: () => {
      if (!disposed) {
        disposed = true;
        watching.dispose();
        address?.dispose();
        keys?.dispose();
        root.unmount();
        links.dispose();
        presenter.dispose();
      }
    }
  };
}
