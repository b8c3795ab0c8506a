"""Wire format v1, once and as data: tables, JSON records, commands, names on the wire.

`python -m ag_visual.observe.wire.typescript` prints extension/src/protocol/schema.ts from it.
Imports nothing of the package, so that every layer from observe upward may read it.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

VERSION: Final = 1
NONE: Final = 4294967295
"""What a u32 column holds where there is nothing: an edge to None, a row without a site."""

COMM_TARGET: Final = "ag_visual.events"
REQUESTS_TARGET: Final = "ag_visual.requests"
"""The comm of requests to a kernel without control messages; answers come as events."""

REQUEST_TYPE: Final = "ag_visual_request"
REPLY_TYPE: Final = "ag_visual_reply"
REPLY_ONLY: Final = "reply_only"
"""In a request's metadata: the page waits for the reply, and for no status of the kernel."""

ANNOUNCE_TYPE: Final = "ag_visual_announce"
"""What the kernel publishes when it begins to listen: pages that wait may say hello."""

RECORDING_FORMAT: Final = "ag_visual-recording"
RECORDING_ELEMENT: Final = "ag-visual-recording"
WINDOW: Final = 8
"""Batches that a page may leave unacknowledged before the kernel holds back."""

ALIGNMENT: Final = 8
"""Every column begins at a multiple of this many bytes in its batch's buffer."""

ColumnType = Literal["u8", "i32", "u32", "f64"]
Meaning = Literal["", "string", "site"]


class Layout(NamedTuple):
    """How a column type is stored: struct letter, bytes per value, JavaScript's array."""

    letter: str
    itemsize: int
    script: str


COLUMN_TYPES: Final[dict[ColumnType, Layout]] = {
    "u8": Layout("B", 1, "Uint8Array"),
    "i32": Layout("i", 4, "Int32Array"),
    "u32": Layout("I", 4, "Uint32Array"),
    "f64": Layout("d", 8, "Float64Array"),
}


class Column(NamedTuple):
    """One column: its type, what its numbers point into, and one phrase for the reader."""

    type: ColumnType
    of: Meaning = ""
    says: str = ""


_SEQ = Column("u32", says="the node's number, in order of creation")
_TASK = Column("u32", says="the backward pass")
_TIME = Column("f64", says="milliseconds since the session began")
_SHAPE = Column("u32", "string", "64×128; empty for a scalar")
_DTYPE = Column("u32", "string", "float32")
_SITE = Column("u32", "site")
_STORAGE = Column("u32", says="the storage's number, shared by all its views")

