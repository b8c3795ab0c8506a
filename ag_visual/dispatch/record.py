"""How an op is declared: one record per op, from which everything else follows.

A rule's parameter names are its requests, unless `rules.requesting` names them: `F` the op
namespace, `g` the incoming gradient (`gs` for several), `t_x` a tangent, an input's name its saved
value, an output's name (`result`) the saved output, `x_shape`, `x_dtype`, `x_strides` what they
say, an argument's name its value, `needs` which gradients are wanted. They are read once, here; an
unknown name fails at import.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_visual.dispatch.arguments import Kind, kind_of
from ag_visual.dispatch.autocast import casts_of
from ag_visual.dispatch.rules import NotDifferentiable, Rule, requests_of

LINEAR = "linear"
"""jvp: the op is linear in all its differentiable inputs together."""

ELEMENTWISE = "elementwise"
"""jvp: every element of an input has an effect on one element of the result only (pointwise ops,
reductions, sorted values), so that the vjp of ones is the slope of each."""

OWN, UNSEEN = "own", "unseen"
"""What the profiler calls an op: by its own name; not at all (see `Op.profiled`)."""

ROWS, CHANNELS = "rows", "channels"
"""How results lie in memory, whatever the kernel gives: row-major; row-major, or with the channels
of images last where the kernel has them there. Else it is as the kernel gives it."""

EACH, ONCE = "each", "once"
"""How often a rule rounds gradients of 16-bit floats: each op of it does, as where torch's formula
has several; once, after float32 throughout, as where torch has one op for it."""

PROMOTE, FLOAT, KEEP = "promote", "float", "keep"
"""What happens to dtypes before the kernel: a common one; a common floating one; nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call for the table-driven tests: arrays (or numbers) and plain arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    # Whether finite differences make sense here: not at non-smooth points, nor for random results.
    smooth: bool = True
    # Whether torch can do it.
    oracle: bool = True


@dataclass(frozen=True, slots=True)
class ErrorSample:
    """One bad call: what it raises and the phrase of its text."""

    args: tuple[Any, ...]
    error: type[BaseException]
    phrase: str
    kwargs: dict[str, Any] = field(default_factory=dict)


