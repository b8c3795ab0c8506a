// Where the reader looks and how the view gets there: first view, glides, following the node that
// runs, staying put while the graph changes around it. Knows scenes and a camera, paints nothing.

import type { Box } from './camera';
import { Camera } from './camera';
import type { Scene } from './scene';

const GLIDE_MS = 180;
const MARGIN = 24;
/** Room for the legend when all is shown. */
const FOOTER = 22;
/** Room for the switch between nodes and numbers above a first view. */
const HEADER = 46;
/** After the reader moved the view it does not follow the next node for a while. */
const HANDS_OFF_MS = 4000;
/** So long after a first view, what else appears with the graph may still change it. */
const ARRIVING_MS = 400;
/**
 * Below this zoom names cannot be read; a graph that would need it is shown from its top instead.
 */
export const LEGIBLE = 0.7;
/** Zoom of a first view that cannot show all. */
export const READING = 0.85;
/** Height of the minimap with its margins: a node that is shown stays above it. */
const MINIMAP = 60;
/** So many nodes in view are tried for one that stays where it is. */
const TRIED = 400;

/** From what lies over the canvas to what is to be seen. */
const CLEAR = 6;

export class Viewpoint {
  readonly camera = new Camera();
  /** node that stays where it is while containers open and close */
  private held: number | null = null;
  /** the next scene is shown as a first one */
  private anew = false;
  private shownNext: number | null = null;
  /** what was brought into view last; it stays there when the side takes room, until a move */
  private sought: number | null = null;
  private homed = -Infinity;
  private touched = -Infinity;
  /** nobody moved the view since `home`: it may be chosen again when there is more or less room */
  private pristine = true;
  /** moved by its reader last, not along with another one */
  private leads = false;
  /** what is pressed stays under the pointer while room is made for what it opens */
  private pressed = -Infinity;
  private reported = [NaN, NaN, NaN];
  private glide: { from: number[]; to: number[]; start: number } | null = null;

  /** over: what lies over the canvas now, in its pixels */
  constructor(
    private readonly over: () => readonly Box[],
    private readonly request: () => void
  ) {}

  /** On its way to somewhere else. */
  get gliding(): boolean {
    return this.glide !== null;
  }

  /** All of the graph on screen. */
  fit(scene: Scene): void {
    this.moveTo(() => this.fitBelow(scene.bounds));
  }

  zoomBy(factor: number): void {
    this.moveTo(camera => camera.zoomAt(camera.width / 2, camera.height / 2, factor));
  }

  /** The reader moves the view: it is there at once, and stays. */
  move(change: (camera: Camera) => void): void {
    this.touch();
    change(this.camera);
    this.request();
  }

  /** Brings a node or leaf into view, large enough to be read. */
  reveal(scene: Scene, seq: number): void {
    const box = scene.boxOf(seq);
    // What is shown as at first goes on being fitted to its room, which the side may take next.
    if (box && !(this.pristine && this.camera.k >= LEGIBLE && this.inPlainView(box))) {
      this.moveTo(camera => {
        if (camera.k < LEGIBLE) {
          camera.k = READING;
          camera.centre(box.x + box.width / 2, box.y + box.height / 2);
        } else {
          this.revealWithLine(scene, seq, box);
        }
      });
    }
    this.sought = seq;
  }

  /** Goes where another viewpoint went: this point in the middle, this zoom. */
  goAlong(x: number, y: number, k: number): void {
    this.leads = false;
    this.pristine = false;
    this.sought = null;
    this.glide = null;
    this.camera.k = k;
    this.camera.centre(x, y);
    this.request();
  }

  /** True once after each move that began here. */
  takeMove(): boolean {
    const { x, y, k } = this.camera;
    const still = [x, y, k].every((value, i) => value === this.reported[i]);
    this.reported = [x, y, k];
    return !still && this.leads;
  }

  /** This node stays under the reader's eye in the next scene. */
  hold(seq: number): void {
    this.touch();
    this.held = seq;
  }

  /** The next scene is shown as a first one: there is little that could stay where it is. */
  startAnew(): void {
    this.anew = true;
  }

  /**
   * A new scene: what was known stays where it is; otherwise the first view is chosen. left: what
   * was selected before, which `selected` is the same as in another pass.
   */
  adopt(old: Scene | null, scene: Scene, selected: number | null, left: number | null): void {
    this.sought = null;
    if (!old || this.anew || !this.anchor(old, scene, selected, left)) this.home(scene);
  }

  /** The same scene goes on. */
  stay(scene: Scene): void {
    if (this.anew) this.home(scene);
  }

  /** Keeps the next node in view while the reader steps. */
  follow(scene: Scene | null, next: number | null): void {
    if (next === this.shownNext) {
      return;
    }
    this.shownNext = next;
    const box = next === null ? null : scene?.boxOf(next);
    if (scene && box && performance.now() - this.touched > HANDS_OFF_MS) {
      this.moveTo(() => this.revealWithLine(scene, next as number, box), false);
      this.sought = next;
    }
  }