TABLES: Final[dict[str, dict[str, Column]]] = {
    "nodes": {
        "seq": _SEQ,
        "name": Column("u32", "string", "MulBackward0"),
        "site": _SITE,
        "thread": Column("u32", says="small number of the thread that created it"),
        "t": _TIME,
        "shape": _SHAPE,
        "dtype": _DTYPE,
        "outputs": Column("u32", says="how many outputs the op had"),
        "numel": Column("f64", says="elements of the first output"),
        "step": Column("u32", says="the recorded backward it was created for, from 1"),
    },
    "leaves": {
        "seq": _SEQ,
        "label": Column("u32", "string", "the variable's name, empty while unknown"),
        "shape": _SHAPE,
        "dtype": _DTYPE,
        "storage": _STORAGE,
        "t": _TIME,
        "site": _SITE,
    },
    "edges": {
        "src": Column("u32", says="the node whose next_functions holds the edge"),
        "dst": Column("u32", says="the node it leads to, NONE where no gradient flows"),
        "src_index": Column("u32", says="position in next_functions"),
        "dst_index": Column("u32", says="which output of dst"),
    },
    "saved": {
        "node": _SEQ,
        "name": Column("u32", "string", "self, result, ..."),
        "storage": _STORAGE,
        "version": Column("u32", says="the storage's version when it was saved"),
        "bytes": Column("f64"),
        "shape": _SHAPE,
        "dtype": _DTYPE,
        "flags": Column("u8", says="1: the node's own output"),
    },
    "runs": {
        "seq": _SEQ,
        "task": _TASK,
        "order": Column("u32", says="0 for the first node that the task ran"),
        "t0": _TIME,
        "t1": _TIME,
        "norm": Column("f64", says="2-norm of the incoming gradient, NaN possible, -1: none came"),
        "flags": Column("u8", says="1: the gradient held a NaN or an infinity"),
    },
    "tasks": {
        "task": _TASK,
        "t": _TIME,
        "site": _SITE,
        "total": Column("u32", says="nodes to run"),
        "retain": Column("u8"),
        "ended": Column("u8", says="0: began, 1: ended well, 2: ended in an error"),
        "thread": Column("u32"),
        "root": Column("u32", says="seq of the first root, NONE in rows of an end"),
    },
    "writes": {
        "storage": _STORAGE,
        "version": Column("u32", says="torch's counter after the write"),
        "writes": Column("u32", says="all writes so far, those through .data included"),
        "op": Column("u32", "string", "add_"),
        "site": _SITE,
        "t": _TIME,
    },
    "hooks": {
        "seq": _SEQ,
        "task": _TASK,
        "kind": Column(
            "u32",
            "string",
            "tensor, multi_grad, retain_grad, pre, post, module, post_accumulate",
        ),
        "name": Column("u32", "string", "the hook's qualified name"),
        "number": Column("u32", says="of which output"),
        "hook": Column("u32", says="its handle's number, NONE for retain_grad"),
        "site": Column("u32", "site", "where it was added"),
        "effect": Column(
            "u32", "string", "none, same, equal, scaled, replaced, in place, kept, raised"
        ),
        "factor": Column("f64", says="of a scaled gradient"),
        "error": Column("u32", "string", "what it raised"),
        "before": Column("f64", says="2-norm before the hook, -1: none"),
        "before_min": Column("f64", says="smallest finite element, NaN: there is none"),
        "before_max": Column("f64"),
        "before_nan": Column("f64", says="how many"),
        "before_inf": Column("f64"),
        "after": Column("f64", says="2-norm after the hook, -1: none"),
        "after_min": Column("f64"),
        "after_max": Column("f64"),
        "after_nan": Column("f64"),
        "after_inf": Column("f64"),
        "t": _TIME,
    },
    "cuts": {
        "seq": Column("u32", says="a node one of whose inputs had left a graph before"),
        "name": Column("u32", "string", "the input"),
        "kind": Column("u32", "string", "detach, detach_, data, no_grad, inference, dtype"),
        "site": Column("u32", "site", "where it left the graph"),
        "maker": Column("u32", says="the node that made what it was taken from, NONE: unknown"),
        "flags": Column("u8", says="1: it was taken from a leaf"),
        "t": _TIME,
    },
    "calls": {
        "call": Column("u32", says="a call of a module, numbered as they began"),
        "parent": Column("u32", says="the call around it, NONE where there is none"),
        "name": Column("u32", "string", "layers.3: its name in the module around it"),
        "kind": Column("u32", "string", "the module's class"),
        "t": _TIME,
    },
    "scopes": {"seq": _SEQ, "call": Column("u32", says="the innermost call that made the node")},
    "freed": {"seq": _SEQ, "t": _TIME},
    "labels": {"seq": _SEQ, "label": Column("u32", "string", "the leaf's name, found later")},
}

_CRITERIA: Final = {
    "seq?": "number",
    "name?": "string",
    "line?": "number -- nodes that this line made",
    "place?": "string -- of this cell (its id) or file",
    "above?": "number -- the 2-norm of the gradient is larger",
    "nonfinite?": "boolean -- the gradient holds a NaN or an infinity",
    "shape?": "string -- the gradient has this shape: 4×2, * for any length",
}

