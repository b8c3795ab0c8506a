// The graph's canvas: keeps a scene for the graph that is wanted, a camera that stays where the
// reader looks, and paints when something changed. Pointer and wheel are read here; keys belong to
// the panel around it.

import type { Container } from '../model/container';
import type { Colouring } from '../model/colouring';
import { TOGETHER, valueText } from '../model/colouring';
import type { Marks } from '../model/compare/model';
import type { Drawing } from '../model/drawing';
import { plural } from '../model/format';
import type { InspectorModel } from '../model/inspector';
import type { States } from '../model/states';
import type { View } from '../model/view';
import { layoutInput } from '../layout/input';
import type { Layout } from '../layout/measures';
import { LayoutRunner } from '../layout/run';
import type { Box, Camera } from './camera';
import type { PaintStats } from './frame_times';
import { FrameTimes } from './frame_times';
import { listen } from './gestures';
import { Labels } from './labels';
import { drawMinimap, minimapScale } from './minimap';
import type { Palette } from './palette';
import { readPalette } from './palette';
import type { Frame } from './painter';
import { paint } from './painter';
import { bitmapOf, svgOf } from './pictures';
import { Scene } from './scene';
import { Turning } from './turning';
import { Viewpoint } from './viewpoint';

/** What a canvas needs of a model: the Inspector's own, or one side of a comparison. */
export type Drawable = Pick<
  InspectorModel,
  'store' | 'graph' | 'view' | 'drawn' | 'selected' | 'hits' | 'selectedBox'
> & {
  readonly cursor?: number | null;
  readonly pointed?: readonly number[];
  /** how its reader wants it drawn */
  readonly drawing: Drawing;
  readonly colouring?: Colouring | null;
};

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
  /** the reader moved the view; called once a frame */
  moved?(): void;
  /** edges lead another way than before; the graphs beside it follow */
  turned?(): void;
}

export interface GraphOptions {
  /** 'focused': the wheel belongs to the page around until the canvas has the focus */
  wheel: 'always' | 'focused';
  /** marks of a comparison for the view that is drawn */
  marks?: (view: View) => Marks;
  /** which way it leads, with the graphs beside it */
  turning?: Turning;
}

interface Wanted {
  graph: View;
  states: States;
}

/** Frames closer than this are one frame. */
const FRAME_MS = 12;

export class GraphCanvas {
  scene: Scene | null = null;
  private readonly viewpoint: Viewpoint;
  private readonly times = new FrameTimes();
  private readonly ctx: CanvasRenderingContext2D;
  private readonly labels: Labels;
  private readonly runner = new LayoutRunner();
  private readonly ending = new AbortController();
  private readonly resizing: ResizeObserver;
  private palette: Palette;
  private states: States;
  private wanted: Wanted | null = null;
  private laying = false;
  private selected: number | null = null;
  /** what was selected before that */
  private left: number | null = null;
  private over: number | null = null;
  private selectedBox = -1;
  private hits: ReadonlySet<number> = new Set();
  private hitBoxes: ReadonlySet<number> = new Set();
  /** to be brought into view as soon as it is laid out */
  private sought: number | null = null;
  private frame = 0;
  private drawn = -Infinity;
  private shownBefore = false;
  private ratio = 1;
  private top = 0;
  private readonly turning: Turning;

  constructor(
    private readonly model: Drawable,
    private readonly host: HTMLElement,
    private readonly canvas: HTMLCanvasElement,
    private readonly minimap: HTMLCanvasElement,
    private readonly events: GraphEvents,
    private readonly options: GraphOptions
  ) {
    const ctx = canvas.getContext('2d', { alpha: false });
    if (!ctx) {
      throw new Error('This browser gives no 2D canvas.');
    }
    this.ctx = ctx;
    this.labels = new Labels(ctx);
    this.turning = options.turning ?? new Turning([model]);
    this.viewpoint = new Viewpoint(
      () => this.overlays(),
      () => this.request()
    );
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
    this.choose();
    const { stubOf } = model.view;
    const drawnAs = (seq: number): number => stubOf.get(seq) ?? seq;
    const selected = model.selected === null ? null : drawnAs(model.selected);
    if (selected !== this.selected) this.left = this.selected;
    this.selected = selected;
    this.selectedBox = this.selected === model.selected ? model.selectedBox() : -1;
    if ((model.cursor ?? null) !== null) this.viewpoint.keep();
    this.hits = new Set([...model.hits, ...(model.pointed ?? [])].map(drawnAs));
    const { view: graph, drawn: states } = model;
    this.hitBoxes = new Set([...this.hits].map(seq => graph.indexOf.get(seq)));
    if (this.scene && this.current) {
      if (graph !== this.scene.graph) this.scene.adopt(graph);
      this.wanted = null;
      this.states = states;
      this.viewpoint.stay(this.scene);
      this.seek(this.scene);
      this.follow();
    } else if (graph.seqs.length === 0) {
      this.turning.forget();
      this.wanted = null;
      this.scene = null;
      this.states = states;
    } else {
      this.wanted = { graph, states };
      this.lay();
    }
    this.drawSoon();
  }

