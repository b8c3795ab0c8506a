// The graph's canvas: keeps a scene for the graph that is wanted, a camera that stays where the
// reader looks, and paints when something changed. Pointer and wheel are read here; keys belong to
// the panel around it.

import type { Container } from '../model/containers';
import type { InspectorModel } from '../model/inspector';
import type { States } from '../model/states';
import type { View } from '../model/view';
import { layoutInput } from '../layout/input';
import { LayoutRunner } from '../layout/run';
import type { Box } from './camera';
import { Camera } from './camera';
import { listen } from './gestures';
import { Labels } from './labels';
import { minimapScale, paintMinimap } from './minimap';
import type { Palette } from './palette';
import { readPalette } from './palette';
import { paint } from './painter';
import { Scene } from './scene';
import { SvgContext } from './svg_context';

export interface GraphEvents {
  select(seq: number | null): void;
  /** double click: show the source */
  open(seq: number): void;
  /** a closed container was chosen */
  choose(container: Container): void;
  /** a container's control was used: open or close it */
  fold(container: Container, open: boolean): void;
  /** a scene was shown, or a layout began */
  settled(laying: boolean): void;
}

export interface GraphOptions {
  /** 'focused': the wheel belongs to the page around until the canvas has the focus */
  wheel: 'always' | 'focused';
}

export interface PaintStats {
  frames: number;
  lastMs: number;
  p95Ms: number;
  nodesDrawn: number;
  /** performance.now() of the first frame with nodes; 0 before it */
  firstPaint: number;
  layoutMs: number;
}

const GLIDE_MS = 180;
const MARGIN = 24;
/** Around a picture of the whole graph. */
const PICTURE_MARGIN = 60;
/** Room for the legend when all is shown. */
const FOOTER = 22;
const REMEMBERED_FRAMES = 240;
/** After the reader moved the view it does not follow the next node for a while. */
const HANDS_OFF_MS = 4000;
/**
 * Below this zoom names cannot be read; a graph that would need it is shown from its top instead.
 */
const LEGIBLE = 0.7;
/** Zoom of a first view that cannot show all. */
const READING = 0.85;
/** Height of the minimap with its margins: a node that is shown stays above it. */
const MINIMAP = 60;

export class GraphCanvas {
  readonly camera = new Camera();
  scene: Scene | null = null;
  private readonly ctx: CanvasRenderingContext2D;
  private readonly labels: Labels;
  private readonly runner = new LayoutRunner();
  private readonly ending = new AbortController();
  private readonly resizing: ResizeObserver;
  private palette: Palette;
  private states: States;
  private wanted: { graph: View; states: States } | null = null;
  private laying = false;
  private selected: number | null = null;
  private over: number | null = null;
  private selectedBox = -1;
  private hits: ReadonlySet<number> = new Set();
  private hitBoxes: ReadonlySet<number> = new Set();
  /** what stays where it is while containers open and close */
  private held: number | null = null;
  private frame = 0;
  private ratio = 1;
  private shownNext: number | null = null;
  private touched = -Infinity;
  /** nobody moved the view since `home`: it may be chosen again when there is more or less room */
  private pristine = true;
  private glide: { from: number[]; to: number[]; start: number } | null = null;
  private framesMs = new Float32Array(REMEMBERED_FRAMES);
  private stats = { frames: 0, lastMs: 0, nodesDrawn: 0, firstPaint: 0, layoutMs: 0 };

  constructor(
    private readonly model: InspectorModel,
    private readonly host: HTMLElement,
    private readonly canvas: HTMLCanvasElement,
    private readonly minimap: HTMLCanvasElement,
    private readonly events: GraphEvents,
    options: GraphOptions
  ) {
    const ctx = canvas.getContext('2d', { alpha: false });
    if (!ctx) {
      throw new Error('This browser gives no 2D canvas.');
    }
    this.ctx = ctx;
    this.labels = new Labels(ctx);
    this.palette = readPalette(host);
    this.states = model.drawn;
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(host);
    this.resize();
    this.listen(options.wheel);
  }

