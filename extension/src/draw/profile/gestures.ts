// Pointer and wheel on a timeline, as what the reader means by them.

const DRAG_BEGINS = 4;
const WHEEL_ZOOM = 0.01;
const WHEEL_MOST = 60;

export interface TimeGestures {
  canvas: HTMLCanvasElement;
  /** whether the wheel is ours now, and not the page's */
  wheels(): boolean;
  over(x: number | null, y: number): void;
  press(x: number, y: number): void;
  /** a double click */
  open(x: number, y: number): void;
  /** a span is drawn from one x to another */
  drag(from: number, to: number, done: boolean): void;
  /** an x of the overview becomes the middle of the view */
  jump(x: number): void;
  inOverview(y: number): boolean;
  pan(dx: number): void;
  scroll(dy: number): boolean;
  zoom(x: number, factor: number): void;
}

/** Listens until the signal is aborted. */
export function listenToTime(gestures: TimeGestures, signal: AbortSignal): void {
  const { canvas } = gestures;
  const at = (event: MouseEvent): { x: number; y: number } => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  let down: { x: number; y: number; how: 'span' | 'pan' | 'jump'; moved: boolean } | null = null;

  canvas.addEventListener(
    'pointerdown',
    event => {
      if (event.button > 1) return;
      const { x, y } = at(event);
      const how = gestures.inOverview(y)
        ? 'jump'
        : event.button === 1 || event.shiftKey
          ? 'pan'
          : 'span';
      down = { x, y, how, moved: false };
      canvas.setPointerCapture(event.pointerId);
      if (how === 'jump') gestures.jump(x);
    },
    { signal }
  );
  canvas.addEventListener(
    'pointermove',
    event => {
      const { x, y } = at(event);
      if (!down) {
        gestures.over(x, y);
        return;
      }
      if (!down.moved && Math.abs(x - down.x) + Math.abs(y - down.y) < DRAG_BEGINS) return;
      down.moved = true;
      if (down.how === 'span') {
        gestures.drag(down.x, x, false);
      } else if (down.how === 'jump') {
        gestures.jump(x);
      } else {
        gestures.pan(x - down.x);
        gestures.scroll(down.y - y);
        [down.x, down.y] = [x, y];
      }
    },
    { signal }
  );
  const release = (event: PointerEvent): void => {
    const { x, y } = at(event);
    if (down?.how === 'span') {
      if (down.moved) gestures.drag(down.x, x, true);
      else if (event.type === 'pointerup') gestures.press(x, y);
    }
    down = null;
  };
  canvas.addEventListener('pointerup', release, { signal });
  canvas.addEventListener('pointercancel', release, { signal });
  canvas.addEventListener('pointerleave', () => gestures.over(null, 0), { signal });
  canvas.addEventListener('dblclick', event => gestures.open(at(event).x, at(event).y), { signal });
  canvas.addEventListener(
    'wheel',
    event => {
      // A pinch on a touchpad arrives as a wheel with Ctrl: never the page's own zoom here.
      if (!gestures.wheels() && !event.ctrlKey) return;
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 320 : 1;
      if (event.ctrlKey || event.metaKey) {
        const turned = Math.max(-WHEEL_MOST, Math.min(WHEEL_MOST, event.deltaY * unit));
        gestures.zoom(at(event).x, Math.exp(-turned * WHEEL_ZOOM));
        return;
      }
      const [dx, dy] = event.shiftKey ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
      if (dx !== 0) gestures.pan(-dx * unit);
      // Where nothing is above or below, the wheel goes through time.
      if (dy !== 0 && !gestures.scroll(dy * unit)) gestures.pan(-dy * unit);
    },
    { signal, passive: false }
  );
}
