// Bookmarks on digits: Shift and a digit keeps the view, the digit alone goes back to it.

import type { KeyboardEvent, ReactElement } from 'react';
import { oneLine } from '../protocol/text';
import type { Bookmark } from '../model/bookmarks';
import { DIGITS, bookmarkOf, readBookmarks, restore } from '../model/bookmarks';
import { Menu } from './menu';
import type { Presenter } from './presenter';
import { useInspector } from './presenter';

/** Where a host keeps bookmarks; both may do nothing. */
export interface TextStorage {
  read(): string | null;
  write(text: string): void;
}

/** Frames that a new layout may take before the view is set. */
const PATIENCE = 600;

export class Bookmarks {
  private kept: Bookmark[] | null = null;

  constructor(
    private readonly presenter: Presenter,
    private readonly storage: TextStorage | null
  ) {}

  get all(): readonly Bookmark[] {
    return (this.kept ??= readBookmarks(this.storage?.read() ?? null));
  }

  /** The digit that a key event means; 0 for none. Shift changes what the key types. */
  static digitOf(event: KeyboardEvent): number {
    const found = /^(?:Digit|Numpad)([1-9])$/.exec(event.code);
    return found ? Number(found[1]) : /^[1-9]$/.test(event.key) ? Number(event.key) : 0;
  }

  set(digit: number): void {
    const { model, canvas } = this.presenter;
    const scene = canvas?.scene;
    if (!canvas || !scene) {
      return;
    }
    const { camera } = canvas;
    const [x, y] = [camera.worldX(camera.width / 2), camera.worldY(camera.height / 2)];
    let anchor = model.selected !== null && scene.boxOf(model.selected) ? model.selected : null;
    let nearest = Infinity;
    if (anchor === null || !model.graph.indexOf.has(anchor)) {
      scene.graph.seqs.forEach((seq, box) => {
        const distance = Math.hypot(scene.layout.x[box] - x, scene.layout.y[box] - y);
        if (distance < nearest) [nearest, anchor] = [distance, seq];
      });
    }
    const box = anchor === null ? null : scene.boxOf(anchor);
    if (anchor === null || !box) {
      return;
    }
    const view = { dx: x - box.x, dy: y - box.y, k: camera.k };
    const made = bookmarkOf(model, digit, anchor, view);
    if (made) {
      this.keep([...this.all.filter(one => one.digit !== digit), made]);
      this.presenter.notify('info', `Bookmark ${digit} set: press ${digit} to come back.`);
    }
  }

  remove(digit: number): void {
    this.keep(this.all.filter(one => one.digit !== digit));
    this.presenter.show();
  }

  jump(digit: number): void {
    const { presenter } = this;
    const found = this.all.find(one => one.digit === digit);
    if (!found) {
      presenter.notify('info', `No bookmark ${digit} yet: Shift ${digit} sets it.`);
      return;
    }
    const seq = restore(presenter.model, found);
    if (seq === null) {
      presenter.notify('info', `The node of bookmark ${digit} is not in this graph.`);
      return;
    }
    presenter.canvas?.update();
    this.look(seq, found.view, PATIENCE);
    presenter.show();
  }

  /** Sets the view as soon as the layout with the right groups is there. */
  private look(seq: number, view: Bookmark['view'], patience: number): void {
    const { canvas, model } = this.presenter;
    const scene = canvas?.scene;
    const box = scene?.graph.signature === model.view.signature ? scene.boxOf(seq) : null;
    if (canvas && box) {
      canvas.goAlong(box.x + view.dx, box.y + view.dy, view.k);
    } else if (canvas && patience > 0) {
      requestAnimationFrame(() => this.look(seq, view, patience - 1));
    }
  }

  private keep(all: Bookmark[]): void {
    this.kept = all.sort((p, q) => p.digit - q.digit);
    this.storage?.write(JSON.stringify(this.kept));
  }
}

/** Handles a digit; true when it was one. */
export function bookmarkKey(presenter: Presenter, event: KeyboardEvent): boolean {
  const digit = Bookmarks.digitOf(event);
  if (digit === 0) {
    return false;
  }
  if (event.shiftKey) presenter.bookmarks.set(digit);
  else presenter.bookmarks.jump(digit);
  return true;
}

export function BookmarkMenu(): ReactElement {
  const presenter = useInspector();
  const { bookmarks } = presenter;
  const free = DIGITS.find(digit => !bookmarks.all.some(one => one.digit === digit));
  return (
    <Menu
      label="Views"
      icon="views"
      title="Bookmarks of the view: Shift 1 to 9 set, 1 to 9 go there"
      side="right"
    >
      {close => (
        <>
          {bookmarks.all.map(({ digit, title }) => (
            <div key={digit} className="agv-sheet-row">
              <button
                type="button"
                className="agv-elide"
                onClick={() => (close(), bookmarks.jump(digit))}
              >
                {`${digit}  ${oneLine(title, 60)}`}
              </button>
              <button
                type="button"
                aria-label={`Remove bookmark ${digit}`}
                onClick={() => bookmarks.remove(digit)}
              >
                ×
              </button>
            </div>
          ))}
          {bookmarks.all.length === 0 && <p>No bookmarks yet.</p>}
          <hr />
          <button
            type="button"
            disabled={free === undefined || presenter.model.graph.seqs.length === 0}
            onClick={() => {
              close();
              if (free !== undefined) bookmarks.set(free);
            }}
          >
            Bookmark this view <small>{free === undefined ? 'all in use' : `Shift ${free}`}</small>
          </button>
        </>
      )}
    </Menu>
  );
}

/** Bookmarks in the browser's storage, one entry for each notebook or page. */
export function webStorage(storage: () => Storage, key: () => string): TextStorage {
  return {
    read: () => {
      try {
        return storage().getItem(key());
      } catch {
        return null;
      }
    },
    write: text => {
      try {
        storage().setItem(key(), text);
      } catch {
        // Storage is full or forbidden: bookmarks last as long as the page.
      }
    }
  };
}