  /** Shows what the model holds now. */
  update(): void {
    const { model } = this;
    this.selected = model.selected;
    this.selectedBox = model.selectedBox();
    this.hits = new Set(model.hits);
    const { view: graph, drawn: states } = model;
    this.hitBoxes = new Set(model.hits.map(seq => graph.indexOf.get(seq)));
    if (this.scene && graph.signature === this.scene.graph.signature) {
      if (graph !== this.scene.graph) this.scene.adopt(graph);
      this.wanted = null;
      this.states = states;
      this.follow();
    } else if (graph.seqs.length === 0) {
      this.wanted = null;
      this.scene = null;
      this.states = states;
    } else {
      this.wanted = { graph, states };
      void this.lay();
    }
    this.request();
  }

  setPalette(): void {
    this.palette = readPalette(this.host);
    this.labels.clear();
    this.request();
  }

  dispose(): void {
    this.ending.abort();
    this.resizing.disconnect();
    this.runner.dispose();
    cancelAnimationFrame(this.frame);
  }

  get paintStats(): PaintStats {
    const known = Array.from(
      this.framesMs.subarray(0, Math.min(this.stats.frames, REMEMBERED_FRAMES))
    ).sort((a, b) => a - b);
    return { ...this.stats, p95Ms: known[Math.floor(known.length * 0.95)] ?? 0 };
  }

  /** All of the graph on screen. */
  fit(): void {
    if (this.scene) {
      this.moveTo(camera => camera.fit(this.scene?.bounds as Box, MARGIN, FOOTER));
    }
  }

  zoomBy(factor: number): void {
    this.moveTo(camera => camera.zoomAt(camera.width / 2, camera.height / 2, factor));
  }

  panBy(dx: number, dy: number): void {
    this.touch();
    this.camera.pan(dx, dy);
    this.request();
  }

  /** Brings a node or leaf into view, large enough to be read. */
  reveal(seq: number): void {
    const box = this.scene?.boxOf(seq);
    if (!box) {
      return;
    }
    this.moveTo(camera => {
      if (camera.k < LEGIBLE) {
        camera.k = READING;
        camera.centre(box.x + box.width / 2, box.y + box.height / 2);
      } else {
        this.revealWithLine(camera, seq, box);
      }
    });
  }

  /** A picture of the whole graph where it stays legible, otherwise of what is on screen. */
  picture(): Promise<Blob | null> {
    const largest = 6000;
    const bounds = this.scene?.bounds ?? { x: 0, y: 0, width: 1, height: 1 };
    const camera = new Camera();
    const scale = Math.min(2, largest / (bounds.width + 60), largest / (bounds.height + 60));
    if (scale >= LEGIBLE) {
      camera.k = 1;
      camera.width = bounds.width + 60;
      camera.height = bounds.height + 60;
      camera.x = camera.y = 30;
    } else {
      Object.assign(camera, this.camera);
    }
    const ratio = scale >= LEGIBLE ? scale : 2;
    const canvas = this.canvas.ownerDocument.createElement('canvas');
    canvas.width = Math.round(camera.width * ratio);
    canvas.height = Math.round(camera.height * ratio);
    const ctx = canvas.getContext('2d', { alpha: false });
    if (!ctx) {
      return Promise.resolve(null);
    }
    const { palette, scene, states, model } = this;
    const labels = new Labels(ctx);
    paint(ctx, {
      scene,
      states,
      store: model.store,
      camera,
      palette,
      labels,
      ratio,
      selected: this.selected,
      selectedBox: this.selectedBox,
      over: null,
      hits: new Set(),
      hitBoxes: new Set()
    });
    return new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
  }

  /** Where a node (or what hides it) stands on the page; null while it is not laid out. */
  placeOf(seq: number): DOMRect | null {
    const box = this.laying || this.wanted || this.glide ? null : this.scene?.boxOf(seq);
    if (!box) {
      return null;
    }
    const { camera } = this;
    const { x, y } = this.canvas.getBoundingClientRect();
    const [left, top] = [x + camera.screenX(box.x), y + camera.screenY(box.y)];
    return new DOMRect(left, top, box.width * camera.k, box.height * camera.k);
  }