  /** Moves a glide on to this moment; asks for another frame until it has arrived. */
  advance(now: number, scene: Scene | null): void {
    const { camera } = this;
    if (this.glide) {
      const { from, to, start: began } = this.glide;
      const part = Math.min(1, Math.max(0, (now - began) / GLIDE_MS));
      const eased = 1 - (1 - part) ** 3;
      [camera.x, camera.y, camera.k] = from.map((value, i) => value + (to[i] - value) * eased);
      if (part < 1) this.request();
      else this.glide = null;
    }
    if (scene) camera.hold(scene.bounds);
  }

  /** The reader looks at moments now: what they compare stands still, whatever has more room. */
  keep(): void {
    this.pristine = false;
  }

  /** The side comes or goes with what is pressed now: nothing moves meanwhile. */
  press(): void {
    this.pressed = performance.now();
  }

  /**
   * The canvas has another size, its top is `lowered` by so many pixels. Where only its height
   * changed, all stays where it is on the page; otherwise what was in its middle stays there.
   */
  resize(width: number, height: number, lowered: number, scene: Scene | null): void {
    const { camera } = this;
    const first = camera.width <= 1;
    const sameWidth = camera.width === width;
    // Buttons or a message above came or went: no reason to show the graph at another size.
    const above = sameWidth && lowered !== 0 && performance.now() - this.homed > ARRIVING_MS;
    const [cx, cy] = [camera.worldX(camera.width / 2), camera.worldY(camera.height / 2)];
    camera.width = width;
    camera.height = height;
    if (!first && performance.now() - this.pressed < ARRIVING_MS) {
      this.pristine = false;
    } else if (first || (this.pristine && !above)) {
      if (scene) this.home(scene);
    } else if (sameWidth) {
      this.shift(0, -lowered);
    } else {
      camera.centre(cx, cy);
    }
    if (scene && !first && performance.now() - this.pressed >= ARRIVING_MS) this.seekAgain(scene);
  }

  /** What was brought into view is out of it now that there is less room. */
  private seekAgain(scene: Scene): void {
    const { camera, sought } = this;
    const box = sought === null ? null : scene.boxOf(sought);
    if (sought === null || !box) {
      return;
    }
    if (this.glide) [camera.x, camera.y, camera.k] = this.glide.to;
    this.glide = null;
    this.revealWithLine(scene, sought, box);
  }

  /** Height in which all of a scene is seen at its own size, or as small as its width makes it. */
  heightFor({ bounds }: Scene): number {
    const k = Math.min(1, (this.camera.width - 2 * MARGIN) / Math.max(1, bounds.width));
    return HEADER + bounds.height * Math.max(LEGIBLE, k) + MARGIN + FOOTER;
  }

  /** The first view: all of it where that can be read, otherwise its beginning. */
  private home(scene: Scene): void {
    const { camera } = this;
    this.glide = null;
    this.anew = false;
    this.held = null;
    this.pristine = true;
    this.homed = performance.now();
    this.fitBelow(scene.bounds);
    if (camera.k < LEGIBLE) {
      const { width, across } = scene.layout;
      if (across) {
        this.fromTheSide(scene);
        return;
      }
      camera.k = Math.min(1, Math.max(READING, (camera.width - 48) / Math.max(1, width)));
      const fits = width * camera.k <= camera.width;
      const root = scene.boxOf(scene.graph.seqs[0]) ?? scene.bounds;
      camera.x = fits
        ? (camera.width - width * camera.k) / 2
        : camera.width / 2 - (root.x + root.width / 2) * camera.k;
      camera.y = HEADER - (fits ? 0 : Math.max(0, root.y - 60) * camera.k);
    } else {
      // Short graphs hang from the top, where reading begins.
      camera.y = Math.min(camera.y, HEADER);
    }
    this.shownNext = null;
  }

  /** The beginning of a graph whose edges lead to the side: what it begins with at that side. */
  private fromTheSide(scene: Scene): void {
    const { camera } = this;
    const { upward } = scene.layout;
    const { y: top, height } = scene.bounds;
    camera.k = Math.min(1, Math.max(READING, (camera.height - 2 * HEADER) / Math.max(1, height)));
    const root = scene.boxOf(scene.graph.seqs[0]) ?? scene.bounds;
    const frame = scene.frameOf(scene.graph.seqs[0]) ?? root;
    const low = Math.max(FOOTER + MARGIN, this.covered.bottom);
    const fits = height * camera.k <= camera.height - HEADER - low;
    camera.y = fits
      ? HEADER - top * camera.k
      : (camera.height + HEADER - low) / 2 - (root.y + root.height / 2) * camera.k;
    camera.x = upward
      ? camera.width - MARGIN - (frame.x + frame.width) * camera.k
      : MARGIN - Math.min(frame.x, root.x) * camera.k;
    this.shownNext = null;
  }

