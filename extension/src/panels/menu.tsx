// A button with a sheet of choices below it; inside of another sheet it opens in its place.

import type { ReactElement } from 'react';
import { createContext, useContext, useEffect, useLayoutEffect, useRef, useState } from 'react';
import { Icon } from './icons';
import type { IconName } from './icons';

/** Pixels between a sheet and the edge of the panel. */
const EDGE = 6;
/** Pixels of the widest sheet. */
const WIDEST = 360;

/**
 * Keeps a sheet within its panel. A part that stuck out would be scrolled to when it gets the
 * focus, and all buttons of the panel would move under the pointer.
 */
function keepInside(sheet: HTMLElement): void {
  const panel = sheet.closest('.agv-root')?.getBoundingClientRect();
  if (!panel) {
    return;
  }
  sheet.style.translate = '';
  sheet.style.maxWidth = `${Math.min(WIDEST, panel.width - 2 * EDGE)}px`;
  const { left, right, top } = sheet.getBoundingClientRect();
  sheet.style.maxHeight = `${panel.bottom - EDGE - top}px`;
  const shift = Math.max(Math.min(0, panel.right - EDGE - right), panel.left + EDGE - left);
  sheet.style.translate = `${shift}px`;
}

const SheetContext = createContext<(() => void) | null>(null);

/** Closes the sheet that this stands in; null outside of one. */
export function useSheet(): (() => void) | null {
  return useContext(SheetContext);
}

interface MenuProps {
  label: string;
  title: string;
  side: 'left' | 'right';
  icon?: IconName;
  /** stands beside the icon where the label does not */
  badge?: string;
  /** what the label is the value of: told where the menu is a part of another one */
  about?: string;
  /** the icon alone, also where there is room for labels */
  bare?: boolean;
  children: (close: () => void) => React.ReactNode;
}

function Face({ label, icon, badge }: Pick<MenuProps, 'label' | 'icon' | 'badge'>): ReactElement {
  return (
    <>
      {icon && <Icon name={icon} />}
      {icon ? <span className="agv-label">{label}</span> : label}
      {badge && (
        <span className="agv-badge" aria-hidden="true">
          {badge}
        </span>
      )}
    </>
  );
}

/**
 * A button with a sheet below it that closes by Escape, by a click elsewhere, or when the focus
 * leaves.
 */
export function Menu(props: MenuProps): ReactElement {
  const around = useSheet();
  return around ? <Inside {...props} closeAround={around} /> : <Outside {...props} />;
}

/** A part of a sheet that opens below its button. */
function Inside({
  title,
  children,
  closeAround,
  about,
  ...face
}: MenuProps & { closeAround: () => void }): ReactElement {
  const [open, setOpen] = useState(false);
  return (
    <div className="agv-inside">
      <button
        type="button"
        className="agv-btn"
        aria-expanded={open}
        title={title}
        onClick={() => setOpen(!open)}
      >
        {about && <span>{about}: </span>}
        <Face {...face} />
      </button>
      {open && <div className="agv-inside-sheet">{children(closeAround)}</div>}
    </div>
  );
}

function Outside({ title, side, bare, children, ...face }: MenuProps): ReactElement {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
  const sheet = useRef<HTMLDivElement>(null);
  const focused = useRef(false);
  const close = (): void => setOpen(false);
  useLayoutEffect(() => {
    // After each render: what the sheet shows may have changed while it is open.
    if (!sheet.current) {
      return;
    }
    keepInside(sheet.current);
    // The button that had the focus is gone, as that of a removed breakpoint: Escape and Tab are
    // to go on from here.
    if (focused.current && document.activeElement === document.body) {
      sheet.current.focus();
    }
  });
  useEffect(() => {
    if (!open) {
      return undefined;
    }
    const away = (event: Event): void => {
      if (!event.composedPath().includes(ref.current as EventTarget)) setOpen(false);
    };
    document.addEventListener('pointerdown', away, true);
    return () => document.removeEventListener('pointerdown', away, true);
  }, [open]);
  return (
    <div
      className="agv-menu"
      ref={ref}
      onFocus={() => {
        focused.current = true;
      }}
      onBlur={event => {
        if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) {
          focused.current = false;
          setOpen(false);
        }
      }}
      onKeyDown={event => {
        if (event.key === 'Escape' && open) {
          setOpen(false);
          event.stopPropagation();
          ref.current?.querySelector('button')?.focus();
        }
      }}
    >
      <button
        type="button"
        className="agv-btn"
        aria-haspopup="true"
        aria-expanded={open}
        data-label={bare ? 'never' : undefined}
        title={title}
        onClick={() => setOpen(!open)}
      >
        <Face {...face} />
      </button>
      {open && (
        <SheetContext.Provider value={close}>
          <div className="agv-sheet" data-side={side} ref={sheet} tabIndex={-1}>
            {children(close)}
          </div>
        </SheetContext.Provider>
      )}
    </div>
  );
}