# JSON records: field -> type, written in the small part of TypeScript that `check` reads
# (names, literals, null, X[], [X, Y], Record<string, X>, X | Y). After " -- " a phrase for the
# reader. A field whose name ends in "?" may be absent.
RECORDS: Final[dict[str, dict[str, str]]] = {
    "Site": {
        "file": "string",
        "kind": "'cell' | 'file'",
        "cell_id": "string | null",
        "execution_count": "number | null",
        "line": "number -- from 1",
        "col": "number -- from 0, in characters",
        "end_line": "number",
        "end_col": "number",
        "function": "string",
        "text": "string -- the exact expression",
        "where": "string -- cell In[7], line 3",
        "source_line": "string -- the whole line, stripped",
    },
    "Paused": {
        "task": "number",
        "seq": "number -- the node about to run",
        "order": "number -- nodes that ran before it",
        "total": "number",
        "thread": "number",
        "since": "number -- milliseconds since the session began",
        "edited?": "boolean -- the reader changed the gradient that arrives",
        "problem?": "string -- what is wrong with this node, empty where nothing is",
        "waiting?": "number -- backward passes of other threads that wait to stop",
        "breakpoint?": "number -- the id of the breakpoint that it stopped at",
    },
    "Lesson": {
        "text": "string -- what the reader is to do, shown above the graph",
        "hide": "string[] -- controls that are not there (see observe.record.lesson)",
        "node": "string -- the node to begin at: its name, its variable's or its number",
        "step": "number | null -- the moment to begin at: before this step of the backward",
        "predict": "boolean -- each gradient is guessed before it is shown",
        "scalars": "boolean -- the graph is drawn number by number",
        "speed": "number -- of playing: 1 is two nodes a second",
        "direction": "'on' | 'back' -- which way a recording is played",
    },
    "Breakpoint": {
        "id": "number",
        "kind": "'node' | 'name' | 'line' | 'condition' -- all that is given must hold",
        **_CRITERIA,
    },
    "State": {
        "recording": "boolean",
        "scope": "'off' | 'block' | 'once' | 'every'",
        "every": "number",
        "paused": "Paused | null",
        "breakpoints": "Breakpoint[]",
        "pause_next": "boolean",
        "control": "boolean -- false: commands cannot reach a busy kernel; record, then scrub",
        "kernel_busy?": "boolean",
        "message": "string -- one sentence for the reader, empty when there is nothing to say",
        "lesson?": "Lesson | null -- how a teacher's cell set up the panel",
    },
    "Write": {
        "site": "Site | null",
        "version": "number",
        "op": "string",
    },
    "Problem": {
        "id": "number",
        "kind": "'modified-by-inplace' | 'leaf-inplace' | 'view-inplace' | 'second-backward'"
        " | 'silent' | 'other'",
        "title": "string",
        "detail": "string",
        "node_seq": "number | null",
        "node_name": "string",
        "saved_name": "string",
        "tensor": "ProblemTensor",
        "saved": "SavedAt | null",
        "writes": "Write[]",
        "more_writes": "number -- writes left out between the first and the last",
        "version_then": "number | null",
        "version_now": "number | null",
        "repair": "Repair | null",
        "where": "Site | null -- the line that failed",
        "text": "string -- the full plain message",
        "made?": "Site | null -- where the view was made",
        "first?": "Site | null -- the backward that freed the graph",
        "holders?": "string[] -- variables that keep the freed graph alive",
        "aliases?": "Alias[] -- other names of the same memory",
    },
    "Alias": {
        "name": "string",
        "how": "string -- a view: T of `W`",
    },
    "ProblemTensor": {
        "name": "string | null",
        "shape": "number[]",
        "dtype": "string",
    },
    "SavedAt": {
        "site": "Site | null",
        "version": "number",
    },
    "Repair": {
        "text": "string",
        "code": "string | null",
        "edit?": "Edit | null",
    },
    "Edit": {
        "site": "Site -- in the cell or file that changes",
        "first": "number -- its first line that changes, from 1",
        "was": "string[] -- those lines as they ran",
        "becomes": "string[]",
    },
    "TableHeader": {
        "rows": "number",
        "columns": "Record<string, [number, number]> -- byte offset and byte length",
    },
    "Header": {
        "v": "number",
        "session": "string",
        "epoch": "number -- grows with clear and resync; another session starts again",
        "batch": "number -- 1, 2, ... within an epoch",
        "t": "number -- milliseconds since the session began",
        "coalesced": "Record<string, number> -- rows left out so far, by table",
        "dropped_steps": "number -- whole backward passes left out so far",
        "strings": "string[] -- new ones; ids go on from the last batch's; id 0 is ''",
        "sites": "Site[] -- new ones; ids go on from the last batch's",
        "tables": "Record<string, TableHeader>",
        "state": "State",
        "problems": "Problem[]",
    },
    "NextFunction": {
        "seq": "number | null",
        "name": "string",
        "label": "string | null",
        "index": "number",
    },
    "OutputMeta": {
        "shape": "number[]",
        "dtype": "string",
    },
    "SavedTensor": {
        "name": "string",
        "shape": "number[]",
        "dtype": "string",
        "bytes": "number",
        "version_then": "number",
        "version_now": "number | null -- null when the tensor was freed",
        "storage": "number",
        "shared_with": "string[] -- variables and saved tensors on the same storage",
        "freed": "boolean",
        "own_output": "boolean",
    },
    "SavedValue": {
        "name": "string",
        "text": "string",
    },
    "HookInfo": {
        "kind": "string",
        "name": "string",
        "number": "number -- of which output",
        "hook": "number | null -- its handle's number",
        "site": "Site | null -- where it was added",
    },
    "NodeHooks": {
        "seq": "number",
        "name": "string",
        "hooks": "HookInfo[] -- in the order in which they run",
    },
    "NodeDetails": {
        "seq": "number",
        "name": "string",
        "site": "Site | null",
        "next": "NextFunction[]",
        "outputs": "OutputMeta[]",
        "saved": "SavedTensor[]",
        "values": "SavedValue[] -- what it saved that is not a tensor",
        "hooks": "HookInfo[]",
        "alive": "boolean -- false: described from the recording, the node itself is gone",
        "variable": "string | null",
    },
    "Math": {
        "tag": "string -- an element of MathML Core",
        "text?": "string -- what a leaf says",
        "children?": "Math[]",
    },
    "Derivative": {
        "input": "string -- the op's name of the input",
        "math": "Math -- dL/d(input) = ...",
        "where": "Math[] -- what the letters in it stand for",
        "says": "string -- what the edge does with it: summed over broadcast dims; or why none",
        "text": "string -- the same in one line",
    },
    "OpCard": {
        "op": "string -- the op's public name",
        "says": "string -- what it does, in one sentence",
        "forward": "Math -- result = ...",
        "text": "string -- the same in one line",
        "derivatives": "Derivative[]",
        "given": "SavedValue[] -- arguments that are no tensors",
        "numbers?": "boolean -- numbers can be put into the derivatives; absent in early files",
        "note": "string -- why it is not of this very node, empty where it is",
    },
    "CardNumbers": {
        "input": "string",
        "inputs": "string[] -- all that have a gradient",
        "at": "number -- flat index of the element in the input",
        "index": "number[]",
        "shape": "number[] -- of the input",
        "source": "'waits' | 'kept' | 'ones' -- the gradient: at this pause, by retain_grad, made",
        "math": "Math -- the derivative with numbers in it",
        "text": "string",
        "used": "SavedValue[] -- the numbers and what they are",
        "result": "string",
    },
    "WorstElement": {
        "index": "number[]",
        "backward": "string",
        "differences": "string",
    },
    "InputCheck": {
        "name": "string",
        "shape": "number[]",
        "ok": "boolean",
        "compared": "number",
        "kinks": "number -- elements left out: the slopes on both sides differ there",
        "absolute": "string",
        "relative": "string",
        "step": "string",
        "made_up": "boolean -- nobody knows its value, and no gradient depends on it",
        "worst": "WorstElement | null",
    },
    "NodeCheck": {
        "seq": "number",
        "name": "string",
        "verdict": "'agrees' | 'differs' | 'unknown'",
        "why_not": "string -- why it cannot be checked, empty where it can",
        "text": "string",
        "inputs": "InputCheck[]",
    },
    "Histogram": {
        "edges": "number[]",
        "counts": "number[]",
    },
    "Picture": {
        "rows": "number",
        "cols": "number",
        "values": "(number | null)[] -- row by row; null where nothing finite was",
        "pooled": "boolean -- true: one value stands for several elements",
    },
    "Values": {
        "shape": "number[]",
        "dtype": "string",
        "numel": "number",
        "bytes": "number",
        "min": "number | null -- of the finite elements, by size where complex",
        "max": "number | null",
        "mean": "number | null",
        "norm": "number | null",
        "nan": "number",
        "inf": "number",
        "zero": "number",
        "sampled": "number -- elements looked at; less than numel for a large tensor",
        "histogram": "Histogram",
        "picture": "Picture | null",
        "text": "string -- a short repr",
        "dead?": "number[] -- of what a relu saved: [dead units, all units]",
    },
    "NumbersOutput": {
        "shape": "number[]",
        "values": "(number | null)[] | null -- row by row; null where nobody kept them",
        "gradient": "(number | null)[] | null -- that arrived; null before it did",
    },
    "NumbersInput": {
        "seq": "number | null -- the node that the gradient goes to",
        "index": "number -- which of its outputs",
        "shape": "number[]",
        "slopes": "(number | null)[] | null -- local derivatives, outputs x inputs row by row",
        "gives": "(number | null)[] | null -- the gradient handed on, its first 64 numbers",
    },
    "Numbers": {
        "seq": "number",
        "name": "string",
        "label": "string -- the variable that holds its output, empty where none is known",
        "outputs": "NumbersOutput[]",
        "inputs": "NumbersInput[]",
        "why": "string -- why its local derivatives are not given; empty where they are",
    },
    "Scalars": {
        "nodes": "Numbers[]",
        "seq": "number | null -- the node that is too large",
        "why": "string -- why there is nothing to draw; empty where there is",
    },
    "Hello": {
        "v": "number",
        "session": "string",
        "epoch": "number",
        "python": "string",
        "package_version": "string",
        "state": "State",
        "control": "boolean",
    },
    "Exported": {
        "html": "string -- path of the file that was written",
    },
    "RecordingBatch": {
        "header": "Header",
        "buffer": "string -- base64",
    },
    "Recording": {
        "format": f"'{RECORDING_FORMAT}'",
        "v": "number",
        "created": "string -- ISO 8601, UTC",
        "package_version": "string",
        "batches": "RecordingBatch[]",
        "details": "Record<string, NodeDetails> -- by seq",
        "values": "Record<string, Values> -- by '<seq> <which>'",
        "cards?": "OpCard[]",
        "card_of?": "Record<string, number> -- by seq, and by name for others: which of the cards",
        "numbers?": "Record<string, CardNumbers> -- by seq",
        "beside?": "Beside -- opens as a comparison",
        "scalars?": "Scalars -- every number of small graphs",
        "lesson?": "Lesson",
    },
    "Beside": {
        "recording": "Recording | null -- what stands at the left; null: this one as well",
        "tasks": "(number | null)[] -- the passes at the left and at the right; null: the newest",
    },
}