  /** All of the graph as SVG, at its own size; null while there is none. */
  svg(): string | null {
    const { palette, scene, states, model, selected, selectedBox } = this;
    if (!scene) {
      return null;
    }
    const camera = new Camera();
    camera.k = 1;
    camera.x = camera.y = PICTURE_MARGIN;
    camera.width = scene.bounds.width + 2 * PICTURE_MARGIN;
    camera.height = scene.bounds.height + 2 * PICTURE_MARGIN;
    const context = new SvgContext(camera.width, camera.height);
    paint(context.asCanvas, {
      scene,
      states,
      store: model.store,
      camera,
      palette,
      // Widths are measured where they are known: on the canvas.
      labels: new Labels(this.ctx),
      ratio: 1,
      selected,
      selectedBox,
      over: null,
      hits: new Set(),
      hitBoxes: new Set()
    });
    return context.text;
  }

  private async lay(): Promise<void> {
    if (this.laying || !this.wanted) {
      return;
    }
    this.laying = true;
    const job = this.wanted;
    const { graph } = job;
    const start = performance.now();
    if (graph.seqs.length > 5000) this.events.settled(true);
    const before = this.placesBefore(graph);
    const layout = await this.runner.run(layoutInput(this.model.store, graph, before));
    this.laying = false;
    if (!layout || this.ending.signal.aborted) {
      return;
    }
    this.stats.layoutMs = performance.now() - start;
    const scene = new Scene(this.model.store, graph, layout);
    const old = this.scene;
    this.scene = scene;
    this.states = this.wanted?.graph === graph ? this.wanted.states : job.states;
    if (this.wanted?.graph === graph) this.wanted = null;
    if (!old || !this.anchor(old, scene)) this.home();
    this.events.settled(false);
    this.follow();
    this.request();
    if (this.wanted) void this.lay();
  }

  private placesBefore(graph: View): Float64Array | null {
    const old = this.scene;
    if (!old) {
      return null;
    }
    let known = 0;
    const x = Float64Array.from(graph.seqs, seq => {
      const index = old.graph.indexOf.get(seq);
      if (index < 0) return NaN;
      known++;
      return old.layout.x[index];
    });
    return known > 0 ? x : null;
  }

  /**
   * Moves the camera so that a node known to both scenes stays under the reader's eye; false when
   * there is none.
   */
  private anchor(old: Scene, scene: Scene): boolean {
    const { camera } = this;
    const { view } = camera;
    const [cx, cy] = [view.x + view.width / 2, view.y + view.height / 2];
    const known = (seq: number | null): seq is number =>
      seq !== null && old.boxOf(seq) !== null && scene.boxOf(seq) !== null;
    let anchor = known(this.held) ? this.held : known(this.selected) ? this.selected : null;
    this.held = null;
    if (anchor === null) {
      let nearest = Infinity;
      let tried = 0;
      old.nodes.within(view, index => {
        if (tried++ > 400) return;
        const seq = old.graph.seqs[index];
        const distance = Math.hypot(old.layout.x[index] - cx, old.layout.y[index] - cy);
        if (distance < nearest && scene.graph.indexOf.has(seq)) {
          nearest = distance;
          anchor = seq;
        }
      });
    }
    const from = anchor === null ? null : old.boxOf(anchor);
    const to = anchor === null ? null : scene.boxOf(anchor);
    if (!from || !to) {
      return false;
    }
    camera.pan((from.x - to.x) * camera.k, (from.y - to.y) * camera.k);
    return true;
  }

