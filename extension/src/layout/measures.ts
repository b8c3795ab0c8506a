// Sizes of what is drawn, in world units (pixels at zoom 1), and the data that go into and come out
// of the layout.

/** A node's box. */
export const NODE_HEIGHT = 38;
/** Between a node and the badges or chips at its right. */
export const SIDE_GAP = 34;
export const BADGE_HEIGHT = 28;
export const BADGE_PITCH = 34;
/** Between the rows of a group: room for an edge, and for one line of chips below a badge. */
export const ROW_GAP = 26;
/** Between the frames of groups. */
export const GROUP_GAP = 20;
/** The same where edges lead to the right: room for the names of outlines, and for bends. */
export const ACROSS_ROW_GAP = 40;
export const ACROSS_GROUP_GAP = 30;
/** Badges below a node: how far they are indented, and the room above and below all of them. */
export const UNDER_INDENT = 20;
export const UNDER_GAP = 8;
/** A line of chips below a node. */
export const UNDER_CHIPS = 22;
/** From a group's frame to its content. */
export const FRAME_LEFT = 22;
export const FRAME_RIGHT = 20;
export const FRAME_TOP = 32;
export const FRAME_BOTTOM = 18;
/** Room beside each other. */
export const COLUMN_GAP = 26;
/** A passing edge's lane. */
export const LANE = 12;

export interface LayoutInput {
  /** nodes, newest first: edges lead from the loss downward */
  count: number;
  nodeWidth: number;
  edgeFrom: Uint32Array;
  edgeTo: Uint32Array;
  groupOf: Uint32Array;
  groups: number;
  /** by group: 1 where a frame with a header is drawn */
  framed: Uint8Array;
  /** by group: width of its frame that the header asks for */
  headerWidth: Float32Array;
  /** by node: its box and the badges and chips beside or below it */
  boxWidth: Float32Array;
  boxHeight: Float32Array;
  /**
   * by node: where it stood before in its row, NaN where it is new; null when nothing stood before
   */
  before: Float64Array | null;
  /** edges lead upward: the loss stands below what it was made of, as the program ran */
  upward?: boolean;
  /** rows stand beside each other: edges lead to the right, and upward ones to the left */
  across?: boolean;
}

export interface Layout {
  nodeWidth: number;
  upward: boolean;
  across: boolean;
  /** by node: the far end of its row, in the direction in which edges lead (y, or x if across) */
  rowEnd: Float64Array;
  /** by group: the same of the row that its frame stands in */
  groupEnd: Float64Array;
  /** top left corner by node */
  x: Float64Array;
  y: Float64Array;
  groupX: Float64Array;
  groupY: Float64Array;
  groupWidth: Float64Array;
  groupHeight: Float64Array;
  /** way points of edge e: routeStart[e] .. routeStart[e + 1] */
  routeStart: Uint32Array;
  routeX: Float64Array;
  routeY: Float64Array;
  width: number;
  height: number;
}
