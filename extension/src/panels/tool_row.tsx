// One row of buttons that is one row at any width: those that do not fit stand in a menu at its
// end, the least important ones first.

import type { ReactElement, ReactNode } from 'react';
import { useEffect, useLayoutEffect, useRef, useState } from 'react';
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
 * after each render, as a pause brings other buttons.
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
  const [, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = row.current;
    // While the panel is moved or hidden it has no width.
    if (!element || element.clientWidth === 0) {
      return;
    }
    const widths = new Map<string, number>();
    for (const one of element.querySelectorAll<HTMLElement>(':scope > [data-agv-item]')) {
      widths.set(one.dataset.agvItem ?? '', one.offsetWidth);
    }
    const room = element.clientWidth - (least > 0 ? least + GAP : 0);
    setOver([...overflowing(items, widths, room)].join(' '));
  });
  useEffect(() => {
    const element = row.current;
    if (!element) {
      return undefined;
    }
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const hidden = new Set(over.split(' '));
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