  /** The first view: all of it where that can be read, otherwise its beginning. */
  private home(): void {
    const { camera, scene } = this;
    if (!scene) {
      return;
    }
    this.glide = null;
    this.pristine = true;
    camera.fit(scene.bounds, MARGIN, FOOTER);
    if (camera.k < LEGIBLE) {
      const { width } = scene.layout;
      camera.k = Math.min(1, Math.max(READING, (camera.width - 48) / Math.max(1, width)));
      const fits = width * camera.k <= camera.width;
      const root = scene.boxOf(scene.graph.seqs[0]) ?? scene.bounds;
      camera.x = fits
        ? (camera.width - width * camera.k) / 2
        : camera.width / 2 - (root.x + root.width / 2) * camera.k;
      camera.y = 20 - (fits ? 0 : Math.max(0, root.y - 60) * camera.k);
    } else {
      // Short graphs hang from the top, where reading begins.
      camera.y = Math.min(camera.y, MARGIN + 12);
    }
    this.shownNext = null;
  }

  /** Keeps the next node in view while the reader steps. */
  private follow(): void {
    const { scene, states } = this;
    const next = !scene
      ? null
      : states.next >= 0
        ? scene.graph.seqs[states.next]
        : states.nextLeaf >= 0
          ? states.nextLeaf
          : null;
    if (next === this.shownNext) {
      return;
    }
    this.shownNext = next;
    const box = next === null ? null : scene?.boxOf(next);
    if (box && performance.now() - this.touched > HANDS_OFF_MS) {
      this.moveTo(camera => this.revealWithLine(camera, next as number, box), false);
    }
  }

  /**
   * Shows the whole line that a node belongs to where there is room for it, in any case the node.
   */
  private revealWithLine(camera: Camera, seq: number, box: Box): void {
    if (this.inPlainView(box)) {
      return;
    }
    const frame = this.scene?.frameOf(seq);
    if (
      frame &&
      frame.width * camera.k < camera.width - 60 &&
      frame.height * camera.k < camera.height - 2 * MINIMAP
    ) {
      camera.reveal(frame, 24, MINIMAP);
    }
    camera.reveal(box, 72, MINIMAP);
  }

  /** Whether a box is on screen, away from the border and from the minimap. */
  private inPlainView({ x, y, width, height }: Box): boolean {
    const { camera, minimap } = this;
    const [left, top] = [camera.screenX(x), camera.screenY(y)];
    const [right, bottom] = [camera.screenX(x + width), camera.screenY(y + height)];
    const shown = left >= 8 && top >= 8 && right <= camera.width - 8 && bottom <= camera.height - 8;
    const corner = minimap.parentElement?.dataset.needed === 'yes';
    const under =
      corner &&
      right > camera.width - minimap.clientWidth - 20 &&
      bottom > camera.height - minimap.clientHeight - 20;
    return shown && !under;
  }

  /** The closed container that a node is drawn as. */
  private foldOf(seq: number): Container | null {
    const box = this.scene?.graph.indexOf.get(seq) ?? -1;
    return box < 0 ? null : (this.scene?.fold(box) ?? null);
  }

  /** Changes what is open; the container's first node stays under the reader's eye. */
  hold(container: Container | null, change: () => void): void {
    this.touch();
    this.held = container ? this.model.graph.seqs[container.first] : null;
    change();
  }

  private touch(): void {
    this.touched = performance.now();
    this.pristine = false;
    this.glide = null;
  }

