// One row of buttons that is one row at any width: those that do not fit stand in a menu at its
// end, the least important ones first.

import type { ReactElement, ReactNode } from 'react';
import { useLayoutEffect, useRef, useState } from 'react';
import { flushSync } from 'react-dom';
import { Icon } from './icons';
import type { IconName } from './icons';
import { Menu, useSheet } from './menu';

export interface Item {
  id: string;
  /** the larger, the longer it stays in the row; 'menu': never in the row */
  keep: number | 'menu';
  element: ReactElement;
}

/** Pixels between two buttons, as in the style sheet. */
const GAP = 6;
/** Pixels of the button that opens the menu. */
const MORE = 34;
const NO_WIDTHS: ReadonlyMap<string, number> = new Map();

/**
 * Which of the items do not fit, by their widths: those that are kept less go first, until the
 * rest and the menu's button fit.
 */
export function overflowing(
  items: readonly Pick<Item, 'id' | 'keep'>[],
  widths: ReadonlyMap<string, number>,
  room: number
): Set<string> {
  const over = new Set(items.filter(({ keep }) => keep === 'menu').map(({ id }) => id));
  const taken = ({ id }: Pick<Item, 'id'>): number => {
    const width = widths.get(id) ?? 0;
    return width > 0 ? width + GAP : 0;
  };
  const left = items
    .filter(({ id }) => !over.has(id))
    .sort((p, q) => Number(p.keep) - Number(q.keep));
  let sum = left.reduce((total, item) => total + taken(item), 0) + (over.size > 0 ? MORE : 0);
  for (const item of left) {
    if (sum <= room) break;
    if (over.size === 0) sum += MORE;
    over.add(item.id);
    sum -= taken(item);
  }
  return over;
}

/**
 * The row. fixed: what always stays, at its end, and shrinks to `least` pixels. It is measured
 * when it or one of its items has another size, as a pause brings other buttons: after the page's
 * own layout and before the frame, so that no render has the page laid out for it.
 */
export function ToolRow({
  items,
  fixed,
  least
}: {
  items: readonly Item[];
  fixed: ReactNode;
  least: number;
}): ReactElement {
  const row = useRef<HTMLDivElement>(null);
  const [over, setOver] = useState('');
  const keeps = items.map(({ id, keep }) => `${id} ${keep}`).join();
  useLayoutEffect(() => {
    const element = row.current;
    if (!element) {
      return undefined;
    }
    const parts = [...element.querySelectorAll<HTMLElement>(':scope > [data-agv-item]')];
    const observer = new ResizeObserver(() => {
      // While the panel is moved or hidden it has no width.
      if (element.clientWidth === 0) {
        return;
      }
      const widths = new Map(parts.map(one => [one.dataset.agvItem ?? '', one.offsetWidth]));
      const room = element.clientWidth - (least > 0 ? least + GAP : 0);
      // Into the frame that shows the new sizes.
      flushSync(() => setOver([...overflowing(items, widths, room)].join(' ')));
    });
    for (const one of [element, ...parts]) observer.observe(one);
    return () => observer.disconnect();
    // Of the items, only what stands in `keeps` is read.
  }, [keeps, least]);
  const hidden = overflowing(items, NO_WIDTHS, Infinity);
  for (const id of over.split(' ')) hidden.add(id);
  const folded = items.filter(({ id }) => hidden.has(id));
  return (
    <div ref={row} className="agv-tools">
      {items.map(({ id, element }) => (
        // What is in the menu is measured here, too: there may be room for it again.
        <div key={id} data-agv-item={id} data-over={hidden.has(id) ? 'yes' : 'no'}>
          {element}
        </div>
      ))}
      {fixed}
      {folded.length > 0 && (
        <Menu label="More" icon="more" bare title="What does not fit here" side="right">
          {() =>
            folded.map(({ id, element }) => (
              <div key={id} className="agv-folded">
                {element}
              </div>
            ))
          }
        </Menu>
      )}
    </div>
  );
}

/** A button of the row; in the menu it closes the menu. */
export function Tool({
  icon,
  label,
  keys,
  title,
  run,
  always = false,
  ...state
}: {
  icon: IconName;
  label: string;
  keys?: string;
  title: string;
  run: () => void;
  /** the label stands beside the icon where labels do not */
  always?: boolean;
  disabled?: boolean;
  hidden?: boolean;
  pressed?: boolean;
  primary?: boolean;
  kind?: string;
}): ReactElement {
  const sheet = useSheet();
  return (
    <button
      type="button"
      className="agv-btn"
      disabled={state.disabled}
      hidden={state.hidden}
      aria-pressed={state.pressed}
      data-primary={state.primary ? 'yes' : undefined}
      data-kind={state.kind}
      data-label={always ? 'always' : undefined}
      title={title}
      onClick={() => {
        run();
        sheet?.();
      }}
    >
      <Icon name={icon} />
      <span className="agv-label">{label}</span>
      {keys && <kbd> {keys}</kbd>}
    </button>
  );
}