  /**
   * Moves the camera so that a node known to both scenes stays under the reader's eye; false when
   * there is none.
   */
  private anchor(
    old: Scene,
    scene: Scene,
    selected: number | null,
    left: number | null
  ): boolean {
    const { camera } = this;
    const { view } = camera;
    const [cx, cy] = [view.x + view.width / 2, view.y + view.height / 2];
    const known = (seq: number | null): seq is number =>
      seq !== null && old.boxOf(seq) !== null && scene.boxOf(seq) !== null;
    let anchor = known(this.held) ? this.held : known(selected) ? selected : null;
    this.held = null;
    if (anchor === null) {
      let nearest = Infinity;
      let tried = 0;
      old.nodes.within(view, index => {
        if (tried++ > TRIED) return;
        const seq = old.graph.seqs[index];
        const distance = Math.hypot(old.layout.x[index] - cx, old.layout.y[index] - cy);
        if (distance < nearest && scene.graph.indexOf.has(seq)) {
          nearest = distance;
          anchor = seq;
        }
      });
    }
    const carried = anchor === null && !this.pristine;
    const [before, now] = carried ? [left, selected] : [anchor, anchor];
    const from = before === null ? null : old.boxOf(before);
    const to = now === null ? null : scene.boxOf(now);
    if (!from || !to) {
      return false;
    }
    this.shift((from.x - to.x) * camera.k, (from.y - to.y) * camera.k);
    return true;
  }

  /** The graph moved under the view: it goes along, on its way to somewhere, too. */
  private shift(dx: number, dy: number): void {
    this.camera.pan(dx, dy);
    for (const place of this.glide ? [this.glide.from, this.glide.to] : []) {
      place[0] += dx;
      place[1] += dy;
    }
  }

  /**
   * Shows the whole line that a node belongs to where there is room for it, in any case the node.
   */
  private revealWithLine(scene: Scene, seq: number, box: Box): void {
    const { camera } = this;
    if (this.inPlainView(box)) {
      return;
    }
    const frame = scene.frameOf(seq);
    if (
      frame &&
      frame.width * camera.k < camera.width - 60 &&
      frame.height * camera.k < camera.height - 2 * MINIMAP
    ) {
      camera.reveal(frame, 24, MINIMAP, this.covered);
    }
    camera.reveal(box, 72, MINIMAP, this.covered);
  }

  /** All of a box on screen, between the switch above and the legend below. */
  private fitBelow(bounds: Box): void {
    const { camera } = this;
    const low = Math.max(FOOTER + MARGIN, Math.min(this.covered.bottom, camera.height / 3));
    camera.fit(bounds, MARGIN, low + HEADER - 2 * MARGIN);
    camera.y += HEADER - MARGIN;
  }

  /** Pixels at the top and at the bottom of which something lies over a part. */
  private get covered(): { top: number; bottom: number } {
    const found = { top: 0, bottom: 0 };
    const { height } = this.camera;
    for (const box of this.over()) {
      if (box.y + box.height / 2 < height / 2)
        found.top = Math.max(found.top, box.y + box.height + CLEAR);
      else found.bottom = Math.max(found.bottom, height - box.y + CLEAR);
    }
    return found;
  }

  /** Whether a box is on screen, away from the border, and nothing lies over it. */
  private inPlainView({ x, y, width, height }: Box): boolean {
    const { camera } = this;
    const [left, top] = [camera.screenX(x), camera.screenY(y)];
    const [right, bottom] = [camera.screenX(x + width), camera.screenY(y + height)];
    const shown = left >= 8 && top >= 8 && right <= camera.width - 8 && bottom <= camera.height - 8;
    const under = this.over().some(
      over =>
        right > over.x - CLEAR &&
        left < over.x + over.width + CLEAR &&
        bottom > over.y - CLEAR &&
        top < over.y + over.height + CLEAR
    );
    return shown && !under;
  }

  private touch(): void {
    this.sought = null;
    this.leads = true;
    this.touched = performance.now();
    this.pristine = false;
    this.glide = null;
  }

  private moveTo(change: (camera: Camera) => void, byReader = true): void {
    const { camera } = this;
    if (byReader) {
      this.sought = null;
      this.leads = true;
      this.touched = performance.now();
      this.pristine = false;
    }
    const from = [camera.x, camera.y, camera.k];
    if (this.glide) [camera.x, camera.y, camera.k] = this.glide.to;
    change(camera);
    const to = [camera.x, camera.y, camera.k];
    const still = matchMedia('(prefers-reduced-motion: reduce)').matches;
    if (!still) {
      [camera.x, camera.y, camera.k] = from;
      this.glide = { from, to, start: performance.now() };
    }
    this.request();
  }
}
