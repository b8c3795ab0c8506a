// A button with a sheet of choices below it.

import type { ReactElement } from 'react';
import { useEffect, useRef, useState } from 'react';

/**
 * A button with a sheet below it that closes by Escape, by a click elsewhere, or when the focus
 * leaves.
 */
export function Menu({
  label,
  title,
  side,
  children
}: {
  label: string;
  title: string;
  side: 'left' | 'right';
  children: (close: () => void) => React.ReactNode;
}): ReactElement {
  const [open, setOpen] = useState(false);
  const ref = useRef<HTMLDivElement>(null);
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
      onBlur={event => {
        if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget))
          setOpen(false);
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
        title={title}
        onClick={() => setOpen(!open)}
      >
        {label}
      </button>
      {open && (
        <div className="agv-sheet" data-side={side}>
          {children(() => setOpen(false))}
        </div>
      )}
    </div>
  );
}
