// The width of an element on the page: a canvas in it is painted anew when that changes.

import type { RefObject } from 'react';
import { useEffect, useRef, useState } from 'react';

/** A reference for the element, and its width, 0 before it is on the page. */
export function useWidth(): [RefObject<HTMLDivElement>, number] {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (!element) {
      return undefined;
    }
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}
