// The bundle for cell outputs and for pages without a kernel: one ES module that exports `mount`
// and, for outputs that can be live, `mountOutput`.

import type { Controller, Theme } from '../protocol/controller';
import { RECORDING_ELEMENT } from '../protocol/schema';
import { InspectorModel } from '../model/inspector';
import type { InspectorHandle } from '../panels/index';
import { mountInspector } from '../panels/index';
import type { TextStorage } from '../panels/bookmarks';
import { webStorage } from '../panels/bookmarks';
import { OfflineController } from '../model/offline';
import { ProfileAlone } from '../model/profile/alone';
import type { OutputHandle, OutputOptions } from './output';
import { output } from './output';

export interface MountOptions {
  /** A recording as JSON text or as the parsed object. */
  recording?: unknown;
  /** A profile or Chrome trace in place of a recording. */
  profile?: { file: Blob; name: string };
  /** A live host in place of a recording. */
  transport?: Controller;
  theme?: Theme | 'auto';
  /**
   * 'inline': a cell's output, which scrolls with its page; 'standalone': the page is the
   * Inspector.
   */
  host?: 'inline' | 'standalone' | 'lab';
  /** Asks for the numbers of a graph that was recorded without them. */
  numbers?: () => Promise<unknown>;
  /** Asks for so many pixels of height; without it the height is fixed. */
  grow?: (height: number) => void;
}

const INLINE_HEIGHT = 320;

/**
 * Mounts the Inspector; without recording and transport it reads the recording that the page
 * carries.
 */
export function mount(element: HTMLElement, options: MountOptions = {}): InspectorHandle {
  const { transport, host = 'inline', grow } = options;
  const compact = host === 'inline';
  // A notebook's theme may change under an output: follow it.
  const follows =
    host === 'inline' && element.ownerDocument.body.dataset.jpThemeLight !== undefined;
  const theme = follows ? 'auto' : options.theme;
  // One that has a height of its own may be out of sight now, and have no pixels yet.
  if (host === 'inline' && element.style.height === '' && element.clientHeight < 200) {
    element.style.height = `${INLINE_HEIGHT}px`;
  }
  const wheel = host === 'inline' ? 'focused' : 'always';
  const focus = host === 'standalone';
  if (transport) {
    return mountInspector(element, transport, { theme, wheel, focus, compact, grow });
  }
  if (options.profile) {
    const { profile } = options;
    const alone = new ProfileAlone(profile.name);
    return mountInspector(element, alone, { theme, wheel, focus, profile });
  }
  const carried = element.ownerDocument.getElementById(RECORDING_ELEMENT)?.textContent ?? '';
  const controller = new OfflineController(options.recording ?? carried, options.numbers);
  const model = new InspectorModel({ nodes: Infinity, writes: Infinity, problems: 1000 });
  controller.fill(model);
  const { lesson } = controller;
  const address = host === 'standalone';
  // The address itself belongs to lessons.
  const kept = (what: string): TextStorage | undefined => {
    const key = (): string => `ag-visual-inspector:${what}:${location.pathname}`;
    return address ? webStorage(() => window.sessionStorage, key) : undefined;
  };
  const [storage, choices] = [kept('views'), kept('drawing')];
  const side = (): string => 'ag-visual-inspector:side';
  const sidePlace = address ? webStorage(() => window.localStorage, side) : undefined;
  const places = { storage, choices, sidePlace };
  const shown = { theme, wheel, focus, model, lesson, address, compact, grow } as const;
  return mountInspector(element, controller, { ...shown, ...places });
}

/** Mounts what a cell's output shows: a recording, live where that is wanted and possible. */
export function mountOutput(element: HTMLElement, options: OutputOptions): OutputHandle {
  return output(element, options, mount);
}
