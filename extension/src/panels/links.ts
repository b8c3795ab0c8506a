// One selection for graph and notebook: tells the host which lines made nodes and which expressions
// the chosen node or problem speaks of; takes the lines that the user asks for.

import type { LineMark, PlaceMark } from '../protocol/controller';
import type { Problem } from '../protocol/schema';
import type { Disposable } from '../protocol/signal';
import type { Graph } from '../model/graph';
import { bytesText } from '../model/format';
import { heatMarks, lineCosts } from '../model/profile/heat';
import { lengthText } from '../draw/profile/view';
import type { Presenter } from './presenter';
import type { OpenProfile } from './profile/timing';

const CALM_MS = 300;
const SAYS = { time: lengthText, bytes: bytesText };

/** The places of a problem: who saved, who wrote since. */
export function placesOf(problem: Problem): PlaceMark[] {
  const places: PlaceMark[] = [];
  const { saved, writes, where } = problem;
  if (saved?.site) {
    const what = problem.kind === 'second-backward' ? 'made here' : `saved here, v${saved.version}`;
    places.push({ site: saved.site, kind: 'saved', says: what });
  }
  for (const { site, version, op } of writes) {
    if (site) places.push({ site, kind: 'written', says: `written here by ${op}, v${version}` });
  }
  if (problem.made) {
    places.push({ site: problem.made, kind: 'saved', says: 'made here' });
  }
  const failed = problem.kind !== 'silent' && where && writes.length === 0;
  if (failed) places.push({ site: where, kind: 'written', says: 'failed here' });
  return places;
}

export class Links implements Disposable {
  private readonly connections: Disposable[];
  private marked: Graph | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private placed = '';
  /** whose lines' heat is shown */
  private hot: OpenProfile | null = null;
  private heating: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly presenter: Presenter) {
    const { onLine } = presenter.controller;
    const { drawing, tab, sideOpen, problem } = presenter;
    this.connections = [drawing, tab, sideOpen, problem].map(cell => ({
      dispose: cell.subscribe(() => this.update())
    }));
    const { shown, state } = presenter.timing;
    this.connections.push(
      ...[shown, state].map(cell => ({ dispose: cell.subscribe(() => this.warm()) }))
    );
    if (onLine) {
      this.connections.push(onLine.connect(({ cell, line }) => this.choose(cell, line)));
    }
    this.update();
  }

  dispose(): void {
    clearTimeout(this.timer);
    for (const connection of this.connections) connection.dispose();
    clearTimeout(this.heating);
    this.presenter.controller.markLines?.([]);
    this.presenter.controller.markHeat?.([]);
    this.presenter.controller.markPlaces?.([]);
  }

  /** Selects the nodes of a line; asked again, the next of them. */
  private choose(cell: string, line: number): void {
    const { presenter } = this;
    const { model } = presenter;
    if (presenter.timing.shown.value && presenter.timing.goToLine(cell, line)) {
      return;
    }
    const seqs = model.lines.of(cell, line);
    if (seqs.length === 0) {
      return;
    }
    const at = model.selected === null ? -1 : seqs.indexOf(model.selected);
    model.ring(seqs);
    if (presenter.tab.value === 'problems') presenter.tab.set('node');
    presenter.goTo(seqs[(at + 1) % seqs.length]);
  }

  private update(): void {
    const { controller, model } = this.presenter;
    if (controller.markLines && this.marked !== model.graph && this.timer === undefined) {
      this.markLines();
      // A training that is recorded makes graphs faster than a reader can look at lines.
      this.timer = setTimeout(() => {
        this.timer = undefined;
        this.update();
      }, CALM_MS);
    }
    if (controller.markPlaces) {
      const places = this.places();
      const key = JSON.stringify(places);
      if (key !== this.placed) {
        this.placed = key;
        controller.markPlaces(places);
      }
    }
  }

  /** What lines cost is shown while the Time mode is; of a profile that grows, calmly. */
  private warm(): void {
    const { controller, timing } = this.presenter;
    const open = timing.shown.value ? timing.open : null;
    const known = open?.profile === this.hot?.profile;
    if (!controller.markHeat || known || this.heating !== undefined) {
      return;
    }
    this.hot = open;
    controller.markHeat(open ? heatMarks(lineCosts(open.profile), SAYS) : []);
    this.heating = setTimeout(() => {
      this.heating = undefined;
      this.warm();
    }, CALM_MS);
  }

  private markLines(): void {
    const { controller, model } = this.presenter;
    this.marked = model.graph;
    controller.markLines?.(
      model.lines.all.map(({ seqs, ...line }): LineMark => ({ ...line, nodes: seqs.length }))
    );
  }

  private places(): PlaceMark[] {
    const { presenter } = this;
    const { model, tab, sideOpen } = presenter;
    const problem =
      tab.value === 'problems' && sideOpen.value ? presenter.shownProblem() : null;
    if (problem) {
      return placesOf(problem);
    }
    const { selected } = model;
    const site = selected === null ? null : model.siteOf(selected);
    return site && selected !== null
      ? [{ site, kind: 'selected', says: model.titleOf(selected) }]
      : [];
  }
}
