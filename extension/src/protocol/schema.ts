// Wire format v1, by `python -m ag_visual.observe.wire.typescript`: change schema.py.

export const VERSION = 1;
/** What a u32 column holds where there is nothing. */
export const NONE = 4294967295;
export const COMM_TARGET = 'ag_visual.events';
/** The comm of requests to a kernel without control messages; answers come as events. */
export const REQUESTS_TARGET = 'ag_visual.requests';
export const REQUEST_TYPE = 'ag_visual_request';
export const REPLY_TYPE = 'ag_visual_reply';
/** In a request's metadata: the page waits for no status of the kernel. */
export const REPLY_ONLY = 'reply_only';
/** What the kernel publishes when it begins to listen. */
export const ANNOUNCE_TYPE = 'ag_visual_announce';
export const RECORDING_FORMAT = 'ag_visual-recording';
/** Id of the script element of a standalone page that holds its recording. */
export const RECORDING_ELEMENT = 'ag-visual-recording';
/** Batches that may be unacknowledged before the kernel holds back. */
export const WINDOW = 8;
/** Columns begin at multiples of this many bytes. */
export const ALIGNMENT = 8;

export type ColumnType = 'u8' | 'i32' | 'u32' | 'f64';

export interface ColumnArray {
  u8: Uint8Array;
  i32: Int32Array;
  u32: Uint32Array;
  f64: Float64Array;
}

export const ARRAYS = {
  u8: Uint8Array,
  i32: Int32Array,
  u32: Uint32Array,
  f64: Float64Array,
} as const;