class Command(NamedTuple):
    """A request of the page: its arguments (as in RECORDS) and the type of its result."""

    arguments: dict[str, str]
    result: str
    says: str


_PAGE: Final = {
    "page?": "string -- the id it opened its comm with; without one all pages are meant"
}

COMMANDS: Final[dict[str, Command]] = {
    "hello": Command({}, "Hello", "who is there"),
    "resync": Command(_PAGE, "State", "sends everything kept again, from batch 1 of a new epoch"),
    "ack": Command({"batch": "number", **_PAGE}, "null", "a batch arrived"),
    "record": Command(
        {"on": "boolean", "scope?": "'block' | 'once' | 'every'", "every?": "number"},
        "State",
        "starts or ends recording",
    ),
    "pause": Command({}, "State", "stops before the next node that runs"),
    "step": Command({}, "State", "runs one node and stops again"),
    "continue": Command({}, "State", "runs on to the next breakpoint or the end"),
    "run_to": Command({"seq": "number"}, "State", "runs on to this node"),
    "step_past": Command(
        {"first": "number", "last": "number"},
        "State",
        "runs on to a node whose number is not in the range: over or out of a group",
    ),
    "step_to_problem": Command(
        {}, "State", "runs on to a node that gets NaN or infinity, or whose saved tensor changed"
    ),
    "edit": Command(
        {
            "how": "'scale' | 'zero' | 'fill' | 'clip' | 'element'",
            "value?": "number",
            "at?": "number -- flat index of the element",
        },
        "State",
        "changes the gradient that waits at the paused node",
    ),
    "breakpoint": Command(
        {"on": "boolean", "number?": "number -- the id of the one to remove", **_CRITERIA},
        "State",
        "sets or removes a breakpoint",
    ),
    "clear": Command({}, "State", "forgets what was recorded"),
    "node": Command({"seq": "number"}, "NodeDetails", "all about one node"),
    "hooks": Command({}, "NodeHooks[]", "hooks of all nodes that live, the newest node first"),
    "values": Command(
        {
            "seq": "number",
            "which": "string -- saved:<name>, grad or variable",
            "limit?": "number -- bytes that the answer may take",
        },
        "Values",
        "a summary of one tensor's values",
    ),
    "bundle": Command(
        {}, "string", "the renderer's script, for an output on a page that has none yet"
    ),
    "card": Command(
        {"seq": "number", "name?": "string -- its class name: for a node that is gone"},
        "OpCard",
        "the formula of a node's op, and its derivative",
    ),
    "numbers": Command(
        {
            "seq": "number",
            "input?": "string -- whose gradient; without one, the first that has one",
            "at?": "number -- flat index of the element; without one, where it is largest",
        },
        "CardNumbers",
        "the derivative of one element with the numbers of this node in it",
    ),
    "check": Command(
        {"seq": "number", "elements?": "number -- compared per input"},
        "NodeCheck",
        "compares a node's backward with finite differences of its forward",
    ),
    "local": Command(
        {"seq": "number"}, "Numbers", "one node by its numbers, and the gradient it will hand on"
    ),
    "scalars": Command(
        {"seqs": "number[] -- the nodes of one graph"}, "Scalars", "every number of a small graph"
    ),
    "export": Command(
        {"values": "boolean", "source": "boolean"}, "Exported", "writes a standalone HTML file"
    ),
}
