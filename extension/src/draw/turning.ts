// Where the edges of graphs lead for which that is chosen: to the side or down, whichever shows
// more at once. Graphs that are drawn beside each other share one, so that they are turned alike.

import type { InspectorModel } from '../model/inspector';
import { extentOf, readable } from '../layout/extent';
import type { Size } from '../layout/extent';
import { layoutInput } from '../layout/input';
import { LEGIBLE, READING } from './viewpoint';

/** So many times better the other direction must be for a graph to be turned by itself. */
const STAYS = 1.25;

type Drawn = Pick<InspectorModel, 'store' | 'graph' | 'view'>;

export class Turning {
  /** edges lead to the side */
  across = false;
  private signature = '';
  private room = '';

  constructor(private readonly graphs: readonly Drawn[]) {}

  /** The next graph is the first. */
  forget(): void {
    this.across = false;
    this.signature = this.room = '';
  }

  /**
   * Chooses again when there is another graph, or another room; whether that turned them. What
   * opens and closes in a graph is no reason: a click on a node would turn it.
   */
  choose(view: Size, room: string): boolean {
    const { graphs, across } = this;
    const signature = graphs.map(({ graph }) => graph.signature).join();
    const same = this.signature === signature && this.room === room;
    if (same || view.width <= 1 || graphs.every(graph => graph.view.seqs.length === 0)) {
      return false;
    }
    const [down, right] = [false, true].map(across =>
      graphs.reduce((sum, { store, view: drawn }) => {
        const input = layoutInput(store, drawn, null, false, across);
        return sum + readable(extentOf(input), view, LEGIBLE, READING);
      }, 0)
    );
    const first = this.signature === '';
    this.across = across ? right * STAYS >= down : right > down * (first ? 1 : STAYS);
    this.signature = signature;
    this.room = room;
    return this.across !== across;
  }
}
