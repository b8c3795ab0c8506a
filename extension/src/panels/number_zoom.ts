// How large the drawing of every number is: fitted to the width as long as it can be read there,
// or as the reader chose by buttons, keys or the wheel with Ctrl.

import type { RefObject } from 'react';
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';

/** Below this its texts are smaller than 10 pixels. */
const LEAST_FITTED = 0.75;
const MOST_FITTED = 1.4;
const LEAST = 0.25;
const MOST = 4;
/** What stands beside the drawing: padding, and the scroll bar. */
const BESIDE = 44;
const WHEEL = 0.0025;

export interface Zoom {
  scale: number;
  fitted: boolean;
  zoomBy(factor: number): void;
  fit(): void;
}

/**
 * The scale at which a drawing fits. One that is too wide to be read so is scrolled to the side,
 * and is as high as the view, if that can be read: it is scrolled in one direction alone.
 */
export function fittedScale(
  drawing: { width: number; height: number },
  view: { width: number; height: number }
): number {
  const across = view.width / drawing.width;
  if (across >= LEAST_FITTED) {
    return Math.min(across, MOST_FITTED);
  }
  return Math.min(1, Math.max(LEAST_FITTED, view.height / drawing.height));
}

/** above: pixels over the drawing that are not its own; chosen: null while it is fitted. */
export function useZoom(
  host: RefObject<HTMLDivElement>,
  { width, height, above }: { width: number; height: number; above: number },
  chosen: number | null,
  setChosen: (scale: number | null) => void
): Zoom {
  const [view, setView] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = host.current;
    if (!element) {
      return undefined;
    }
    const measure = (): void =>
      setView({
        width: element.clientWidth - BESIDE,
        height: element.clientHeight - above - BESIDE / 2
      });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [host, above]);
  const known = view.width > 0;
  const scale = chosen ?? (known ? fittedScale({ width, height }, view) : 1);
  const now = useRef(scale);
  /** a point of the view that stays where it is: its place in the drawing, before it is scaled */
  const held = useRef<{ x: number; y: number; left: number; top: number } | null>(null);
  const zoomBy = useCallback(
    (factor: number, x?: number, y?: number): void => {
      const element = host.current;
      const next = Math.min(MOST, Math.max(LEAST, now.current * factor));
      if (element) {
        const left = x ?? element.clientWidth / 2;
        const top = y ?? element.clientHeight / 2;
        const place = (at: number, scrolled: number): number => (at + scrolled) / now.current;
        held.current = {
          x: place(left, element.scrollLeft),
          y: place(top, element.scrollTop),
          left,
          top
        };
      }
      setChosen(next);
    },
    [host, setChosen]
  );
  useLayoutEffect(() => {
    now.current = scale;
    const element = host.current;
    if (element && held.current) {
      const { x, y, left, top } = held.current;
      element.scrollLeft = x * scale - left;
      element.scrollTop = y * scale - top;
      held.current = null;
    }
  }, [host, scale]);
  useEffect(() => {
    const element = host.current;
    // The wheel alone scrolls, as everywhere; a pinch on a touchpad arrives as a wheel with Ctrl.
    const wheel = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.metaKey) {
        return;
      }
      event.preventDefault();
      const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
      zoomBy(Math.exp(-event.deltaY * WHEEL), event.clientX - left, event.clientY - top);
    };
    element?.addEventListener('wheel', wheel, { passive: false });
    return () => element?.removeEventListener('wheel', wheel);
  }, [host, zoomBy]);
  const fit = useCallback(() => setChosen(null), [setChosen]);
  return { scale, fitted: chosen === null, zoomBy, fit };
}
