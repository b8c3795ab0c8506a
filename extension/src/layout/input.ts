// What the layout needs to know of a graph: sizes from names and labels, estimated without a DOM.

import { shapeText } from '../model/format';
import type { Store } from '../model/store';
import type { View } from '../model/view';
import { TURNED, headerOf } from '../model/view';
import type { LayoutInput } from './measures';
import { NODE_HEIGHT, SIDE_GAP, BADGE_HEIGHT, BADGE_PITCH } from './measures';
import { UNDER_CHIPS, UNDER_GAP, UNDER_INDENT } from './measures';

const NARROWEST = 186;
const WIDEST = 248;
const HEADER_WIDEST = 420;
/** Room for chips beside a node that saved its own output. */
const CHIP_ROOM = 122;
/** Room for a graph break and its chip. */
const BREAK_ROOM = 158;
/**
 * A frame is at least so much wider than a node: frames line up, and chips of any node find room.
 */
const FRAME_ROOM = 150;
/** So much wider than a node a frame may be for its header where frames stand beside each other. */
const ACROSS_FRAME_ROOM = 60;

/** Width of a parameter badge with this label and shape. */
export function badgeWidth(label: string, shape: string): number {
  const wide = 54 + 8.4 * Math.min(label.length, 16) + 6.6 * Math.min(shape.length, 18);
  return Math.round(Math.min(220, Math.max(64, wide)));
}

/** Text of a badge: the variable's name and its shape; known: as in `badgeKnown`. */
export function badgeTexts(
  store: Store,
  seq: number,
  known: number
): { label: string; shape: string } {
  if (known === 0) {
    return { label: 'not recorded', shape: '' };
  }
  const row = store.leafRow.get(seq);
  const shape = row < 0 ? '' : shapeText(store.string(store.leaves.at.shape[row]));
  return { label: (store.label(seq) || 'leaf') + (known === TURNED ? ' ᵀ' : ''), shape };
}

export function layoutInput(
  store: Store,
  graph: View,
  before: Float64Array | null,
  upward = false,
  across = false
): LayoutInput {
  const count = graph.seqs.length;
  const nameWidth = new Map<number, number>();
  let longest = 0;
  for (let i = 0; i < count; i++) {
    const id = store.nodes.at.name[store.nodeRow.get(graph.seqs[i])];
    if (!nameWidth.has(id)) {
      nameWidth.set(id, store.string(id).length);
      longest = Math.max(longest, store.string(id).length);
    }
    const fold = graph.folds[i];
    if (fold) longest = Math.max(longest, fold.title.length);
  }
  const nodeWidth = Math.round(Math.min(WIDEST, Math.max(NARROWEST, 48 + 8.1 * longest)));

  const boxWidth = new Float32Array(count);
  const boxHeight = new Float32Array(count);
  const badgeWidths = new Map<number, number>();
  for (let i = 0; i < count; i++) {
    const badges = graph.badgeStart[i + 1] - graph.badgeStart[i];
    let widest = 0;
    for (let s = graph.badgeStart[i]; s < graph.badgeStart[i + 1]; s++) {
      const [seq, known] = [graph.badgeSeq[s], graph.badgeKnown[s]];
      const key = 4 * seq + known;
      let width = badgeWidths.get(key);
      if (width === undefined) {
        const { label, shape } = badgeTexts(store, seq, known);
        width = badgeWidth(label, shape);
        badgeWidths.set(key, width);
      }
      widest = Math.max(widest, width);
    }
    let own = false;
    for (
      let row = store.savedOf.newest(graph.seqs[i]);
      row !== -1;
      row = store.savedOf.before(row)
    ) {
      own = own || (store.saved.at.flags[row] & 1) !== 0;
    }
    const detached = store.breaksOf.newest(graph.seqs[i]) !== -1 && !graph.folds[i];
    if (across) {
      const under = badges > 0 ? UNDER_GAP + badges * BADGE_PITCH : 0;
      const chips = badges === 0 && (own || detached) ? UNDER_CHIPS : 0;
      boxWidth[i] = Math.max(nodeWidth, badges > 0 ? UNDER_INDENT + widest : 0);
      boxHeight[i] = NODE_HEIGHT + under + chips;
    } else {
      const side = badges > 0 ? SIDE_GAP + widest : own ? CHIP_ROOM : 0;
      const hanging = (NODE_HEIGHT + BADGE_HEIGHT) / 2 + (badges - 1) * BADGE_PITCH;
      boxWidth[i] = nodeWidth + Math.max(side, detached ? BREAK_ROOM : 0);
      boxHeight[i] = Math.max(NODE_HEIGHT, badges > 0 ? hanging : 0);
    }
  }

  const framed = new Uint8Array(graph.frames.length);
  const headerWidth = new Float32Array(graph.frames.length);
  for (let g = 0; g < graph.frames.length; g++) {
    if (graph.frames[g].container) {
      const { place, line } = headerOf(graph.frames[g]);
      framed[g] = 1;
      const text = Math.min(HEADER_WIDEST, 58 + 6.1 * place.length + 6.8 * line.length);
      // Beside each other frames are as narrow as what is in them: more of them find room.
      headerWidth[g] = across
        ? Math.min(nodeWidth + ACROSS_FRAME_ROOM, text)
        : Math.max(nodeWidth + FRAME_ROOM, text);
    }
  }
  return {
    count,
    nodeWidth,
    edgeFrom: graph.edgeFrom,
    edgeTo: graph.edgeTo,
    groupOf: graph.groupOf,
    groups: graph.frames.length,
    framed,
    headerWidth,
    boxWidth,
    boxHeight,
    before,
    upward,
    across
  };
}