  /** A large graph may come: its layout should not have to wait for a worker's start. */
  warm(): void {
    this.runner.warm();
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

  get camera(): Camera {
    return this.viewpoint.camera;
  }

  get paintStats(): PaintStats {
    return this.times.stats;
  }

  /** All of the graph on screen. */
  fit(): void {
    if (this.scene) this.viewpoint.fit(this.scene);
  }

  zoomBy(factor: number): void {
    this.viewpoint.zoomBy(factor);
  }

  panBy(dx: number, dy: number): void {
    this.viewpoint.move(camera => camera.pan(dx, dy));
  }

  /** Brings a node or leaf into view where it stands in what is wanted, large enough to be read. */
  reveal(seq: number): void {
    if (!this.current) this.sought = seq;
    else if (this.scene) this.viewpoint.reveal(this.scene, seq);
  }

  /** What the reader presses stays where it is while other parts make room. */
  press(): void {
    this.viewpoint.press();
  }

  /** Changes what is open; the container's first node stays under the reader's eye. */
  hold(container: Container, change: () => void): void {
    this.viewpoint.hold(this.model.graph.seqs[container.first]);
    change();
  }

  /** Changes what is open everywhere: the graph is shown as at first. */
  anew(change: () => void): void {
    this.viewpoint.startAnew();
    change();
  }

  /** Height at which `around`, which this canvas stands in, shows all of the graph; 0: unknown. */
  roomNeeded(around: HTMLElement): number {
    const { scene, host } = this;
    const needed = scene ? this.viewpoint.heightFor(scene) : 0;
    return needed > 0 ? around.clientHeight - host.clientHeight + needed : 0;
  }

  /** A picture of the whole graph where it stays legible, otherwise of what is on screen. */
  picture(): Promise<Blob | null> {
    return bitmapOf(this.shown, this.canvas.ownerDocument);
  }

  /** All of the graph as SVG, at its own size; null while there is none. */
  svg(): string | null {
    return svgOf(this.shown, this.ctx);
  }

  /** Where a node (or what hides it) stands on the page; null while it is not laid out. */
  placeOf(seq: number): DOMRect | null {
    const still = !this.laying && !this.wanted && !this.viewpoint.gliding;
    const box = still ? this.scene?.boxOf(seq) : null;
    if (!box) {
      return null;
    }
    const { camera } = this;
    const { x, y } = this.canvas.getBoundingClientRect();
    const [left, top] = [x + camera.screenX(box.x), y + camera.screenY(box.y)];
    return new DOMRect(left, top, box.width * camera.k, box.height * camera.k);
  }

  /** Lays out what is wanted: at once where that is quick, so that the next frame shows it. */
  private lay(): void {
    if (this.laying || !this.wanted) {
      return;
    }
    const job = this.wanted;
    const start = performance.now();
    const input = layoutInput(
      this.model.store,
      job.graph,
      this.placesBefore(job.graph),
      this.drawing.upward,
      this.across
    );
    const layout = this.runner.atOnce(input);
    if (layout) {
      this.adopt(job, layout, start);
      return;
    }
    this.laying = true;
    this.events.settled(true);
    void this.runner.run(input).then(later => {
      this.laying = false;
      if (later && !this.ending.signal.aborted) {
        this.adopt(job, later, start);
        this.events.settled(false);
        this.drawSoon();
        this.lay();
      }
    });
  }

  private adopt({ graph, states }: Wanted, layout: Layout, start: number): void {
    this.times.layoutMs = performance.now() - start;
    const scene = new Scene(this.model.store, graph, layout);
    const old = this.scene;
    this.scene = scene;
    this.states = this.wanted?.graph === graph ? this.wanted.states : states;
    if (this.wanted?.graph === graph) this.wanted = null;
    const turned =
      old !== null &&
      (old.layout.upward !== layout.upward || old.layout.across !== layout.across);
    this.viewpoint.adopt(turned ? null : old, scene, this.selected, this.left);
    if (turned) this.sought ??= this.selected;
    if (this.current) this.seek(scene);
    this.follow();
  }

  /** Whether the scene is of what the model shows now: nothing is to be laid out. */
  private get current(): boolean {
    const { scene, model } = this;
    return (
      scene?.layout.upward === this.drawing.upward &&
      scene.layout.across === this.across &&
      scene.graph.signature === model.view.signature
    );
  }

  private get drawing(): Drawing {
    return this.model.drawing;
  }

  /** Edges lead to the side now. */
  get across(): boolean {
    const { direction } = this.drawing;
    return direction === 'auto' ? this.turning.across : direction === 'right';
  }

  private choose(): void {
    if (this.drawing.direction !== 'auto') {
      return;
    }
    const { host, camera } = this;
    const { clientWidth, clientHeight } = host.closest<HTMLElement>('.agv-root') ?? host;
    if (this.turning.choose(camera, `${clientWidth} ${clientHeight}`)) this.events.turned?.();
  }

  /** Goes to what was to be shown before it had a place. */
  private seek(scene: Scene): void {
    if (this.sought !== null) this.viewpoint.reveal(scene, this.sought);
    this.sought = null;
  }

  private placesBefore(graph: View): Float64Array | null {
    const old = this.scene;
    if (!old || old.layout.across !== this.across) {
      return null;
    }
    let known = 0;
    const x = Float64Array.from(graph.seqs, seq => {
      const index = old.graph.indexOf.get(seq);
      if (index < 0) return NaN;
      known++;
      return (old.layout.across ? old.layout.y : old.layout.x)[index];
    });
    return known > 0 ? x : null;
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
    this.viewpoint.follow(scene, next);
  }

  /** The closed container that a node is drawn as. */
  private foldOf(seq: number): Container | null {
    const box = this.scene?.graph.indexOf.get(seq) ?? -1;
    return box < 0 ? null : (this.scene?.fold(box) ?? null);
  }

  /** What a closed group's colour stands for. */
  private tip(seq: number): string {
    const { colouring, scene } = this;
    const fold = this.foldOf(seq);
    if (!colouring || !fold || !scene) {
      return '';
    }
    const value = valueText(colouring, scene.graph.indexOf.get(seq)) || 'nothing yet';
    return `${value}: ${TOGETHER[colouring.by]} of ${plural(fold.nodes, 'node')}`;
  }

  private request(): void {
    if (!this.frame) this.frame = requestAnimationFrame(now => this.draw(now));
  }

  /** Draws into the frame that comes next instead of the one after it, unless that is drawn. */
  private drawSoon(): void {
    const now = performance.now();
    // With the first graph come panels that take room from it: a frame of its own is drawn in vain.
    if (!this.shownBefore || now - this.drawn < FRAME_MS) {
      this.request();
    } else {
      cancelAnimationFrame(this.frame);
      this.draw(now);
    }
  }

  private draw(now: number): void {
    this.frame = 0;
    if (this.ending.signal.aborted || this.camera.width < 2) {
      return;
    }
    if (this.scene && !this.shownBefore) {
      this.shownBefore = true;
      this.measure();
    }
    const start = performance.now();
    this.viewpoint.advance(now, this.scene);
    if (this.viewpoint.takeMove()) this.events.moved?.();
    const frame = this.shown;
    const drawn = paint(this.ctx, frame);
    drawMinimap(this.minimap, frame);
    this.drawn = performance.now();
    this.times.painted(start, frame, drawn);
  }

  /** What a frame shows now. */
  private get shown(): Frame {
    const { scene, states, camera, palette, labels, model, ratio } = this;
    const { selected, selectedBox, over, hits, hitBoxes } = this;
    return {
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
      hitBoxes,
      marks: this.marks,
      colouring: this.colouring
    };
  }

  /** Of the graph that is drawn, which may be an older one than the model's. */
  private get colouring(): Colouring | null {
    const { colouring = null } = this.model;
    const boxes = this.scene?.graph.seqs.length ?? 0;
    return colouring?.level.length === boxes && this.current ? colouring : null;
  }

  private get marks(): Marks | null {
    return this.scene ? (this.options.marks?.(this.scene.graph) ?? null) : null;
  }

  /** What the page lays over the canvas now, in the canvas's pixels. */
  private overlays(): Box[] {
    const { x, y } = this.host.getBoundingClientRect();
    const found: Box[] = [];
    for (const element of this.host.querySelectorAll<HTMLElement>('[data-agv-over]')) {
      const { left, top, width, height } = element.getBoundingClientRect();
      if (width > 0 && element.dataset.needed !== 'no')
        found.push({ x: left - x, y: top - y, width, height });
    }
    return found;
  }

  /** Shows the same place as another canvas: this point of the graph in the middle, this zoom. */
  goAlong(x: number, y: number, k: number): void {
    this.viewpoint.goAlong(x, y, k);
  }

  private resize(): void {
    if (this.measure()) {
      if (this.scene) {
        this.choose();
        if (!this.current) this.update();
      }
      // A resized canvas is empty until it is painted: not a frame later.
      cancelAnimationFrame(this.frame);
      this.draw(performance.now());
    }
  }

  /** Gives the canvas the size that its host has; true when it had another. */
  private measure(): boolean {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width === 0 || height === 0) {
      // Hidden behind another panel: the view is kept for its return.
      return false;
    }
    const ratio = window.devicePixelRatio || 1;
    const { camera, canvas } = this;
    if (camera.width === width && camera.height === height && this.ratio === ratio) {
      return false;
    }
    this.ratio = ratio;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const lowered = this.host.offsetTop - this.top;
    this.top = this.host.offsetTop;
    this.viewpoint.resize(width, height, lowered, this.scene);
    this.follow();
    return true;
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
            canvas.title = seq === null ? '' : this.tip(seq);
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
          this.viewpoint.move(() => camera.zoomAt(x, y, factor));
        },
        jump: (mapX, mapY) => {
          if (this.scene) {
            const { clientWidth, clientHeight } = minimap;
            const { sx, sy, x, y } = minimapScale(this.scene, clientWidth, clientHeight);
            this.viewpoint.move(() => camera.centre((mapX - x) / sx, (mapY - y) / sy));
          }
        }
      },
      this.ending.signal
    );
  }
}