/** Column types of every table, in the order in which they are sent. */
export const TABLES = {
  nodes: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** MulBackward0 */
    name: 'u32',
    site: 'u32',
    /** small number of the thread that created it */
    thread: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
    /** 64×128; empty for a scalar */
    shape: 'u32',
    /** float32 */
    dtype: 'u32',
    /** how many outputs the op had */
    outputs: 'u32',
    /** elements of the first output */
    numel: 'f64',
    /** the recorded backward it was created for, from 1 */
    step: 'u32',
  },
  leaves: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** the variable's name, empty while unknown */
    label: 'u32',
    /** 64×128; empty for a scalar */
    shape: 'u32',
    /** float32 */
    dtype: 'u32',
    /** the storage's number, shared by all its views */
    storage: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
    site: 'u32',
  },
  edges: {
    /** the node whose next_functions holds the edge */
    src: 'u32',
    /** the node it leads to, NONE where no gradient flows */
    dst: 'u32',
    /** position in next_functions */
    src_index: 'u32',
    /** which output of dst */
    dst_index: 'u32',
  },
  saved: {
    /** the node's number, in order of creation */
    node: 'u32',
    /** self, result, ... */
    name: 'u32',
    /** the storage's number, shared by all its views */
    storage: 'u32',
    /** the storage's version when it was saved */
    version: 'u32',
    bytes: 'f64',
    /** 64×128; empty for a scalar */
    shape: 'u32',
    /** float32 */
    dtype: 'u32',
    /** 1: the node's own output */
    flags: 'u8',
  },
  runs: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** the backward pass */
    task: 'u32',
    /** 0 for the first node that the task ran */
    order: 'u32',
    /** milliseconds since the session began */
    t0: 'f64',
    /** milliseconds since the session began */
    t1: 'f64',
    /** 2-norm of the incoming gradient, NaN possible, -1: none came, -2: not watched */
    norm: 'f64',
    /** 1: the gradient held a NaN or an infinity */
    flags: 'u8',
  },
  tasks: {
    /** the backward pass */
    task: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
    site: 'u32',
    /** nodes to run */
    total: 'u32',
    retain: 'u8',
    /** 0: began, 1: ended well, 2: ended in an error */
    ended: 'u8',
    thread: 'u32',
    /** seq of the first root, NONE in rows of an end */
    root: 'u32',
  },
  writes: {
    /** the storage's number, shared by all its views */
    storage: 'u32',
    /** torch's counter after the write */
    version: 'u32',
    /** all writes so far, those through .data included */
    writes: 'u32',
    /** add_ */
    op: 'u32',
    site: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  hooks: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** the backward pass */
    task: 'u32',
    /** tensor, multi_grad, retain_grad, pre, post, module, post_accumulate */
    kind: 'u32',
    /** the hook's qualified name */
    name: 'u32',
    /** of which output */
    number: 'u32',
    /** its handle's number, NONE for retain_grad */
    hook: 'u32',
    /** where it was added */
    site: 'u32',
    /** none, same, equal, scaled, replaced, in place, kept, raised */
    effect: 'u32',
    /** of a scaled gradient */
    factor: 'f64',
    /** what it raised */
    error: 'u32',
    /** 2-norm before the hook, -1: none */
    before: 'f64',
    /** smallest finite element, NaN: there is none */
    before_min: 'f64',
    before_max: 'f64',
    /** how many */
    before_nan: 'f64',
    before_inf: 'f64',
    /** 2-norm after the hook, -1: none */
    after: 'f64',
    after_min: 'f64',
    after_max: 'f64',
    after_nan: 'f64',
    after_inf: 'f64',
    /** milliseconds since the session began */
    t: 'f64',
  },
  breaks: {
    /** a node one of whose inputs had left a graph before */
    seq: 'u32',
    /** the input */
    name: 'u32',
    /** detach, detach_, data, no_grad, inference, dtype */
    kind: 'u32',
    /** where it left the graph */
    site: 'u32',
    /** the node that made what it was taken from, NONE: unknown */
    maker: 'u32',
    /** 1: it was taken from a leaf */
    flags: 'u8',
    /** milliseconds since the session began */
    t: 'f64',
  },
  parameters: {
    /** its number */
    parameter: 'u32',
    /** the number of the outermost module that has it */
    module: 'u32',
    /** its place among the module's parameters */
    order: 'u32',
    /** model.enc.weight */
    name: 'u32',
    /** 64×128; empty for a scalar */
    shape: 'u32',
    /** float32 */
    dtype: 'u32',
    /** the storage's number, shared by all its views */
    storage: 'u32',
    /** 1: it requires grad */
    flags: 'u8',
    /** milliseconds since the session began */
    t: 'f64',
  },
  absent: {
    /** one that gets no gradient, from this backward on */
    parameter: 'u32',
    /** the backward pass */
    task: 'u32',
    /** frozen, unused, other, or how it left the graph, as in breaks */
    kind: 'u32',
    /** the reason in words */
    text: 'u32',
    /** what to do, empty where nothing is to be done */
    repair: 'u32',
    /** the line that is to blame */
    site: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  calls: {
    /** a module's call, or a transform's level, as they began */
    call: 'u32',
    /** the call around it, NONE where there is none */
    parent: 'u32',
    /** layers.3: its name in the module around it */
    name: 'u32',
    /** the module's class, the transform */
    kind: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  levels: {
    /** the call that is a level of a transform */
    call: 'u32',
    /** vmap, grad, jvp, forward mode */
    kind: 'u32',
    /** 1 for the outermost */
    depth: 'u32',
    /** lanes of a vmap, else 0 */
    size: 'u32',
    /** where the transform was called */
    site: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  pauses: {
    /** the backward pass */
    task: 'u32',
    /** when it was stopped, in milliseconds like t */
    since: 'f64',
    thread: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  odd: {
    /** a node with numbers that its op cannot take or give, or a leaf */
    seq: 'u32',
    /** the backward pass */
    task: 'u32',
    /** self, result, ...: saved; '': a leaf's values, or the loss */
    name: 'u32',
    /** 1: its own output, 2: an input to which no gradient goes */
    flags: 'u8',
    elements: 'f64',
    /** how many of them are NaN */
    nan: 'f64',
    /** how many are infinite, of either sign */
    inf: 'f64',
    zero: 'f64',
    negative: 'f64',
    /** how many are 1 or more, or -1 or less */
    beyond: 'f64',
    /** milliseconds since the session began */
    t: 'f64',
  },
  held: {
    /** the backward pass */
    task: 'u32',
    /** a leaf whose gradient is still there as this backward begins */
    seq: 'u32',
    /** how often its values changed since it last had none; 0: only others did */
    updates: 'u32',
    /** leaves of this backward of which the same is true */
    leaves: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  missed: {
    /** the backward pass */
    task: 'u32',
    /** backward passes just before it that were not recorded */
    passes: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  scopes: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** the innermost call that made the node */
    call: 'u32',
  },
  freed: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** milliseconds since the session began */
    t: 'f64',
  },
  labels: {
    /** the node's number, in order of creation */
    seq: 'u32',
    /** the leaf's name, found later */
    label: 'u32',
  },
} as const satisfies Record<string, Record<string, ColumnType>>;

/** Columns that hold ids: of a string or of a site. */
export const MEANINGS = {
  nodes: {
    name: 'string',
    site: 'site',
    shape: 'string',
    dtype: 'string',
  },
  leaves: {
    label: 'string',
    shape: 'string',
    dtype: 'string',
    site: 'site',
  },
  saved: {
    name: 'string',
    shape: 'string',
    dtype: 'string',
  },
  tasks: {
    site: 'site',
  },
  writes: {
    op: 'string',
    site: 'site',
  },
  hooks: {
    kind: 'string',
    name: 'string',
    site: 'site',
    effect: 'string',
    error: 'string',
  },
  breaks: {
    name: 'string',
    kind: 'string',
    site: 'site',
  },
  parameters: {
    name: 'string',
    shape: 'string',
    dtype: 'string',
  },
  absent: {
    kind: 'string',
    text: 'string',
    repair: 'string',
    site: 'site',
  },
  calls: {
    name: 'string',
    kind: 'string',
  },
  levels: {
    kind: 'string',
    site: 'site',
  },
  odd: {
    name: 'string',
  },
  labels: {
    label: 'string',
  },
} as const satisfies Record<string, Record<string, 'string' | 'site'>>;

export type TableName = keyof typeof TABLES;

/** One table of one batch: a typed array per column. */
export type Table<N extends TableName> = { rows: number } & {
  [C in keyof (typeof TABLES)[N]]: ColumnArray[(typeof TABLES)[N][C] & ColumnType];
};

/** What a lesson can hide. */
export const CONTROLS = [
  'record',
  'pause',
  'step',
  'continue',
  'play',
  'breakpoints',
  'search',
  'export',
  'editing',
  'values',
  'gradient',
  'saved',
  'timeline',
  'side',
  'outline',
  'parameters',
  'tensors',
  'hooks',
  'problems',
  'predict',
  'scalars',
  'groups',
  'zoom',
  'legend',
  'keys'
] as const;

export type Control = (typeof CONTROLS)[number];

export interface Site {
  file: string;
  kind: 'cell' | 'file';
  cell_id: string | null;
  execution_count: number | null;
  /** from 1 */
  line: number;
  /** from 0, in characters */
  col: number;
  end_line: number;
  end_col: number;
  function: string;
  /** the exact expression */
  text: string;
  /** cell In[7], line 3 */
  where: string;
  /** the whole line, stripped */
  source_line: string;
  /** how the expression reads; null: it calls nothing */
  written?: Written | null;
}

export interface Written {
  how: 'operator' | 'call' | 'attribute';
  /** what it calls: mul for a * b, sum for x.sum() */
  call: string;
  /** what stands before the dot of a call: x, torch; else empty */
  on: string;
  /** as they are written; of an operator its operands */
  args: string[];
  /** arguments given by name */
  named: SavedValue[];
  /** the variable that it is given to, empty where there is none */
  target: string;
}

export interface Paused {
  task: number;
  /** the node about to run */
  seq: number;
  /** nodes that ran before it */
  order: number;
  total: number;
  thread: number;
  /** milliseconds since the session began */
  since: number;
  /** the reader changed the gradient that arrives */
  edited?: boolean;
  /** what is wrong with this node, empty where nothing is */
  problem?: string;
  /** backward passes of other threads that wait to stop */
  waiting?: number;
  /** the id of the breakpoint that it stopped at */
  breakpoint?: number;
}

export interface Lesson {
  /** what the reader is to do, shown above the graph */
  text: string;
  /** controls that are not there (see observe.record.lesson) */
  hide: string[];
  /** the node to begin at: its name, its variable's or its number */
  node: string;
  /** the moment to begin at: before this step of the backward */
  step: number | null;
  /** each gradient is guessed before it is shown */
  predict: boolean;
  /** the graph is drawn number by number */
  scalars: boolean;
  /** of playing: 1 is two nodes a second */
  speed: number;
  /** which way a recording is played */
  direction: 'on' | 'back';
  /** what a page is called */
  title?: string;
  author?: string;
  /** as its author wrote it */
  date?: string;
}

export interface Breakpoint {
  id: number;
  /** all that is given must hold */
  kind: 'node' | 'name' | 'line' | 'condition';
  seq?: number;
  name?: string;
  /** nodes that this line made */
  line?: number;
  /** of this cell (its id) or file */
  place?: string;
  /** the 2-norm of the gradient is larger */
  above?: number;
  /** the gradient holds a NaN or an infinity */
  nonfinite?: boolean;
  /** the gradient has this shape: 4×2, * for any length */
  shape?: string;
}

export interface State {
  recording: boolean;
  scope: 'off' | 'newest' | 'block' | 'once' | 'every';
  every: number;
  paused: Paused | null;
  breakpoints: Breakpoint[];
  pause_next: boolean;
  /** false: commands cannot reach a busy kernel; record, then scrub */
  control: boolean;
  kernel_busy?: boolean;
  /** backward passes after the last that is told: nobody watched them */
  missed?: number;
  /** that were computed while recorded */
  jacobians?: number;
  /** one sentence for the reader, empty when there is nothing to say */
  message: string;
  /** how a teacher's cell set up the panel */
  lesson?: Lesson | null;
  /** of the profile that runs, or ran last while it was followed */
  profile?: number | null;
  /** of what is recorded, as its author gave it */
  name?: string;
  /** blocks that were recorded and are kept, the oldest first */
  runs?: Run[];
}

export interface Run {
  /** 1 for the first block of the session */
  number: number;
  /** as its author gave it, else empty */
  name: string;
  nodes: number;
  /** backward passes */
  passes: number;
}

export interface Write {
  site: Site | null;
  version: number;
  op: string;
}

export interface Problem {
  id: number;
  kind:
    | 'modified-by-inplace'
    | 'leaf-inplace'
    | 'view-inplace'
    | 'second-backward'
    | 'silent'
    | 'other';
  title: string;
  detail: string;
  node_seq: number | null;
  node_name: string;
  saved_name: string;
  tensor: ProblemTensor;
  saved: SavedAt | null;
  writes: Write[];
  /** writes left out between the first and the last */
  more_writes: number;
  version_then: number | null;
  version_now: number | null;
  repair: Repair | null;
  /** the line that failed */
  where: Site | null;
  /** the full plain message */
  text: string;
  /** where the view was made */
  made?: Site | null;
  /** the backward that freed the graph */
  first?: Site | null;
  /** variables that keep the freed graph alive */
  holders?: string[];
  /** other names of the same memory */
  aliases?: Alias[];
  /** how often it occurred; the record is of the last time */
  times?: number;
  /** the cell in which it occurred ran through later, without it */
  solved?: boolean;
}

export interface Alias {
  name: string;
  /** a view: T of `W` */
  how: string;
}

export interface ProblemTensor {
  name: string | null;
  shape: number[];
  dtype: string;
}

export interface SavedAt {
  site: Site | null;
  version: number;
}

export interface Repair {
  text: string;
  code: string | null;
  edit?: Edit | null;
}

export interface Edit {
  /** in the cell or file that changes */
  site: Site;
  /** its first line that changes, from 1 */
  first: number;
  /** those lines as they ran */
  was: string[];
  becomes: string[];
}

export interface TableHeader {
  rows: number;
  /** byte offset and byte length */
  columns: Record<string, [number, number]>;
}

export interface Header {
  v: number;
  session: string;
  /** grows with clear and resync; another session starts again */
  epoch: number;
  /** 1, 2, ... within an epoch */
  batch: number;
  /** milliseconds since the session began */
  t: number;
  /** rows left out so far, by table */
  coalesced: Record<string, number>;
  /** whole backward passes left out so far */
  dropped_steps: number;
  /** new ones; ids go on from the last batch's; id 0 is '' */
  strings: string[];
  /** new ones; ids go on from the last batch's */
  sites: Site[];
  tables: Record<string, TableHeader>;
  state: State;
  problems: Problem[];
}

export interface ProfilePiece {
  /** the profile's */
  number: number;
  /** it has ended: nothing more comes */
  done: boolean;
  /** the row to ask from for the piece after this one */
  next: number;
  /** rows before this piece that are here no more */
  left_out: number;
  /** ns since the profile began, as all times here */
  now: number;
  /** slices */
  count: number;
  /** of these, the last ones: ranges that have not ended, here until now */
  open: number;
  /** base64 of columns: start, end, seq (float64), label, thread, facts (int32) */
  rows: string;
  /** name and kind, by number */
  labels: Record<string, [string, number]>;
  facts: Record<string, ProfileFacts>;
  /** names */
  threads: string[];
  /** since, until, row of threads */
  pauses: [number, number, number][];
}

export interface ProfileFacts {
  /** where it was called, empty where that is not known */
  line: string;
  /** the notebook's cell with that line */
  cell: string | null;
  execution: number | null;
  /** the line in the cell, from 1; 0: in no cell */
  at: number;
  /** the line as it ran */
  source: string;
  /** dtypes and shapes that it was called with */
  inputs: string;
}

export interface NextFunction {
  seq: number | null;
  name: string;
  label: string | null;
  index: number;
}

export interface OutputMeta {
  shape: number[];
  dtype: string;
}

export interface SavedTensor {
  name: string;
  shape: number[];
  dtype: string;
  bytes: number;
  version_then: number;
  /** null when the tensor was freed */
  version_now: number | null;
  storage: number;
  /** variables and saved tensors on the same storage */
  shared_with: string[];
  freed: boolean;
  own_output: boolean;
  /** slices it stands for inside of vmap; `shape` is that of one */
  lanes?: number[];
  /** it has one in forward mode, or had one */
  tangent?: boolean;
}

export interface SavedValue {
  name: string;
  text: string;
}

export interface HookInfo {
  kind: string;
  name: string;
  /** of which output */
  number: number;
  /** its handle's number */
  hook: number | null;
  /** where it was added */
  site: Site | null;
}

export interface NodeHooks {
  seq: number;
  name: string;
  /** in the order in which they run */
  hooks: HookInfo[];
}

export interface NodeDetails {
  seq: number;
  name: string;
  site: Site | null;
  next: NextFunction[];
  outputs: OutputMeta[];
  saved: SavedTensor[];
  /** what it saved that is not a tensor */
  values: SavedValue[];
  hooks: HookInfo[];
  /** false: described from the recording, the node itself is gone */
  alive: boolean;
  /** false: a node of an engine that runs none to look */
  runs?: boolean;
  variable: string | null;
}

export interface Math {
  /** an element of MathML Core */
  tag: string;
  /** what a leaf says */
  text?: string;
  children?: Math[];
}

export interface Derivative {
  /** the op's name of the input */
  input: string;
  /** dL/d(input) = ... */
  math: Math;
  /** what the letters in it stand for */
  where: Math[];
  /** what the edge does with it: summed over broadcast dims; or why none */
  says: string;
  /** the same in one line */
  text: string;
}

export interface OpCard {
  /** the op's public name */
  op: string;
  /** what it does, in one sentence */
  says: string;
  /** result = ... */
  forward: Math;
  /** the same in one line */
  text: string;
  derivatives: Derivative[];
  /** arguments that are not tensors */
  given: SavedValue[];
  /** the op's parameters, in the order of a call */
  params?: string[];
  /** the input of each edge; `tensors[]` stands for a list of them */
  edges?: string[];
  /** numbers can be put into the derivatives; absent in early files */
  numbers?: boolean;
  /** why it is not of this very node, empty where it is */
  note: string;
}

export interface CardNumbers {
  input: string;
  /** all that have a gradient */
  inputs: string[];
  /** flat index of the element in the input */
  at: number;
  index: number[];
  /** of the input */
  shape: number[];
  /** the gradient: at this pause, by retain_grad, made */
  source: 'waits' | 'kept' | 'ones';
  /** the derivative with numbers in it */
  math: Math;
  text: string;
  /** the numbers and what they are */
  used: SavedValue[];
  result: string;
}

export interface WorstElement {
  index: number[];
  backward: string;
  differences: string;
}

export interface InputCheck {
  name: string;
  shape: number[];
  ok: boolean;
  compared: number;
  /** elements left out: the slopes on both sides differ there */
  non_smooth: number;
  absolute: string;
  relative: string;
  step: string;
  /** its value is unknown, and no gradient depends on it */
  made_up: boolean;
  worst: WorstElement | null;
}

export interface NodeCheck {
  seq: number;
  name: string;
  verdict: 'agrees' | 'differs' | 'unknown';
  /** why it cannot be checked, empty where it can */
  why_not: string;
  text: string;
  inputs: InputCheck[];
}

export interface Histogram {
  edges: number[];
  counts: number[];
}

export interface Picture {
  rows: number;
  cols: number;
  /** row by row; null where nothing finite was */
  values: (number | null)[];
  /** true: one value stands for several elements */
  pooled: boolean;
}

export interface Values {
  shape: number[];
  dtype: string;
  numel: number;
  bytes: number;
  /** of the finite elements, by size where complex */
  min: number | null;
  max: number | null;
  mean: number | null;
  norm: number | null;
  nan: number;
  inf: number;
  zero: number;
  /** elements looked at; less than numel for a large tensor */
  sampled: number;
  histogram: Histogram;
  picture: Picture | null;
  /** a short repr */
  text: string;
  /** slices that the tensor stands for, at each vmap around */
  lanes?: number[];
  /** it has a tangent: ask for tangent:... */
  tangent?: boolean;
  /** of what a relu saved: [dead units, all units] */
  dead?: number[];
}

export interface Weights {
  /** 2-norm by number; 'NaN', 'Infinity' */
  parameters: Record<string, number | string>;
  /** the same of leaves that no module has, by storage */
  storages: Record<string, number | string>;
  /** those for which there was no time */
  left_out: number;
}

export interface JacobianEnd {
  /** of the function or of its argument */
  name: string;
  shape: number[];
  /** the node that made it, or the leaf's */
  seq: number | null;
}

export interface JacobianBlock {
  /** which of the rows' tensors */
  row: number;
  column: number;
  /** of the matrix: outputs x inputs, each flat */
  values: Values;
}

export interface Jacobian {
  id: number;
  /** jacrev, jacfwd, jacobian, hessian */
  kind: string;
  function: string;
  site: Site | null;
  /** the outputs; of a Hessian the gradients */
  rows: JacobianEnd[];
  /** the inputs */
  columns: JacobianEnd[];
  blocks: JacobianBlock[];
}

export interface NumbersOutput {
  shape: number[];
  /** row by row; null where nobody kept them */
  values: (number | null)[] | null;
  /** that arrived; null before it did */
  gradient: (number | null)[] | null;
}

export interface NumbersInput {
  /** the node that the gradient goes to */
  seq: number | null;
  /** which of its outputs */
  index: number;
  shape: number[];
  /** local derivatives, outputs x inputs row by row */
  slopes: (number | null)[] | null;
  /** the gradient handed on, its first 64 numbers */
  gives: (number | null)[] | null;
}

export interface Numbers {
  seq: number;
  name: string;
  /** the variable that holds its output, empty where none is known */
  label: string;
  outputs: NumbersOutput[];
  inputs: NumbersInput[];
  /** why its local derivatives are not given; empty where they are */
  why: string;
}

export interface Scalars {
  nodes: Numbers[];
  /** the node that is too large */
  seq: number | null;
  /** why there is nothing to draw; empty where there is */
  why: string;
}

export interface Hello {
  v: number;
  session: string;
  epoch: number;
  python: string;
  package_version: string;
  state: State;
  control: boolean;
}

export interface CourseLesson {
  /** its notebook's file */
  name: string;
  /** 1 · What a gradient is */
  title: string;
}

export interface Exported {
  /** path of the file that was written */
  html: string;
}

export interface RecordingBatch {
  header: Header;
  /** base64 */
  buffer: string;
}

export interface Recording {
  format: 'ag_visual-recording';
  v: number;
  /** ISO 8601, UTC */
  created: string;
  package_version: string;
  batches: RecordingBatch[];
  /** by seq */
  details: Record<string, NodeDetails>;
  /** by '<seq> <which>' */
  values: Record<string, Values>;
  cards?: OpCard[];
  /** by seq, and by name for others: which of the cards */
  card_of?: Record<string, number>;
  /** by seq */
  numbers?: Record<string, CardNumbers>;
  /** opens as a comparison */
  beside?: Beside;
  /** every number of small graphs */
  scalars?: Scalars;
  lesson?: Lesson;
  jacobians?: Jacobian[];
  /** as its author gave it */
  name?: string;
  /** of a graph that was shown as it stood: its variables */
  of?: string[];
  /** when it was written */
  weights?: Weights;
}

export interface Beside {
  /** what stands at the left; null: this one as well */
  recording: Recording | null;
  /** the passes at the left and at the right; null: the newest */
  tasks: (number | null)[];
}

/** What the page may ask over the control channel. */
export interface Commands {
  /** who is there */
  hello: {
    args: Record<string, never>;
    result: Hello;
  };
  /** sends everything kept again, from batch 1 of a new epoch */
  resync: {
    args: {
      /** the id it opened its comm with; without one all pages are meant */
      page?: string;
    };
    result: State;
  };
  /** a batch arrived */
  ack: {
    args: {
      batch: number;
      /** the id it opened its comm with; without one all pages are meant */
      page?: string;
    };
    result: null;
  };
  /** starts or ends recording */
  record: {
    args: {
      on: boolean;
      scope?: 'block' | 'once' | 'every';
      every?: number;
    };
    result: State;
  };
  /** whether the newest backward pass is recorded while nobody asked for more */
  watch: {
    args: {
      newest: boolean;
    };
    result: State;
  };
  /** stops before the next node that runs */
  pause: {
    args: Record<string, never>;
    result: State;
  };
  /** runs one node and stops again */
  step: {
    args: Record<string, never>;
    result: State;
  };
  /** runs on to the next breakpoint or the end */
  continue: {
    args: Record<string, never>;
    result: State;
  };
  /** runs on to this node */
  run_to: {
    args: {
      seq: number;
    };
    result: State;
  };
  /** runs on to a node whose number is not in the range: over or out of a group */
  step_past: {
    args: {
      first: number;
      last: number;
    };
    result: State;
  };
  /** runs on to a node that gets NaN or infinity, or whose saved tensor changed */
  step_to_problem: {
    args: Record<string, never>;
    result: State;
  };
  /** changes the gradient that waits at the paused node */
  edit: {
    args: {
      how: 'scale' | 'zero' | 'fill' | 'clip' | 'element';
      value?: number;
      /** flat index of the element */
      at?: number;
    };
    result: State;
  };
  /** sets or removes a breakpoint */
  breakpoint: {
    args: {
      on: boolean;
      /** the id of the one to remove */
      number?: number;
      seq?: number;
      name?: string;
      /** nodes that this line made */
      line?: number;
      /** of this cell (its id) or file */
      place?: string;
      /** the 2-norm of the gradient is larger */
      above?: number;
      /** the gradient holds a NaN or an infinity */
      nonfinite?: boolean;
      /** the gradient has this shape: 4×2, * for any length */
      shape?: string;
    };
    result: State;
  };
  /** forgets what was recorded */
  clear: {
    args: Record<string, never>;
    result: State;
  };
  /** all about one node */
  node: {
    args: {
      seq: number;
    };
    result: NodeDetails;
  };
  /** hooks of all nodes that live, the newest node first */
  hooks: {
    args: Record<string, never>;
    result: NodeHooks[];
  };
  /** a summary of one tensor's values */
  values: {
    args: {
      seq: number;
      /** saved:<name>, grad, variable; tangent:<one of them>; <any>@<lane> */
      which: string;
      /** bytes that the answer may take */
      limit?: number;
    };
    result: Values;
  };
  /** norms of the values of parameters, as they are now */
  weights: {
    args: Record<string, never>;
    result: Weights;
  };
  /** the renderer's script, for an output on a page that has none yet */
  bundle: {
    args: Record<string, never>;
    result: string;
  };
  /** the formula of a node's op, and its derivative */
  card: {
    args: {
      seq: number;
      /** its class name: for a node that is gone */
      name?: string;
    };
    result: OpCard;
  };
  /** the derivative of one element with the numbers of this node in it */
  numbers: {
    args: {
      seq: number;
      /** whose gradient; without one, the first that has one */
      input?: string;
      /** flat index of the element; without one, where it is largest */
      at?: number;
    };
    result: CardNumbers;
  };
  /** compares a node's backward with finite differences of its forward */
  check: {
    args: {
      seq: number;
      /** compared per input */
      elements?: number;
    };
    result: NodeCheck;
  };
  /** one node by its numbers, and the gradient it will hand on */
  local: {
    args: {
      seq: number;
    };
    result: Numbers;
  };
  /** what a profile has collected since */
  profile: {
    args: {
      number: number;
      /** the row to begin at: `next` of the piece before */
      since: number;
    };
    result: ProfilePiece;
  };
  /** the lessons of the course, in their order */
  course: {
    args: {
      /** a notebook of it: copies are written to the kernel's folder */
      open?: string;
    };
    result: CourseLesson[];
  };
  /** the newest Jacobians that were computed, as matrices */
  jacobians: {
    args: Record<string, never>;
    result: Jacobian[];
  };
  /** every number of a small graph */
  scalars: {
    args: {
      /** the nodes of one graph */
      seqs: number[];
    };
    result: Scalars;
  };
  /** the recording of a block that ended */
  run: {
    args: {
      number: number;
    };
    result: Recording;
  };
  /** writes a standalone HTML file */
  export: {
    args: {
      values: boolean;
      source: boolean;
    };
    result: Exported;
  };
}

export type CommandName = keyof Commands;

export type Reply<C extends CommandName> =
  | { id: string; ok: true; result: Commands[C]['result'] }
  | { id: string; ok: false; error: string };
