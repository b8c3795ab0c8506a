"""How an op is declared: one record per op, from which everything else follows.

A rule's parameter names are its requests, unless it says them apart (`rules.asks`): `F` the op
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

from ag_visual.dispatch.arguments import kind_of
from ag_visual.dispatch.rules import Rule, requests_of

LINEAR = "linear"
"""jvp: the op is linear in all its differentiable inputs together."""

EACH = "each"
"""jvp: every element of an input has an effect on one element of the result only (pointwise ops,
reductions, sorted values), so that the vjp of ones is the slope of each."""

ROWS, CHANNELS = "rows", "channels"
"""How results lie in memory, whatever the kernel gives: row-major; row-major, or with the channels
of images last where the kernel has them there. Else it is as the kernel gives it."""

PROMOTE, FLOAT, KEEP = "promote", "float", "keep"
"""What happens to dtypes before the kernel: a common one; a common floating one; nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One call for the table-driven tests: arrays (or numbers) and plain arguments."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    # Whether finite differences make sense here (not at kinks, not for a random result).
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


class Op:
    """One differentiable operation (or one overload of it).

    Attributes that rules and tests read: `params` (the kernel's parameters after xp), `inputs`
    (those that are tensors), `lists` (those that are sequences of tensors), `outputs` (names),
    `differentiable` (which outputs), `rules`, `saves` (tensor fields in the node), `values`
    (plain fields in the node).
    """

    __slots__ = (
        "alike",
        "arguments",
        "apart",
        "aside",
        "batch",
        "call",
        "called",
        "check",
        "compared",
        "compute",
        "differentiable",
        "differentiated",
        "direct",
        "doc",
        "errors",
        "files",
        "formula",
        "free",
        "fused",
        "hidden",
        "holomorphic",
        "idle",
        "inplace",
        "inputs",
        "jvp",
        "keeps",
        "kept",
        "kernel",
        "keyword",
        "layout",
        "kinds",
        "lists",
        "method",
        "multi",
        "narrows",
        "older",
        "name",
        "node_class",
        "node_name",
        "normalize",
        "optional",
        "oracle",
        "out",
        "outputs",
        "params",
        "phases",
        "policy",
        "public",
        "real",
        "reference",
        "repeated",
        "reuses",
        "returns",
        "rules",
        "samples",
        "saves",
        "shapes",
        "signature",
        "strides",
        "table",
        "twins",
        "usual",
        "values",
        "varargs",
        "view",
        "write",
        "writes",
    )

    def __init__(
        self,
        name: str,
        kernel: str | Callable[..., Any],
        *,
        vjp: dict[Any, Callable[..., Any]] | None,
        jvp: Any,
        inputs: Sequence[str] | None,
        lists: Sequence[str],
        outputs: Sequence[str] | str,
        differentiable: Sequence[int] | None,
        policy: str,
        normalize: Callable[..., Any] | None,
        view: bool,
        inplace: bool | Callable[..., Any],
        holomorphic: bool,
        public: bool,
        method: bool,
        varargs: str | None,
        node: str | None,
        keeps: Sequence[str],
        hidden: Sequence[str],
        check: Callable[..., None] | None,
        returns: str | None,
        samples: Callable[..., Iterable[Sample]] | None,
        errors: Callable[..., Iterable[ErrorSample]] | None,
        table: Any,
        params: Sequence[str] | None = None,
        aside: Sequence[str] = (),
        called: str | None = None,
        doc: str | None = None,
        real: bool = False,
        strides: bool = False,
        reuses: bool = False,
        layout: str = "",
        phases: Sequence[str] = (),
        out: bool | None = None,
        batch: Callable[..., Any] | None = None,
        free: Sequence[str] = (),
        apart: bool = False,
        repeated: int | Callable[[Any, dict[str, Any]], int] = 0,
        alike: Callable[..., str | None] | None = None,
        usual: tuple[str, str, Any] | None = None,
        idle: Sequence[str] = (),
        oracle: Any = None,
        reference: Any = None,
        formula: str | Callable[..., Any] | None = None,
        twin: str | dict[str, dict[str, Callable[..., Any]]] | None = None,
        fused: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.table = table
        self.direct = kernel if isinstance(kernel, str) else None
        self.kernel = kernel
        if self.direct is not None:
            self.params = tuple(params or ("self",))
            self.signature = inspect.Signature(
                [inspect.Parameter(p, inspect.Parameter.POSITIONAL_OR_KEYWORD) for p in self.params]
            )
        else:
            assert callable(kernel)
            signature = inspect.signature(kernel)
            parameters = list(signature.parameters.values())[1:]
            self.params = tuple(p.name for p in parameters)
            self.signature = inspect.Signature(parameters)
        self.keyword = frozenset(
            p.name for p in self.signature.parameters.values() if p.kind is p.KEYWORD_ONLY
        )
        self.multi = outputs == "list"
        self.outputs = ("result",) if self.multi else tuple(outputs)
        self.lists = tuple(lists)
        if inputs is None:
            differentiated = [k for key in vjp or {} for k in _inputs_of(key)]
            known = {*differentiated, "self", "other", "input"}
            inputs = [p for p in self.params if p in known and p not in self.lists]
        self.inputs = tuple(p for p in self.params if p in inputs)
        # Parameters that are not tensors.
        self.arguments = tuple(
            p for p in self.params if p not in self.inputs and p not in self.lists
        )
        self.optional = frozenset(
            p for p in self.inputs if self.signature.parameters[p].default is None
        )
        self.differentiable = (
            tuple(range(len(self.outputs))) if differentiable is None else tuple(differentiable)
        )
        # The factors that torch also takes, with a warning, by position before the tensors.
        factors = {"alpha", "beta", "value"}
        old = public and set(self.arguments) == self.keyword and self.keyword <= factors
        self.older = tuple(p for p in self.params if old and p in self.keyword)
        # What arguments take: told in the words of the public function, so by no other op.
        kinds = {p: kind_of(self.signature.parameters[p]) for p in self.arguments if public}
        self.kinds = {name: kind for name, kind in kinds.items() if kind is not None}
        self.policy = policy
        self.aside = frozenset(aside)
        space, _, rest = name.partition("_")
        self.called = called or (f"{space}.{rest}" if space in ("linalg", "special") else name)
        self.doc = doc or (kernel.__doc__ if callable(kernel) else None)
        self.real = real
        self.strides = strides
        self.reuses = reuses
        # Reductions keep no order of the dimensions that are left.
        self.layout = layout or (ROWS if "keepdim" in self.arguments and not view else "")
        self.phases = tuple(phases)
        self.out = not view and not reuses if out is None else out
        self.batch = batch
        # NumPy makes float32 of bfloat16 and a Python number: the result is to be made narrow.
        others = {"dtype", "dim", "dims", "size", "input_sizes"}
        numbers = bool(self.arguments) and not others.intersection(self.arguments)
        self.narrows = policy != KEEP or (numbers and not view)
        self.free = frozenset(free)
        self.apart = apart
        self.repeated = repeated
        self.fused = tuple(fused)
        self.alike = alike
        # The inputs whose dtypes `alike` looks at: the names of its parameters.
        self.compared = () if alike is None else tuple(inspect.signature(alike).parameters)
        self.usual = usual
        self.hidden = frozenset(hidden)
        self.oracle = oracle
        self.reference = reference
        self.formula = formula
        if callable(formula):
            self._requests(formula)
        self.normalize = normalize
        self.check = check
        self.view = view
        self.inplace = bool(inplace)
        self.writes = inplace if callable(inplace) else None
        self.holomorphic = holomorphic
        self.public = public
        self.method = method
        self.varargs = varargs
        self.idle = tuple(idle)
        self.returns = returns
        self.samples = samples
        self.errors = errors
        self.node_name = node or f"{camel(name)}Backward0"
        self.keeps = tuple(keeps)
        self._derive(vjp)
        self.jvp = jvp if jvp in (None, LINEAR, EACH) else self._jvp(jvp)
        named = {twin: vjp} if isinstance(twin, str) else twin or {}
        self.twins = tuple(self._twin(name, rules) for name, rules in named.items())
        self.node_class: Any = None
        self.call: Callable[..., Any]
        self.compute: Callable[..., Any]
        self.write: Callable[..., Any]
        self.files = ""

    def _derive(self, vjp: dict[Any, Callable[..., Any]] | None) -> None:
        """Take the rules, and collect what the node has because of them."""
        self.rules = tuple(self._rule(_inputs_of(k), rule) for k, rule in (vjp or {}).items())
        # Inputs that have a rule, in parameter order: the node's edges.
        asked = {name for rule in self.rules for name in rule.inputs}
        self.differentiated = tuple(p for p in self.params if p in asked)
        self._collect(self.keeps)

    def _twin(self, node: str, vjp: dict[Any, Callable[..., Any]] | None) -> Op:
        """This op as its in-place form is recorded, with a node and with rules of its own."""
        record = copy.copy(self)
        record.node_name = node
        record.twins = ()
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
                raise TypeError(f"op {self.name!r}: a rule for {name!r}, which is no parameter")
        return Rule(function, key, self._requests(function))

    def _jvp(self, rules: dict[str, Any]) -> dict[str, Any]:
        return {
            key: rule
            if rule in (LINEAR, EACH)
            else Rule(rule, (key,), self._requests(rule, [f"t_{key}"]))
            for key, rule in rules.items()
        }

    def _collect(self, keeps: Sequence[str]) -> None:
        known = self._known()
        asked = [r for rule in self.rules for r in rule.requests]
        ordered = dict.fromkeys([*asked, *keeps])
        for name in keeps:
            if known.get(name) not in ("saved", "value", "shape"):
                raise TypeError(f"op {self.name!r}: keeps {name!r}, which it does not know")
        self.saves = tuple(n for n in ordered if known[n] == "saved")
        # Saved for no rule, as torch's formulas ask for it.
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

    @property
    def public_signature(self) -> inspect.Signature:
        """The kernel's, with `out` where the op takes it."""
        if not self.out:
            return self.signature
        more = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
        return self.signature.replace(parameters=[*self.signature.parameters.values(), more])

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
        if writing:
            return self.writes(xp, *positional, **named)  # type: ignore[misc]
        return self._kernel(xp)(*positional, **named)

    def _kernel(self, xp: Any) -> Callable[..., Any]:
        if self.direct is not None:
            return getattr(xp, self.direct)  # type: ignore[no-any-return]
        return functools.partial(self.kernel, xp)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _inputs_of(key: Any) -> tuple[str, ...]:
    """The inputs that a rule is for: one, or a tuple."""
    return (key,) if isinstance(key, str) else tuple(key)


def camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