  private moveTo(change: (camera: Camera) => void, byReader = true): void {
    const { camera } = this;
    if (byReader) {
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

  private request(): void {
    if (!this.frame) this.frame = requestAnimationFrame(now => this.draw(now));
  }

  private draw(now: number): void {
    this.frame = 0;
    if (this.ending.signal.aborted || this.camera.width < 2) {
      return;
    }
    const start = performance.now();
    const { camera, scene, states, palette, labels, model } = this;
    if (this.glide) {
      const { from, to, start: began } = this.glide;
      const part = Math.min(1, Math.max(0, (now - began) / GLIDE_MS));
      const eased = 1 - (1 - part) ** 3;
      [camera.x, camera.y, camera.k] = from.map((value, i) => value + (to[i] - value) * eased);
      if (part < 1) this.request();
      else this.glide = null;
    }
    if (scene) camera.hold(scene.bounds);
    const { ratio, selected, selectedBox, over, hits, hitBoxes } = this;
    const frame = {
      scene,
      states,
      store: model.store,
      camera,
      palette,
      labels,
      ratio,
      selected,
      selectedBox,
      over,
      hits,
      hitBoxes
    };
    this.stats.nodesDrawn = paint(this.ctx, frame);
    this.drawMinimap();
    this.stats.lastMs = performance.now() - start;
    this.framesMs[this.stats.frames++ % REMEMBERED_FRAMES] = this.stats.lastMs;
    if (this.stats.firstPaint === 0 && this.stats.nodesDrawn > 0) {
      this.stats.firstPaint = performance.now();
      performance.mark('agv:first-paint');
    }
  }

  private drawMinimap(): void {
    const { minimap, scene, camera } = this;
    const ctx = minimap.getContext('2d');
    const view = camera.view;
    const whole =
      !scene ||
      (view.x <= 0 &&
        view.y <= 0 &&
        view.x + view.width >= scene.layout.width &&
        view.y + view.height >= scene.layout.height);
    const parent = minimap.parentElement;
    if (parent) parent.dataset.needed = whole ? 'no' : 'yes';
    if (!ctx || !scene || whole || minimap.clientWidth === 0) {
      return;
    }
    const [width, height] = [minimap.clientWidth, minimap.clientHeight];
    if (minimap.width !== Math.round(width * this.ratio)) {
      minimap.width = Math.round(width * this.ratio);
      minimap.height = Math.round(height * this.ratio);
    }
    paintMinimap(ctx, scene, this.states, camera, this.palette, width, height, this.ratio);
  }

  private resize(): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width === 0 || height === 0) {
      // Hidden behind another panel: the view is kept for its return.
      return;
    }
    const ratio = window.devicePixelRatio || 1;
    const { camera, canvas } = this;
    const first = camera.width <= 1;
    if (camera.width === width && camera.height === height && this.ratio === ratio) {
      return;
    }
    // What was in the middle stays in the middle.
    const [cx, cy] = [camera.worldX(camera.width / 2), camera.worldY(camera.height / 2)];
    camera.width = width;
    camera.height = height;
    this.ratio = ratio;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (first || this.pristine) {
      this.home();
      this.follow();
    } else {
      camera.centre(cx, cy);
    }
    // A resized canvas is empty until it is painted: not a frame later.
    cancelAnimationFrame(this.frame);
    this.draw(performance.now());
  }

  private listen(wheel: GraphOptions['wheel']): void {
    const { canvas, minimap, camera, events, host } = this;
    const focused = (): boolean => {
      const root = host.getRootNode() as Document | ShadowRoot;
      return host.contains(root.activeElement);
    };
    listen(
      {
        canvas,
        minimap,
        wheels: () => wheel === 'always' || focused(),
        at: (x, y) => {
          const hit = this.scene?.hit(camera.worldX(x), camera.worldY(y));
          return hit && this.scene ? this.scene.seqOf(hit) : null;
        },
        over: seq => {
          if (seq !== this.over) {
            this.over = seq;
            this.request();
          }
        },
        press: (x, y) => {
          const container = this.scene?.control(camera.worldX(x), camera.worldY(y));
          if (container) this.hold(container, () => events.fold(container, false));
          return container !== undefined && container !== null;
        },
        select: seq => {
          const fold = seq === null ? null : this.foldOf(seq);
          if (fold) events.choose(fold);
          else events.select(seq);
        },
        open: seq => {
          const fold = this.foldOf(seq);
          if (fold) this.hold(fold, () => events.fold(fold, true));
          else events.open(seq);
        },
        pan: (dx, dy) => this.panBy(dx, dy),
        zoom: (x, y, factor) => {
          this.touch();
          camera.zoomAt(x, y, factor);
          this.request();
        },
        jump: (mapX, mapY) => {
          if (this.scene) {
            const { clientWidth, clientHeight } = minimap;
            const { sx, sy, x, y } = minimapScale(this.scene, clientWidth, clientHeight);
            this.touch();
            camera.centre((mapX - x) / sx, (mapY - y) / sy);
            this.request();
          }
        }
      },
      this.ending.signal
    );
  }
}
