// A comparison that is on screen: its model, its two canvases, and whom to ask about a pair.

import { Cell } from '../../protocol/cell';
import type { NodeDetails, Values } from '../../protocol/schema';
import type { Disposable } from '../../protocol/signal';
import type { Difference } from '../../model/compare/differences';
import type { Which } from '../../model/compare/model';
import type { Drawing } from '../../model/drawing';
import { CompareModel } from '../../model/compare/model';
import type { Source } from '../../model/compare/side';
import type { GraphCanvas } from '../../draw/graph_canvas';
import { Linked } from '../../draw/linked';
import { Turning } from '../../draw/turning';
import type { Answer } from '../answers';
import type { Presenter } from '../presenter';

const NOT_KEPT: { kind: 'none'; why: string } = { kind: 'none', why: '' };

export class Comparing implements Disposable {
  readonly model: CompareModel;
  /** the graph that is seen where there is room for one */
  readonly shown = new Cell<Which>('b');
  /** both graphs lead the same way */
  readonly turning: Turning;
  readonly canvases: { a: GraphCanvas | null; b: GraphCanvas | null } = { a: null, b: null };
  private linked: Linked | null = null;
  private together = true;
  private readonly connections: Disposable[];

  constructor(
    private readonly presenter: Presenter,
    a: Source,
    b: Source
  ) {
    this.model = new CompareModel(a, b);
    this.turning = new Turning([this.model.a, this.model.b]);
    this.dress();
    this.connections = [
      this.model.changed.connect(() => this.redraw()),
      presenter.model.changed.connect(() => this.follow())
    ];
  }

  get drawing(): Drawing {
    return this.presenter.model.drawing;
  }

  /** Changes how the reader wants graphs drawn, these and the one behind them. */
  draw(drawing: Partial<Drawing>): void {
    this.presenter.draw(drawing);
  }

  /** Both sides are drawn as the reader wants graphs drawn; true when that was another way. */
  private dress(): boolean {
    const { drawing } = this;
    const { a, b } = this.model;
    const other = a.drawing !== drawing;
    a.drawing = b.drawing = drawing;
    return other;
  }

  /** What was recorded grew: a pass may have gone on, or left to make room. */
  private follow(): void {
    if (this.dress()) this.redraw();
    this.model.update();
    if (this.model.a.graph.seqs.length === 0 || this.model.b.graph.seqs.length === 0) {
      this.close();
      this.presenter.notify('info', 'A backward pass that was compared is no longer kept.');
    }
  }

  close(): void {
    this.presenter.compare(null);
  }

  dispose(): void {
    for (const connection of this.connections) connection.dispose();
    this.shown.dispose();
  }

  get linkedTogether(): boolean {
    return this.together;
  }

  link(on: boolean): void {
    this.together = on;
    if (this.linked) this.linked.on = on;
    if (on) this.linked?.moved('b');
    this.presenter.show();
  }

  /** A canvas came or went. */
  attach(side: Which, canvas: GraphCanvas | null): void {
    this.canvases[side] = canvas;
    const { a, b } = this.canvases;
    this.linked = a && b ? new Linked(a, b, () => this.pairs()) : null;
    if (this.linked) this.linked.on = this.together;
    canvas?.update();
    const { selected } = this.model[side];
    if (canvas && selected !== null) this.reveal(side, selected);
  }

  turned(side: Which): void {
    this.canvases[side === 'a' ? 'b' : 'a']?.update();
  }

  moved(side: Which): void {
    this.linked?.moved(side);
  }

  private *pairs(): Iterable<readonly [number, number]> {
    const { a, b, comparison } = this.model;
    const { ofA } = comparison.matching;
    for (let i = 0; i < ofA.length; i++) {
      if (ofA[i] >= 0) yield [a.graph.seqs[i], b.graph.seqs[ofA[i]]];
    }
  }

  private redraw(): void {
    this.canvases.a?.update();
    this.canvases.b?.update();
    this.presenter.show();
  }

  choose(difference: Difference): void {
    const { side, seq } = this.model.choose(difference);
    this.shown.set(side);
    this.reveal(side, seq);
  }

  step(direction: 1 | -1): void {
    const next = this.model.neighbour(direction);
    if (next) this.choose(next);
  }

  select(side: Which, seq: number | null): void {
    this.model.select(side, seq);
    if (seq !== null && !this.together) {
      const other = side === 'a' ? 'b' : 'a';
      const partner = this.model[other].selected;
      if (partner !== null) this.canvases[other]?.reveal(partner);
    }
  }

  private reveal(side: Which, seq: number): void {
    const { graph } = this.model[side];
    // A leaf is shown with the node that uses it.
    const user = graph.leafUses.get(seq)?.[0];
    this.canvases[side]?.reveal(user === undefined ? seq : graph.seqs[user]);
    const other = side === 'a' ? 'b' : 'a';
    const partner = this.model[other].selected;
    if (!this.together && partner !== null) this.canvases[other]?.reveal(partner);
  }

  fit(): void {
    this.canvases.b?.fit();
    if (!this.together) this.canvases.a?.fit();
  }

  zoomBy(factor: number): void {
    this.canvases.b?.zoomBy(factor);
    if (!this.together) this.canvases.a?.zoomBy(factor);
  }

  panBy(dx: number, dy: number): void {
    this.canvases.b?.panBy(dx, dy);
    if (!this.together) this.canvases.a?.panBy(dx, dy);
  }

  details(side: Which, seq: number): Answer<NodeDetails> {
    const { source } = this.model[side];
    if (!source.details) {
      return this.presenter.details(seq);
    }
    const value = source.details(seq);
    return value ? { kind: 'answer', value } : NOT_KEPT;
  }

  values(side: Which, seq: number, which: string): Answer<Values> {
    const { source } = this.model[side];
    if (!source.values) {
      return this.presenter.values(seq, which);
    }
    const value = source.values(seq, which);
    return value ? { kind: 'answer', value } : NOT_KEPT;
  }
}