DERIVED: Any = None
"""The default of an option that follows from the others."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Op:
    """One differentiable operation (or one overload of it), as it is declared.

    `op(name, kernel, **options)` makes one. Options are the fields down to "What follows from
    these"; docs/notes/anatomy-of-an-op.md shows each in an example.
    """

    name: str
    """Its name in the table, and torch's, where it is public."""
    kernel: str | Callable[..., Any]
    """A function `(xp, *params)` on arrays, or the name of one in the array namespace."""
    table: Any
    """What core objects reach of the table through an op."""

    # What it takes and gives.

    params: tuple[str, ...] = DERIVED
    """The kernel's parameters after xp; to be said where the kernel is a name."""
    inputs: tuple[str, ...] = DERIVED
    """Which parameters are tensors (default: those with a rule, and self, other, input)."""
    lists: tuple[str, ...] = ()
    """Parameters that are sequences of tensors."""
    outputs: Sequence[str] = ("result",)
    """Names of the results, or "list"."""
    differentiable: tuple[int, ...] = DERIVED
    """Which outputs carry gradients (default: all)."""
    check: Callable[..., None] | None = None
    """Looks at what was given, before promotion, and may raise."""
    normalize: Callable[..., Any] | None = None
    """Checks and completes the arguments: `(arrays..., arguments...) -> arguments`."""
    varargs: str | None = None
    """The parameter that is also given one by one: `x.view(2, 3)`."""
    ignored_kwargs: tuple[str, ...] = ()
    """Flags that torch takes by name and that change nothing; only with varargs."""
    policy: str = KEEP
    """What happens to dtypes before the kernel: KEEP, PROMOTE or FLOAT."""
    no_promotion: frozenset[str] = frozenset()
    """Tensor inputs that take no part in promotion (masks, indices)."""
    dtype_check: Callable[..., str | None] | None = None
    """What is wrong with the dtypes of the inputs that its parameters name (None for those that are
    no tensors), or None; asked before promotion, where they differ."""
    opmath: bool = False
    """The kernel is given 16-bit floats as float32, and its result is rounded once."""
    rounds: frozenset[str] = DERIVED
    """Numbers (0-d tensors of other dtypes, too) that are rounded to 16 bits beside such a tensor;
    the kernel has the others in float32. Default: those given for inputs, but no arguments."""
    real_only: bool = False
    """Defined on real numbers only, refuses complex ones."""
    autocast: str = ""
    """What mixed precision does before the kernel, by device type where that differs: "lower",
    "cpu float32, cuda result" (see dispatch.autocast); nothing: the op runs as it is."""

    # Derivatives.

    vjp: dict[Any, Callable[..., Any]] | None = None
    """{input: rule} or {(inputs): rule returning a tuple}; None: not differentiable."""
    jvp: Any = None
    """LINEAR, ELEMENTWISE, {input: rule on t_input}, or None where torch has none, either."""
    aten: str = ""
    """What torch calls an op without jvp where it refuses a tangent, if that is not its name:
    "_cdist_forward"; with "aten::" in front where it has no derivative at all."""
    rounding: str = ""
    """EACH or ONCE: how rules compute gradients of 16-bit floats; nothing: as their arrays do."""
    holomorphic: bool = True
    """Rules may leave out conjugation (docs/notes/holomorphic-rules)."""
    gauge_outputs: tuple[str, ...] = ()
    """Outputs whose columns are free up to a phase; gradients must not depend on it."""
    batch: Callable[..., Any] | None = None
    """How it runs on stacked inputs: a family of dispatch/vmap, or a rule of its own; what follows
    from the parameters (dimensions shift, promoting ops are elementwise) need not be said."""
    node: str = ""
    """The name of its node (default: `name` in camel case, and Backward0)."""
    also_saves: tuple[str, ...] = ()
    """Further fields that torch's node has."""
    not_exposed: frozenset[str] = frozenset()
    """Fields that it has not."""
    zero_preserving: bool = False
    """Of one tensor, and zero where that is: of a sparse tensor it takes the values alone."""
    fused: tuple[str, ...] = ()
    """The inputs that torch's backward op takes beside the gradient, so that what it gives is a
    function of them, if only a constant one (see `op_node.Tied`)."""

    # Memory, and the in-place variant.

    view: bool = False
    """The result shares memory with self."""
    part: Callable[..., tuple[int, int, int]] | None = None
    """Of a view that takes a part of a dimension, from the index of the output and the arguments:
    which dimension, how many elements come before the part, and how many it has."""
    may_donate: bool = False
    """No view, but takes over the memory of an input that nobody else holds."""
    layout: str = ""
    """How results lie in memory: ROWS, CHANNELS, or as the kernel gives them."""
    layout_dependent: bool = False
    """Its result depends on the layout in memory."""
    inplace: bool | Callable[..., Any] = False
    """Has an in-place variant `name_`; a function `(xp, *params)` writes into self where that beats
    computing and copying."""
    inplace_function: bool = False
    """Whether torch has the in-place variant as a function, too: `torch.exp_(x)`."""
    inplace_node: str | dict[str, dict[str, Callable[..., Any]]] | None = None
    """The node's name where the in-place variant has one of its own, or {node: rules} where its
    rules differ, too; of several it is the first whose inputs were given as tensors."""
    vmap_inplace: str | None = None
    """What torch's vmap calls the in-place variant where it refuses an argument with a batch for a
    self without (default: "aten::name_"); "": it does so in the words of broadcasting."""
    may_alias: frozenset[str] = frozenset()
    """Inputs that may share memory with what the in-place variant writes."""
    no_overlap: bool = False
    """The others may not even be all of it: a write by index reads them in another order."""
    repeated: int | Callable[[Any, dict[str, Any]], int] = 0
    """What the in-place variant does where it writes expanded memory (see memory_overlap), or a
    function of target and values."""

    # The public function.

    public: bool = True
    """Whether there is one."""
    method: bool = True
    """Whether tensors have it as a method, too."""
    aliases: tuple[str, ...] = ()
    """Further names of the function, the method and the in-place variant."""
    public_name: str = ""
    """The public name in error texts, where several ops share one."""
    spaces: str = DERIVED
    """torch's namespaces that it stands in, under another name where one is said: "torch special",
    "nn.functional", "torch special.psi" (default: "torch" where it is public; `linalg_qr` and
    `special_i1` are `linalg.qr` and `special.i1`)."""
    profiled: str = ""
    """What the profiler calls it, as torch's does, where that is not its public name:
    "_unsafe_view", or OWN, its own name. A composite that is a function of Python in torch, too, is
    UNSEEN: what it calls is in a profile, it is not."""
    flops: str = ""
    """How a profile counts its floating-point operations: "elements", one for each of the result;
    "reduction", one for each of its input; "product" of matrices, which "product 1" has from its
    second argument on; "convolution"."""
    functional_inplace: str = ""
    """What torch.nn.functional has of the in-place variant: "flag" (`silu(x, inplace=True)`),
    "function" (`elu_(x)`), or both."""
    foreach: str = ""
    """What `torch._foreach_name` takes (see ag_visual.foreach): "unary", "binary alpha"."""
    operands: bool = False
    """Whether an error about shapes shows its first two arguments as the user wrote them."""
    out: bool | str = DERIVED
    """Whether it takes `out=` (default: an op that is not a view does); words say how torch treats
    it where that does not follow: "casts check_overlap" (see out_argument.WORDS)."""
    namedtuple: str | None = None
    """torch's name of the named tuple of its results."""
    doc: str | None = DERIVED
    """Its docstring, where the kernel's own does not serve."""
    formula: str | Callable[..., Any] | None = None
    """What readers see (observe.formulas), where reference or the name do not serve: a function of
    F and parameters, which the tests compute, or, with subscripts, an expression in quotes:
    "Sum(k, self[i, k] * mat2[k, j])"."""
    symbol: str = ""
    """How formulas write it: a sign between its inputs ("+", "mod"), a layout ("/", "ᵀ", "√", "e^",
    and the others of notation._LAYOUTS), another name ("σ"), or "self": as its input, for it
    changes nothing that a formula is about."""
    shape_only: bool = False
    """No view, but its elements are those of self in other places."""

    # The tests: `make(shape, low=, high=)` gives an array.

    samples: Callable[..., Iterable[Sample]] | None = None
    """Good calls, of `make`."""
    errors: Callable[..., Iterable[ErrorSample]] | None = None
    """Bad calls, of `make`."""
    reference: Any = None
    """The value by an independent formula `(numpy, *params)`."""
    oracle: Any = None
    """How torch is called, a dotted name or `(torch, *params)`, where it is not by the public name;
    False: not at all."""

    # What follows from these.

    signature: inspect.Signature = field(init=False)
    keyword: frozenset[str] = field(init=False)
    multi: bool = field(init=False)
    """Whether it gives a list."""
    arguments: tuple[str, ...] = field(init=False)
    """Parameters that are not tensors."""
    optional: frozenset[str] = field(init=False)
    """Tensors that may be None."""
    casts: dict[str, str] | None = field(init=False)
    """What `autocast` says by device type."""
    legacy_positional: tuple[str, ...] = field(init=False)
    """The factors that torch also takes, with a warning, by position before the tensors."""
    kinds: dict[str, Kind] = field(init=False)
    """What arguments take: told in the words of the public function, so by no other op."""
    narrows: bool = field(init=False)
    """NumPy makes float32 of bfloat16 and a Python number: the result is to be made narrow."""
    compared: tuple[str, ...] = field(init=False)
    """The inputs whose dtypes `dtype_check` looks at: the names of its parameters."""
    writes: Callable[..., Any] | None = field(init=False)
    """The kernel that writes into self."""
    node_name: str = field(init=False)
    rules: tuple[Rule, ...] = field(init=False)
    diff_inputs: tuple[str, ...] = field(init=False)
    """Inputs that have a rule, in parameter order: the node's edges."""
    not_implemented: bool = field(init=False)
    """Whether one of its rules raises, as torch's NotImplemented node."""
    saves: tuple[str, ...] = field(init=False)
    """Tensor fields of the node."""
    kept: tuple[str, ...] = field(init=False)
    """Those saved for no rule, as torch's formulas ask for them."""
    values: tuple[str, ...] = field(init=False)
    """Plain fields of the node."""
    shapes: tuple[str, ...] = field(init=False)
    """What rules ask about inputs: shapes, dtypes, strides, devices."""
    inplace_variants: tuple[Op, ...] = field(init=False)
    """Records of the in-place variant that have a node of their own."""
    node_class: Any = field(init=False, default=None)
    narrow_class: Any = field(init=False, default=None)
    """The class of its nodes whose results are 16-bit floats."""
    call: Callable[..., Any] = field(init=False)
    compute: Callable[..., Any] = field(init=False)
    straight: Callable[..., Any] = field(init=False)
    """`compute` without `out=`."""
    write: Callable[..., Any] = field(init=False)
    levelled: Any = field(init=False, default=None)
    """What is built of it for levels (`entry.Levelled`)."""

    def __post_init__(self) -> None:
        kernel, name = self.kernel, self.name
        if callable(kernel):
            parameters = list(inspect.signature(kernel).parameters.values())[1:]
        else:
            either = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters = [inspect.Parameter(p, either) for p in self.params or ("self",)]
        self.params = tuple(p.name for p in parameters)
        self.signature = inspect.Signature(parameters)
        self.keyword = frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
        self.multi = self.outputs == "list"
        self.outputs = ("result",) if self.multi else tuple(self.outputs)
        self.lists = tuple(self.lists)
        inputs = self.inputs
        if inputs is DERIVED:
            ruled = [name for key in self.vjp or {} for name in _inputs_of(key)]
            inputs = tuple({"self", "other", "input", *ruled}.difference(self.lists))
        self.inputs = tuple(p for p in self.params if p in inputs)
        self.arguments = tuple(p for p in self.params if p not in (*self.inputs, *self.lists))
        self.optional = frozenset(
            p for p in self.inputs if self.signature.parameters[p].default is None
        )
        if self.differentiable is DERIVED:
            self.differentiable = tuple(range(len(self.outputs)))
        factors = {"alpha", "beta", "value"}
        old = self.public and set(self.arguments) == self.keyword and self.keyword <= factors
        self.legacy_positional = tuple(p for p in self.params if old and p in self.keyword)
        kinds = {p: kind_of(self.signature.parameters[p]) for p in self.arguments if self.public}
        self.kinds = {name: kind for name, kind in kinds.items() if kind is not None}
        self.rounds = frozenset(self.inputs if self.rounds is DERIVED else self.rounds)
        self.no_promotion, self.may_alias = frozenset(self.no_promotion), frozenset(self.may_alias)
        self.not_exposed = frozenset(self.not_exposed)
        space, _, rest = name.partition("_")
        path = f"{space}.{rest}" if space in ("linalg", "special") else ""
        if self.spaces is DERIVED:
            self.spaces = "torch" if self.public else path if self.public_name in ("", path) else ""
        self.public_name = self.public_name or path or name
        self.doc = self.doc or (kernel.__doc__ if callable(kernel) else None)
        if not self.layout and "keepdim" in self.arguments and not self.view:
            self.layout = ROWS  # reductions keep no order of the dimensions that are left
        if self.out is DERIVED:
            self.out = not self.view and not self.may_donate
        others = {"dtype", "dim", "dims", "size", "input_sizes"}
        numbers = bool(self.arguments) and not others.intersection(self.arguments)
        self.narrows = self.policy != KEEP or (numbers and not self.view)
        self.compared = (
            ()
            if self.dtype_check is None
            else tuple(inspect.signature(self.dtype_check).parameters)
        )
        if callable(self.formula):
            self._requests(self.formula)
        self.writes = self.inplace if callable(self.inplace) else None
        if self.writes is not None and self.opmath:
            raise TypeError(f"op {name!r}: what writes into self is given no copy of it: opmath")
        self.inplace = bool(self.inplace)
        self.node_name = self.node or f"{camel(name)}Backward0"
        self.casts = casts_of(self.autocast)
        self._derive(self.vjp)
        if self.jvp not in (None, LINEAR, ELEMENTWISE):
            self.jvp = self._jvp(self.jvp)
        named = (
            {self.inplace_node: self.vjp}
            if isinstance(self.inplace_node, str)
            else self.inplace_node or {}
        )
        self.inplace_variants = tuple(self._variant(node, rules) for node, rules in named.items())

    def _derive(self, vjp: dict[Any, Callable[..., Any]] | None) -> None:
        """Take the rules, and collect what the node has because of them."""
        self.rules = tuple(self._rule(_inputs_of(k), rule) for k, rule in (vjp or {}).items())
        asked = {name for rule in self.rules for name in rule.inputs}
        self.diff_inputs = tuple(p for p in self.params if p in asked)
        self.not_implemented = any(
            isinstance(rule.function, NotDifferentiable) for rule in self.rules
        )
        self._collect()

    def _variant(self, node: str, vjp: dict[Any, Callable[..., Any]] | None) -> Op:
        """This op as its in-place variant is recorded, with a node and with rules of its own."""
        record = copy.copy(self)
        record.node_name = node
        record.inplace_variants = ()
        record._derive(vjp)
        return record

    def _known(self) -> dict[str, str]:
        known = dict.fromkeys(("F", "g", "gs", "needs"), "call")
        for name in (*self.inputs, *self.lists):
            known[name] = "saved"
            known[f"{name}_shape"] = "shape"
            known[f"{name}_dtype"] = "shape"
            known[f"{name}_strides"] = "shape"
            known[f"{name}_device"] = "shape"
        for name in self.outputs:
            known.setdefault(name, "saved")
        for name in self.arguments:
            known[name] = "value"
        return known

    def _requests(self, function: Callable[..., Any], extra: Iterable[str] = ()) -> tuple[str, ...]:
        known = {*self._known(), *extra}
        names = requests_of(function)
        for name in names:
            if name not in known:
                raise TypeError(
                    f"op {self.name!r}: a rule asks for {name!r}, which is none of "
                    f"{', '.join(sorted(known))}"
                )
        return names

    def _rule(self, key: tuple[str, ...], function: Callable[..., Any]) -> Rule:
        for name in key:
            if name not in self.params:
                raise TypeError(f"op {self.name!r}: a rule for {name!r}, which is not a parameter")
        return Rule(function, key, self._requests(function))

    def _jvp(self, rules: dict[str, Any]) -> dict[str, Any]:
        return {
            key: rule
            if rule in (LINEAR, ELEMENTWISE)
            else Rule(rule, (key,), self._requests(rule, [f"t_{key}"]))
            for key, rule in rules.items()
        }

    def _collect(self) -> None:
        known = self._known()
        asked = [r for rule in self.rules for r in rule.requests]
        ordered = dict.fromkeys([*asked, *self.also_saves])
        for name in self.also_saves:
            if known.get(name) not in ("saved", "value", "shape"):
                raise TypeError(f"op {self.name!r}: also_saves {name!r}, which it does not know")
        self.saves = tuple(n for n in ordered if known[n] == "saved")
        self.kept = tuple(n for n in self.saves if n not in asked)
        self.values = tuple(n for n in ordered if known[n] == "value")
        self.shapes = tuple(n for n in ordered if known[n] == "shape")

    def wanted_by(self, name: str) -> tuple[str, ...]:
        """The differentiable inputs whose rules ask for `name`.

        All of them when it is only kept and, as in torch, when several rules ask.
        """
        asking = [rule for rule in self.rules if name in rule.requests]
        rules = asking if len(asking) == 1 else self.rules
        return tuple(dict.fromkeys(i for rule in rules for i in rule.inputs))

    def shown(self, call: Callable[..., Any], inplace: str = "") -> Callable[..., Any]:
        """A call of this op, or of its in-place variant of that name, as `help` is to show it."""
        signature, doc = self.signature, self.doc
        if inplace:
            doc = f"`{self.public_name}`, written into its first argument, which it returns."
        elif self.out:
            more = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
            signature = signature.replace(parameters=[*signature.parameters.values(), more])
        call.__name__ = call.__qualname__ = inplace or self.name
        call.__doc__ = doc
        vars(call)["__signature__"] = signature
        return call

    # Views, as core.view replays them ------------------------------------------------------

    def view_array(self, xp: Any, array: Any, args: tuple[Any, ...]) -> Any:
        """This view of another array."""
        return self._kernel(xp)(array, *args)

    def replay(self, tensor: Any, args: tuple[Any, ...]) -> Any:
        return self.call(tensor, *args)

    def view_back(self, F: Any, g: Any, shape: tuple[int, ...], args: tuple[Any, ...]) -> Any:
        """The gradient of the viewed tensor (of `shape`) from that of the view."""
        known: dict[str, Any] = dict(zip(self.params[1:], args, strict=True))
        known.update(F=F, g=g, self_shape=shape)
        return self.rules[0](known)

    def invoke(self, xp: Any, values: dict[str, Any], *, writing: bool = False) -> Any:
        """The kernel (or the one that writes in place) on arrays and arguments by name."""
        positional = [values[p] for p in self.params if p not in self.keyword]
        named = {p: values[p] for p in self.keyword}
        writes = self.writes if writing else None
        kernel = self._kernel(xp) if writes is None else functools.partial(writes, xp)
        return kernel(*positional, **named)

    def _kernel(self, xp: Any) -> Callable[..., Any]:
        kernel = self.kernel
        if not isinstance(kernel, str):
            return functools.partial(kernel, xp)
        found: Callable[..., Any] = getattr(xp, kernel)
        return found

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _inputs_of(key: Any) -> tuple[str, ...]:
    """The inputs that a rule is for: one, or a tuple."""
    return (key,) if isinstance(key, str) else tuple(key)


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
