// Two canvases that move together: where one looks, the other shows what corresponds to it. Between
// pairs of nodes the place is interpolated, so that nothing jumps where one side has more.

import { rising } from '../model/compare/align';
import type { GraphCanvas } from './graph_canvas';
import type { Scene } from './scene';

/**
 * Places that correspond: from (x, y) to (x + dx, toY). Sorted by y, both rising. y runs along the
 * edges: down, or to the side in graphs that lead there.
 */
interface Anchor {
  y: number;
  toY: number;
  dx: number;
}

/** Node numbers of pairs, a's and b's. */
export type Pairs = () => Iterable<readonly [number, number]>;

/** Where corresponding nodes stand in both scenes, from a to b. */
export function anchorsOf(
  a: Scene,
  b: Scene,
  pairs: Iterable<readonly [number, number]>
): Anchor[] {
  const places: { x: number; y: number; toX: number; toY: number }[] = [];
  for (const [one, other] of pairs) {
    const from = a.boxOf(one);
    const to = b.boxOf(other);
    if (!from || !to) continue;
    if (a.layout.across) places.push({ x: from.y, y: from.x, toX: to.y, toY: to.x });
    else places.push({ x: from.x, y: from.y, toX: to.x, toY: to.y });
  }
  places.sort((p, q) => p.y - q.y || p.toY - q.toY);
  // One anchor for each row: several nodes of a row differ in x alone.
  const rows: (Anchor & { count: number })[] = [];
  for (const { x, y, toX, toY } of places) {
    const last = rows[rows.length - 1];
    if (last && last.y === y) {
      last.dx += (toX - x - last.dx) / ++last.count;
      last.toY += (toY - last.toY) / last.count;
    } else {
      rows.push({ y, toY, dx: toX - x, count: 1 });
    }
  }
  return rising(rows.map(({ toY }, i) => [i, toY])).map(([i]) => rows[i]);
}

/** The point of b that corresponds to (x, y) of a; y along the edges. */
export function follow(anchors: readonly Anchor[], x: number, y: number): { x: number; y: number } {
  if (anchors.length === 0) {
    return { x, y };
  }
  let [low, high] = [0, anchors.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (anchors[middle].y <= y) low = middle + 1;
    else high = middle;
  }
  const above = anchors[Math.max(0, low - 1)];
  const below = anchors[Math.min(anchors.length - 1, low)];
  if (above === below || y <= above.y || y >= below.y) {
    const at = y <= above.y ? above : below;
    return { x: x + at.dx, y: y + at.toY - at.y };
  }
  const part = (y - above.y) / (below.y - above.y);
  return {
    x: x + above.dx + part * (below.dx - above.dx),
    y: above.toY + part * (below.toY - above.toY)
  };
}

export class Linked {
  on = true;
  private scenes: [Scene | null, Scene | null] = [null, null];
  private anchors: { forth: Anchor[]; back: Anchor[] } = { forth: [], back: [] };

  constructor(
    private readonly a: GraphCanvas,
    private readonly b: GraphCanvas,
    private readonly pairs: Pairs
  ) {}

  /** Brings the other canvas to where this one looks. */
  moved(by: 'a' | 'b'): void {
    const { a, b } = this;
    // While they turn, one leads elsewhere than the other.
    if (!this.on || !a.scene || !b.scene || a.scene.layout.across !== b.scene.layout.across) {
      return;
    }
    if (this.scenes[0] !== a.scene || this.scenes[1] !== b.scene) {
      this.scenes = [a.scene, b.scene];
      const forth = anchorsOf(a.scene, b.scene, this.pairs());
      const turned = Array.from(this.pairs(), ([one, other]) => [other, one] as const);
      this.anchors = { forth, back: anchorsOf(b.scene, a.scene, turned) };
    }
    const [from, to] = by === 'a' ? [a, b] : [b, a];
    const { camera } = from;
    const x = camera.worldX(camera.width / 2);
    const y = camera.worldY(camera.height / 2);
    const { across } = a.scene.layout;
    const anchors = by === 'a' ? this.anchors.forth : this.anchors.back;
    const place = across ? follow(anchors, y, x) : follow(anchors, x, y);
    if (across) to.goAlong(place.y, place.x, camera.k);
    else to.goAlong(place.x, place.y, camera.k);
  }
}
