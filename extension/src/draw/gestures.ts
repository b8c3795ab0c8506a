// Pointer and wheel on the graph's canvas and its minimap, as what the reader means by them.

const DRAG_BEGINS = 4;
/** Zoom per wheel unit, and the largest step that one event may make. */
const WHEEL_ZOOM = 0.01;
const WHEEL_MOST = 60;

export interface Gestures {
  canvas: HTMLCanvasElement;
  minimap: HTMLCanvasElement;
  /** whether the wheel is ours now, and not the page's */
  wheels(): boolean;
  /** the node or leaf at a point of the canvas */
  at(x: number, y: number): number | null;
  over(seq: number | null): void;
  /** a click on a control of the graph's own; true where there was one */
  press(x: number, y: number): boolean;
  select(seq: number | null): void;
  open(seq: number): void;
  pan(dx: number, dy: number): void;
  zoom(x: number, y: number, factor: number): void;
  /** a point of the minimap becomes the middle of the view */
  jump(x: number, y: number): void;
}

type Point = { x: number; y: number };

function inside(element: HTMLElement, event: MouseEvent): Point {
  const box = element.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

/** Listens until the signal is aborted. */
export function listen(gestures: Gestures, signal: AbortSignal): void {
  listenToCanvas(gestures, signal);
  listenToWheel(gestures, signal);
  const { minimap } = gestures;
  const jump = (event: PointerEvent): void => {
    if (event.buttons !== 0) {
      const { x, y } = inside(minimap, event);
      gestures.jump(x, y);
    }
  };
  minimap.addEventListener(
    'pointerdown',
    event => {
      minimap.setPointerCapture(event.pointerId);
      jump(event);
    },
    { signal }
  );
  minimap.addEventListener('pointermove', jump, { signal });
}

function listenToCanvas(gestures: Gestures, signal: AbortSignal): void {
  const { canvas } = gestures;
  /** fingers or buttons that are down */
  const down = new Map<number, Point>();
  let moved = false;
  const seqAt = (event: MouseEvent): number | null => {
    const { x, y } = inside(canvas, event);
    return gestures.at(x, y);
  };

  const press = (event: PointerEvent): void => {
    if (event.button > 1) {
      return;
    }
    if (down.size === 0) moved = false;
    down.set(event.pointerId, inside(canvas, event));
    canvas.setPointerCapture(event.pointerId);
  };

  const move = (event: PointerEvent): void => {
    const before = down.get(event.pointerId);
    if (!before) {
      const seq = seqAt(event);
      canvas.style.cursor = seq === null ? 'default' : 'pointer';
      gestures.over(seq);
      return;
    }
    const now = inside(canvas, event);
    const [dx, dy] = [now.x - before.x, now.y - before.y];
    if (!moved && Math.hypot(dx, dy) < DRAG_BEGINS) {
      return;
    }
    moved = true;
    canvas.style.cursor = 'grabbing';
    down.set(event.pointerId, now);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (!other) {
      gestures.pan(dx, dy);
      return;
    }
    // Two fingers: the distance between them zooms about the other one, their way together pans.
    const apart = Math.hypot(before.x - other.x, before.y - other.y);
    gestures.pan(dx / 2, dy / 2);
    if (apart > 1) {
      gestures.zoom(other.x, other.y, Math.hypot(now.x - other.x, now.y - other.y) / apart);
    }
  };

  const release = (event: PointerEvent): void => {
    const click = down.size === 1 && !moved && event.type === 'pointerup' && event.button === 0;
    if (down.delete(event.pointerId) && click) {
      const { x, y } = inside(canvas, event);
      if (!gestures.press(x, y)) gestures.select(seqAt(event));
    }
    if (down.size === 0) canvas.style.cursor = 'default';
  };

  canvas.addEventListener('pointerdown', press, { signal });
  canvas.addEventListener('pointermove', move, { signal });
  canvas.addEventListener('pointerup', release, { signal });
  canvas.addEventListener('pointercancel', release, { signal });
  canvas.addEventListener('pointerleave', () => gestures.over(null), { signal });
  canvas.addEventListener(
    'dblclick',
    event => {
      const seq = seqAt(event);
      if (seq !== null) gestures.open(seq);
    },
    { signal }
  );
}

function listenToWheel(gestures: Gestures, signal: AbortSignal): void {
  const turn = (event: WheelEvent): void => {
    // A pinch on a touchpad arrives as a wheel with Ctrl: never the page's own zoom over the graph.
    if (!gestures.wheels() && !event.ctrlKey) {
      return;
    }
    event.preventDefault();
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 320 : 1;
    if (event.ctrlKey || event.metaKey) {
      const { x, y } = inside(gestures.canvas, event);
      const turned = Math.max(-WHEEL_MOST, Math.min(WHEEL_MOST, event.deltaY * unit));
      gestures.zoom(x, y, Math.exp(-turned * WHEEL_ZOOM));
    } else {
      const [dx, dy] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
      gestures.pan(-dx * unit, -dy * unit);
    }
  };
  gestures.canvas.addEventListener('wheel', turn, { signal, passive: false });
}
