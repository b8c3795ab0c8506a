"""Wire format v1, once and as data: tables, commands, names on the wire; `records` has JSON's.

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
        "norm": Column(
            "f64",
            says="2-norm of the incoming gradient, NaN possible, -1: none came, -2: not watched",
        ),
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
            "u32", "string", "tensor, multi_grad, retain_grad, pre, post, module, post_accumulate"
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
    "breaks": {
        "seq": Column("u32", says="a node one of whose inputs had left a graph before"),
        "name": Column("u32", "string", "the input"),
        "kind": Column("u32", "string", "detach, detach_, data, no_grad, inference, dtype"),
        "site": Column("u32", "site", "where it left the graph"),
        "maker": Column("u32", says="the node that made what it was taken from, NONE: unknown"),
        "flags": Column("u8", says="1: it was taken from a leaf"),
        "t": _TIME,
    },
    "parameters": {
        "parameter": Column("u32", says="its number"),
        "module": Column("u32", says="the number of the outermost module that has it"),
        "order": Column("u32", says="its place among the module's parameters"),
        "name": Column("u32", "string", "model.enc.weight"),
        "shape": _SHAPE,
        "dtype": _DTYPE,
        "storage": _STORAGE,
        "flags": Column("u8", says="1: it requires grad"),
        "t": _TIME,
    },
    "absent": {
        "parameter": Column("u32", says="one that gets no gradient, from this backward on"),
        "task": _TASK,
        "kind": Column(
            "u32",
            "string",
            "frozen, unused, other, or how it left the graph, as in breaks",
        ),
        "text": Column("u32", "string", "the reason in words"),
        "repair": Column("u32", "string", "what to do, empty where nothing is to be done"),
        "site": Column("u32", "site", "the line that is to blame"),
        "t": _TIME,
    },
    "calls": {
        "call": Column("u32", says="a module's call, or a transform's level, as they began"),
        "parent": Column("u32", says="the call around it, NONE where there is none"),
        "name": Column("u32", "string", "layers.3: its name in the module around it"),
        "kind": Column("u32", "string", "the module's class, the transform"),
        "t": _TIME,
    },
    "levels": {
        "call": Column("u32", says="the call that is a level of a transform"),
        "kind": Column("u32", "string", "vmap, grad, jvp, forward mode"),
        "depth": Column("u32", says="1 for the outermost"),
        "size": Column("u32", says="lanes of a vmap, else 0"),
        "site": Column("u32", "site", "where the transform was called"),
        "t": _TIME,
    },
    "pauses": {
        "task": _TASK,
        "since": Column("f64", says="when it was stopped, in milliseconds like t"),
        "thread": Column("u32"),
        "t": _TIME,
    },
    "odd": {
        "seq": Column("u32", says="a node with numbers that its op cannot take or give, or a leaf"),
        "task": _TASK,
        "name": Column(
            "u32", "string", "self, result, ...: saved; '': a leaf's values, or the loss"
        ),
        "flags": Column("u8", says="1: its own output, 2: an input to which no gradient goes"),
        "elements": Column("f64"),
        "nan": Column("f64", says="how many of them are NaN"),
        "inf": Column("f64", says="how many are infinite, of either sign"),
        "zero": Column("f64"),
        "negative": Column("f64"),
        "beyond": Column("f64", says="how many are 1 or more, or -1 or less"),
        "t": _TIME,
    },
    "held": {
        "task": _TASK,
        "seq": Column("u32", says="a leaf whose gradient is still there as this backward begins"),
        "updates": Column(
            "u32",
            says="how often its values changed since it last had none; 0: only others did",
        ),
        "leaves": Column("u32", says="leaves of this backward of which the same is true"),
        "t": _TIME,
    },
    "missed": {
        "task": _TASK,
        "passes": Column("u32", says="backward passes just before it that were not recorded"),
        "t": _TIME,
    },
    "scopes": {"seq": _SEQ, "call": Column("u32", says="the innermost call that made the node")},
    "freed": {"seq": _SEQ, "t": _TIME},
    "labels": {"seq": _SEQ, "label": Column("u32", "string", "the leaf's name, found later")},
}

CRITERIA: Final = {
    "seq?": "number",
    "name?": "string",
    "line?": "number -- nodes that this line made",
    "place?": "string -- of this cell (its id) or file",
    "above?": "number -- the 2-norm of the gradient is larger",
    "nonfinite?": "boolean -- the gradient holds a NaN or an infinity",
    "shape?": "string -- the gradient has this shape: 4×2, * for any length",
}
"""What a breakpoint may ask for: part of a record and of a command."""


class Command(NamedTuple):
    """A request of the page: its arguments (as in `records`) and the type of its result."""

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
    "watch": Command(
        {"newest": "boolean"},
        "State",
        "whether the newest backward pass is recorded while nobody asked for more",
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
        {"on": "boolean", "number?": "number -- the id of the one to remove", **CRITERIA},
        "State",
        "sets or removes a breakpoint",
    ),
    "clear": Command({}, "State", "forgets what was recorded"),
    "node": Command({"seq": "number"}, "NodeDetails", "all about one node"),
    "hooks": Command({}, "NodeHooks[]", "hooks of all nodes that live, the newest node first"),
    "values": Command(
        {
            "seq": "number",
            "which": "string -- saved:<name>, grad, variable; tangent:<one of them>; <any>@<lane>",
            "limit?": "number -- bytes that the answer may take",
        },
        "Values",
        "a summary of one tensor's values",
    ),
    "weights": Command({}, "Weights", "norms of the values of parameters, as they are now"),
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
    "profile": Command(
        {"number": "number", "since": "number -- the row to begin at: `next` of the piece before"},
        "ProfilePiece",
        "what a profile has collected since",
    ),
    "course": Command(
        {"open?": "string -- a notebook of it: copies are written to the kernel's folder"},
        "CourseLesson[]",
        "the lessons of the course, in their order",
    ),
    "jacobians": Command({}, "Jacobian[]", "the newest Jacobians that were computed, as matrices"),
    "scalars": Command(
        {"seqs": "number[] -- the nodes of one graph"}, "Scalars", "every number of a small graph"
    ),
    "run": Command({"number": "number"}, "Recording", "the recording of a block that ended"),
    "export": Command(
        {"values": "boolean", "source": "boolean"}, "Exported", "writes a standalone HTML file"
    ),
}
