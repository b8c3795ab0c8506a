"""Differences on purpose: each with the sentence of docs/guide/differences.md that tells it, and
the shortest program that shows it.

A difference of tensors that stays does not end a program; an error of one engine alone does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .compare import (
    ELSEWHERE,
    FAILED,
    HERE_ALONE,
    IN_ORDER,
    IN_ROWS,
    INTEGERS,
    NOWHERE,
    OF_VIEWS,
    ONE_FINITE,
    OWN,
    PARTS,
    UNKNOWN,
    Difference,
)
from .program import Line, Program


@dataclass(frozen=True)
class Known:
    """A difference that stays."""

    name: str
    sentence: str
    program: str  # it shows the difference after its last line
    fits: Callable[[Difference, Line, Program], bool]  # given the line that named it, or raised
    ends: bool = False  # whether a program ends where it meets this difference of tensors
    often: bool = True  # whether it shows where all tensors are looked at after every line
    not_with: frozenset[str] = frozenset()  # vectors of torch's CPU code that do not have it


EMPTY = re.compile(r"\('', 0\), |, \('', 0\)")  # an edge that leads nowhere
WRITTEN = re.compile(r"(\w+)(?:\.(?:eq|ne|lt|le|gt|ge|fill)_\(|\[.*?\] = )")
GROWS = re.compile(r"out=|\.resize_\(")
FILLED = re.compile(r"\.(?:fill|zero|masked_fill|index_fill|tril|triu)_\(")
SET = re.compile(r"\w\[.*\] = ")
RESIZED = re.compile(r"out=(\w+)\)")
COMPLEX_PARTS = re.compile(r"\.(?:real|imag)\b|view_as_real")
NODES = re.compile(r"\w+Backward\d")
DATA_SET = re.compile(r"(\w+)\.data = ")
SHARED = "some elements of the input tensor and the written-to tensor refer"
ANGLES = re.compile(r"\.atan2_?\(")
OF_BOOLS = re.compile(r"(?:Subtraction|Negation), the `-` operator, (?:with|on) a bool tensor")
OF_SHAPES = re.compile(
    r"invalid gradient at index|[Ss]ize of tensor|broadcast shape|[Dd]imension"
    r"|could not broadcast input array"
)
# memory, as no view
LOOKS_INTO = re.compile(r"\.view\(torch\.|\.data$|\.detach\(\)$|Dirty\.apply\(")
NAME = re.compile(r"\bt\d+\b")
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]\d+)?")
VIEWED = re.compile(
    r"\.(?:view|reshape|flatten|ravel|view_as|t|transpose|permute|movedim|swapaxes|select|narrow"
    r"|squeeze|unsqueeze|expand|broadcast_to|diagonal|unfold|unflatten|as_strided|unbind|split"
    r"|chunk|tensor_split|detach)\(|\.(?:T|mT|data|real|imag)$|torch\.view_as_|\w\[|next\("
    r"|(?:AsItIs|Viewed)\.apply\("
)
NO_GRAPH = re.compile(r"no_grad|set_grad_enabled\(False\)|inference_mode")
KEEPS_GRAPH = re.compile(r"(?:retain|create)_graph=True")
MADE_OF_VIEWS = re.compile(
    r"\.repeat\(|torch\.stack\(|\.select_scatter\("
)  # what torch makes of views


def _itself(difference: Difference, line: Line) -> bool:
    """Has torch refused to copy a tensor of one row into this row, or one into itself?"""
    shared = "to a single memory location" in difference.theirs
    return shared and ROW.search(line.source) is not None


def _ancestry(name: str, program: Program) -> tuple[set[str], list[Line]]:
    """What a tensor was made from, itself included, and the lines that made it."""
    names, lines = {name}, []
    for line in reversed(program):
        if names & set(line.targets):
            names.update(NAME.findall(line.source))
            lines.append(line)
    return names, lines


def _comes_from(name: str, source: str, program: Program) -> bool:
    """Was a tensor made from another one, over however many lines?"""
    return name != source and source in _ancestry(name, program)[0]


def _reads_what_it_writes(program: Program) -> bool:
    """Does the last line write an `out=` into the memory of another one of its arguments?"""
    out = OUT.search(program[-1].source)
    if out is None:
        return False
    others = set(NAME.findall(program[-1].source)) - {out[1]}
    return any(_share(name, out[1], program[:-1]) for name in others)


def _share(name: str, other: str, program: Program) -> bool:
    """Have two tensors come from one by views alone?"""
    views = [line for line in program if VIEWED.search(line.source)]
    return bool(_ancestry(name, views)[0] & _ancestry(other, views)[0])


def _reordered(difference: Difference) -> bool:
    """Are both values the same numbers?"""
    ours, theirs = (sorted(NUMBER.findall(each)) for each in (difference.ours, difference.theirs))
    return ours == theirs


def _of_parts(name: str, program: Program) -> bool:
    """Does a tensor look into complex numbers as into real ones?"""
    return any(COMPLEX_PARTS.search(line.source) for line in _ancestry(name, program)[1])


def _gradient(line: Line) -> bool:
    return line.form.startswith("torch.autograd.grad(")


def _of(difference: Difference, pattern: re.Pattern[str], program: Program) -> bool:
    """Does some line of the program do that to the very tensor that differs?"""
    found = (pattern.search(line.source) for line in program)
    name = difference.name.removesuffix(".grad")
    return any(each is not None and each[1] == name for each in found)


def _refused_shape(difference: Difference) -> bool:
    """Has one engine refused a shape, or both in other words?"""
    told = difference.ours + difference.theirs
    if difference.kind == "class":
        ours = ("could not be broadcast", "Dimension out of range")
        return any(each in difference.ours for each in ours) and bool(OF_SHAPES.search(told))
    return difference.kind in ("accepts", "raises") and OF_SHAPES.search(told) is not None


def _text(program: Program) -> str:
    return "\n".join(line.source for line in program)


def _of_data_as_bits(program: Program) -> bool:
    """Is a view in another dtype of a tensor whose data were replaced written?"""
    text = _text(program)
    return bool(DATA_SET.search(text) and BITS.search(text))


def _transforms(line: Line) -> bool:
    return TRANSFORMS.search(line.form) is not None


def _moves(line: Line) -> bool:
    """Does a line compute a tangent?"""
    return MOVES.search(line.form) is not None


def _only_moved(name: str, program: Program) -> bool:
    """Is a tensor read by lines alone that compute tangents?"""
    readers = [line for line in program if name in NAME.findall(line.source.split(" = ")[-1])]
    return all(_moves(line) or HOOKED.search(line.source) for line in readers)


def second(name: str, program: Program) -> bool:
    """Was a tensor made from what a line has differentiated twice, or in slices?"""
    forms = [line.form for line in _ancestry(name.removesuffix(".grad"), program)[1]]
    return any(
        "create_graph" in form
        or (len(found := DERIVES.findall(form)) > 1 and set(found) != {"mapped("})
        for form in forms
    )


def _traced(program: Program) -> bool:
    return any("create_graph" in line.form for line in program)


# (The run itself sees whether it is so: by a second run that ends before the refused line.)
REFUSED = Known(
    "refused lines",
    "A line that is refused has changed nothing; torch may have written before it refuses.",
    """
with torch.inference_mode(): t0 = torch.zeros(2)
t0.exp_()
""",
    lambda difference, line, program: False,
)

CHOOSES = re.compile(r"\.(amax|amin|aminmax|norm)\(")
EXTREMES = re.compile(r"\b(a?max|a?min|aminmax|maximum|minimum|fmax|fmin|clamp\w*)_?\(")
SIGNS = re.compile(r"[\s-]")
UNPRINTED = "a tensor whose repr raises"
HUGE = re.compile(r"e\+3\d")
SORTS = re.compile(r"\.(?:arg)?sort\(")  # of which the indices may differ
UNUSUAL = re.compile(r"wild=|\b(?:inf|nan)\b")
PLACES = re.compile(
    r"scaled_dot_product_attention\(|MultiheadAttention\(|filled\(torch.nn.\{kind\}|conv\d|conv_transpose|\{name\}\("
)
BITS = re.compile(r"\.view\(torch\.")
SHADED = re.compile(r"A view was created in (?:inference|no_grad) mode and its base")
READ_TWICE = re.compile(r"\.(addcdiv|hypot|atan2)_?\(")  # two formulas read one operand
# (Seen by a third run, in which torch's digits replace ours after each line.)
DIGITS = Known(
    "last digits",
    "The last digits of a result may be others than torch's: what jumps (`//`, `>`, `floor`) or"
    " reads bits (`view(dtype)`) may show more of them.",
    "t0, t1 = torch.var_mean(torch.tensor([3., 3., 2.], dtype=torch.float64))\nt2 = 1 // t0",
    lambda difference, line, program: False,
)

# (Seen likewise, by a run in which zeros of such derivatives have torch's signs, too.)
SIGNED = Known(
    "signs of derivatives",
    "A second derivative that is zero, or one of slices, may be `-0.` in one engine alone; in torch"
    " its sign depends on the way to it (`jvp` of `grad`, or `grad` of `grad`; `vmap`, or not).",
    """
t0 = torch.zeros(1)
t1 = pushed(t0, lambda a: sloped(a, lambda a: a.tanh())).clone()
t2 = t1.rsqrt()
""",
    lambda difference, line, program: False,
)

TRANSFORMS = re.compile(
    r"pushed\(|moved\(|pulled\(|sloped\(|mapped\(|torch\.func\.|grads_batched|vectorize"
)
DERIVES = re.compile(r"pushed\(|moved\(|pulled\(|sloped\(|mapped\(")
RETURNS_LEAF = re.compile(r"(\w+)\.register_hook\(lambda g: \1\.\w+_\(")
HOOKED = re.compile(r"(\w+)\.register_hook\(")
UNDERIVED = re.compile(r" // |\{number\} % ")
MOVES = re.compile(r"pushed\(|moved\(|jacfwd")
NOT_ZERO = re.compile(r"[1-9]|inf|nan")
SAID = re.compile(r"(?:size|dtype)=(?:\(.*?\)|[\w.]+)")  # beside the numbers
NO_SLICES = re.compile(
    r"index 0 out of range for tensor of size \[[\d, ]*\b0\b|cannot reshape tensor of 0 elem"
)
ADDED = re.compile(
    r"\.(?:take|index_select|index_add_?|index_put|gather|prod|repeat_interleave)\("
    r"|\w\[torch\.arange|layer_norm|nll_loss|cross_entropy"
)
MANY = re.compile(r"\b\d{4,}\b|, \((?:64, 70|2, 40, 50|4, 3, 20, 20)\)")  # elements
ROW_DIGITS = re.compile(r"softmax\(.*\.(?:amax|amin|max|min)\(")
PHASES = re.compile(
    r"(?:\.(?:exp|pow|sinh|cosh|square|expm1|mul)_?\(| \*\* ).*\.(?:sin|cos|tan)_?\("
)
POWERS = re.compile(r" \*\* |\.pow_?\(")
BESIDE_BOOLS = re.compile(r" \*\* |\.pow_?\(|\.atan2_?\(|\.logaddexp\(")
# torch's refusals that we do not share.
LENIENT = re.compile(
    r'NotImplementedError: "\w+" not implemented for'
    r"|RuntimeError: Expected isFloatingType\(grad"
    r"|RuntimeError: arg(max|min)\(\): does not support (complex|bool) input"
    r"|RuntimeError: \w+ does not support automatic differentiation for outputs with complex"
    r"|RuntimeError: derivative for aten::remainder is not implemented"
    r"|RuntimeError: In-place abs is not supported for complex tensors"
    r"|RuntimeError: Tensor must have a (storage_offset divisible|stride divisible|last dimension)"
    r"|RuntimeError: self.(stride\(-?\d+\)|storage_offset\(\)) must be"
    r"|RuntimeError: value cannot be converted to type \w+ without overflow"
    r"|RuntimeError: vmap: Calling Tensor.as_strided is not supported unless the batch dims"
)
REAL_ONLY = re.compile(r"\"(median|amax|amin)\" not implemented for 'Complex")
# The same of an assertion that has no text of its own: a real operand's gradient stayed complex.
UNNAMED = "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex)"
MIXES = re.compile(r"\.logaddexp_?\(")
BRANCHES = re.compile(r"\.(?:sqrt|log|log1p|rsqrt|pow|angle)_?\(| \*\* ")
SIGNED_PARTS = re.compile(r"[\s+-]")
NEGATES = re.compile(r"\.neg_?\(")
ROW = re.compile(r"\b(\w+)(?:\[-?\d\] = \1|\.copy_\(\1\))$")
OUT = re.compile(r"\bout=(\w+)\)")
JOINS = re.compile(r"torch\.(?:cat|hstack)\(")
SCATTERS = re.compile(r"\.(select|slice|diagonal)_scatter\(")
LEAF_VIEW = re.compile(r"\)\.requires_grad_\(\)|^t\d+\.requires_grad_\(\)")
INTEGRAL = re.compile(
    r"torch\.tensor\([^.j]*\)$|dtype=torch\.(?:u?int|bool)|\.long\(\)$"
)  # integers, bools
REFUSED_VIEW = re.compile(
    r"is a view and its base or|[Vv]iew (of a view which )?was created in \w+"
)
TURNS = re.compile(r"(\w+)\.(?:t|transpose|squeeze|unsqueeze|as_strided)_\(")
# What a call says of a dtype, of memory or of what made a tensor, whatever else is wrong with it.
OTHER = re.compile(
    r"not implemented for|does not support|only support|Expected a floating point"
    r"|derivative for aten::\w+ is not implemented"
    r"|is a view and (its base|is being)|leaf Variable that requires grad"
    r"|[Vv]iew (of a view which )?was created in \w+ mode and (its base|is being)"
    r"|cannot be converted to type \w+ without overflow"
    r"|could not infer output dtype|setStorage: sizes|self indexing axis dim should be positive"
    r"|Inplace update to inference tensor outside InferenceMode"
)

KNOWN = [
    Known(
        "more lenient",
        "Some arguments that torch refuses are taken where the result is clear: `argmax` and `var`"
        " of bools, `softmax` and `silu` of complex numbers, the gradient of `number % tensor`,"
        " `x[0] = x` of one row, `x.copy_(x)`.",
        "t0 = torch.tensor([True, False]).argmax()",
        lambda difference, line, program: (
            (
                difference.kind == "accepts"
                and (
                    bool(LENIENT.match(difference.theirs))
                    or any(_itself(difference, each) for each in program)
                )
            )
            # It goes on to a hook, which fails.
            or (
                difference.kind == "class"
                and bool(LENIENT.match(difference.theirs))
                and any("register_hook" in each.form for each in program)
            )
        ),
    ),
    Known(
        "failures of torch's own",
        "Where torch fails an assertion of its own (`INTERNAL ASSERT FAILED`), the program goes "
        "on, or fails with a message that says why.",
        """
t0 = torch.ones(2).view(1, 2).requires_grad_()
t1 = torch.view_as_complex(t0)
t0.view(torch.float32).mul_(2)
t2 = t1 * 2
""",
        lambda difference, line, program: (
            FAILED in difference.theirs
            or (
                UNNAMED in difference.theirs
                and any(MIXES.search(each.form) or _transforms(each) for each in program)
            )
        ),
        ends=True,
    ),
    Known(
        "strides that nothing follows",
        "The stride of a dimension of size 1, and strides and offset of an empty tensor, say where"
        " no element is; they may be others than torch's, and so may the order in which a join of"
        " four or five dimensions, which goes by them, lies in memory.",
        "t0 = torch.ones(3, 1, 2).permute(2, 0, 1) * 1",
        lambda difference, line, program: (
            difference.about == NOWHERE
            or (
                difference.about == IN_ORDER
                and difference.ours.count(",") in (3, 4)
                and JOINS.search(line.form) is not None
            )
        ),
    ),
    Known(
        "nodes without a derivative",
        "The node of `//` has an edge for each operand, and `number % tensor` has a derivative.",
        "t0 = torch.ones(2, requires_grad=True)\nt1 = t0 // 1",
        lambda difference, line, program: (
            (difference.kind == "edges" and " // " in line.form)
            or difference.about == "RemainderBackward1 for NotImplemented"
            or (difference.kind == "edges" and line.form == "{number} % {x}")
            or (difference.kind == "edges" and "NotImplemented" in difference.theirs)
            or (
                difference.kind == "edges"
                and any(" // " in each.form or "% {x}" in each.form for each in program)
                and EMPTY.sub("", difference.ours) == difference.theirs
            )
        ),
    ),
    Known(
        "which mistake is told",
        "Of two mistakes in one call, as a dtype and a dimension, the other one may be reported.",
        "t0 = torch.tensor([1j]).max(1)[0]",
        lambda difference, line, program: (
            difference.kind == "class"
            and (
                bool(OTHER.search(difference.theirs) or OTHER.search(difference.ours))
                or _transforms(line)  # two levels, each with its own mistake
            )
        ),
    ),
    Known(
        "views of what was turned in place",
        "A view whose base was turned in place (`t_`, `squeeze_`, ...) is refused once either was"
        " written.",
        "t0 = torch.ones(2, 3, requires_grad=True) * 1\nt1 = t0[0]\nt0.t_()",
        lambda difference, line, program: (
            difference.ours.startswith(
                ("raises RuntimeError", "RuntimeError: A view cannot be fol")
            )
            and any(TURNS.search(each.source) for each in program)
        ),
        ends=True,
    ),
    Known(
        "complex views turned in place",
        "A view of another dtype (`view_as_real`, `.imag`, ...) that was turned in place has the"
        " node of what it is after a write; torch gives it that of what it was.",
        """
t0 = torch.tensor([1j], requires_grad=True)
t1 = torch.view_as_real(t0)
with torch.no_grad(): t1.t_()
""",
        lambda difference, line, program: (
            difference.kind in ("node", "edges")
            and NODES.findall(difference.ours) == ["AsStridedBackward0"]
            and NODES.findall(difference.theirs)
            in (["ViewAsRealBackward0"], ["ViewAsComplexBackward0"])
            and _of(difference, TURNS, program)
        ),
        ends=True,
    ),
    Known(
        "parts of complex numbers of another size",
        "A part of a complex tensor (`.real`, `.imag`, `view_as_real`) that an `out=` gave another"
        " size has the gradient of all its elements; torch refuses its backward, or leaves out"
        " those that were not among the elements before.",
        """
t0 = torch.tensor([1j, 1j], requires_grad=True)
t1 = t0.imag
with torch.no_grad(): torch.mul(torch.ones(1, 2), 2, out=t1)
t1.sum().backward()
""",
        lambda difference, line, program: (
            any(
                (grown := RESIZED.search(each.source)) is not None
                and _of_parts(grown[1], program)
                and (
                    difference.name.removesuffix(".grad") == grown[1]
                    or "invalid gradient at index" in difference.theirs
                    or _gradient(line)
                    or difference.kind == "grad"
                )
                for each in program
            )
            and difference.kind in ("accepts", "node", "edges", "values", "grad")
        ),
        ends=True,
    ),
    Known(
        "views after data = y",
        "A view `x` has, after `x.data = y` of another dtype and a write, its own node again; in"
        " torch it has that of `as_strided`.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True) * 1
t1 = t0[1:]
t1.data = torch.tensor([1j])
t1.mul_(2)
""",
        lambda difference, line, program: (
            difference.kind in ("node", "edges")
            and NODES.findall(difference.theirs)[:1] in (["AsStridedBackward0"], [])
            and (_of(difference, DATA_SET, program) or _of_data_as_bits(program))
        ),
        ends=True,
    ),
    Known(
        "isfinite of refused views",
        "`isfinite` reads values alone, also those of a view that autograd refuses.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True) * 1
t1 = t0.unbind(0)[0]
t0.mul_(2)
t2 = t1.isfinite()
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and line.form.endswith(".isfinite()")
            and bool(REFUSED_VIEW.search(difference.theirs))
        ),
    ),
    Known(
        "views that nobody has looked at",
        "A view whose base was written with what requires grad may be written; torch refuses to"
        " (`a leaf Variable that requires grad`) as long as nobody has looked at its `grad_fn`.",
        """
t0 = torch.tensor([1.], requires_grad=True)
t1 = torch.tensor([1.])
t2 = t1[:1]
t1.mul_(t0)
t2.mul_(2)
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "a leaf Variable that requires grad is being used" in difference.theirs
            and (written := NAME.search(program[-1].source)) is not None
            and any(
                written[0] in each.targets
                and VIEWED.search(each.source) is not None
                and LEAF_VIEW.search(each.source) is None
                for each in program
            )
        ),
        often=False,
    ),
    Known(
        "retained gradients of refused views",
        "`retain_grad()` looks at the node of a view whose base was written, and refuses what"
        " autograd refuses; in torch it does nothing where nobody has looked at that node.",
        """
t0 = torch.tensor(1., requires_grad=True)
with torch.no_grad(): t1 = t0[()]
t0.logical_and_(t0)
t1.retain_grad()
""",
        lambda difference, line, program: (
            difference.kind == "raises"
            and program[-1].form.endswith(".retain_grad()")
            and bool(REFUSED_VIEW.search(difference.ours))
        ),
    ),
    Known(
        "retained gradients and detach_",
        "`detach_()` ends `retain_grad`; in torch `retains_grad` stays True.",
        """
t0 = torch.ones(2, requires_grad=True) * 1
t0.retain_grad()
t0.detach_()
""",
        lambda difference, line, program: (
            difference.kind == "retains_grad"
            and difference.ours == "False"
            and any(".detach_()" in each.source for each in program)
        ),
        ends=True,
    ),
    Known(
        "memory that grew",
        "An `out=` that grows has memory of its own from then on: its `data`, and what was detached"
        " from it, keep what they had.",
        """
t0 = torch.ones(2)
t1 = torch.zeros(1)
t2 = t1.data
torch.mul(t0, 2, out=t1)
""",
        lambda difference, line, program: (
            difference.kind == "values"
            and line.source.endswith((".data", ".detach()"))
            and any(
                (found := RESIZED.search(each.source)) and f" = {found[1]}." in line.source
                for each in program
            )
        ),
        ends=True,
    ),
    Known(
        "writes into expanded memory",
        "What was filled through an expanded view has a gradient; torch refuses to compute it.",
        """
t0 = torch.ones(2, requires_grad=True) * 1
t1 = t0[:1].expand((3,))
t1.fill_(2)
t0.sum().backward()
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "more than one element of the written-to tensor" in difference.theirs
            and ("backward(" in line.form or _gradient(line))
            and any(FILLED.search(each.source) or SET.search(each.source) for each in program)
        ),
    ),
    Known(
        "graphs of what hooks return",
        "Without `create_graph=True` a gradient has no history, also where a hook gave it one.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = t0 * 1
t0.register_hook(lambda g: t1)
t2 = torch.autograd.grad(t0.sum(), [t0])[0]
""",
        lambda difference, line, program: (
            (difference.kind, difference.ours)
            in (("requires_grad", "False"), ("is_leaf", "True"), ("edges", "None"), ("node", ""))
            # (Here `grad` returns another tensor than a hook did.)
            + ((("base", difference.ours),) if RETURNS_LEAF.search(_text(program)) else ())
            and _gradient(line)
            and "create_graph" not in line.form
            and any("register_hook" in each.form for each in program)
        ),
        ends=True,
    ),
    Known(
        "gradients in hooks",
        "A gradient that a hook sees is memory of its own, which the hook may write.",
        "t0 = torch.ones(3, requires_grad=True)\n"
        "t0.register_hook(lambda g: g.mul_(2))\n"
        "t0.backward(torch.ones(()).expand((3,)))",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "more than one element of the written-to tensor" in difference.theirs
            and any("register_hook" in each.form for each in program)
        ),
    ),
    Known(
        "tangents that depend on nothing",
        "Where a second derivative is zero, a first one, a gradient or a tangent, may require grad"
        " in one engine alone, which then may also refuse its backward, call its hooks, leave a"
        " zero in `.grad`, or have a zero as gradient.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = torch.func.jvp(lambda a: a * 1, (t0,), (torch.ones(2),))[1].clone()
""",
        lambda difference, line, program: (
            (difference.kind in ("requires_grad", "is_leaf") and _transforms(line))
            or (
                difference.kind == "accepts"
                and "only for real scalar outputs but got torch.complex" in difference.theirs
                and _transforms(program[-1])
            )
            or (
                difference.kind == "raises"
                and "appears to not have been used in the graph" in difference.ours
                and any(map(_moves, program))
            )
            or (
                difference.kind == "accepts"
                and "Inference tensors cannot be saved for backward" in difference.theirs
                and any(map(_moves, program))
            )
            or (
                (
                    (difference.kind, difference.about) == ("grad", "values")
                    or re.search("has changed the (size|type) of value", difference.theirs)
                )
                and any(
                    (hooked := HOOKED.search(each.source)) and _only_moved(hooked[1], program)
                    for each in program
                )
            )
            or (
                difference.kind == "grad"
                and difference.about == "node"
                and (difference.ours, difference.theirs) == ("CopyBackwards", "AddBackward0")
                and any(map(_moves, program))
            )
            or (
                difference.kind == "raises"
                and "'NoneType' object has no attribute" in difference.ours
                and "allow_unused" in program[-1].form
                and any(map(_moves, program))
            )
            or (
                "none" in (difference.kind, difference.about)
                and difference.ours == "None"
                and not NOT_ZERO.search(SAID.sub("", difference.theirs))
                and any(map(_moves, program))
            )
        ),
        ends=True,
    ),
    Known(
        "tangents of zero",
        "A tangent that is zero is zero, and may be written; torch may refuse that (`ZeroTensors"
        " are immutable`), and multiplies zero with what is infinite, which is NaN.",
        """
t0 = torch.ones(2)
t1 = moved(t0, lambda a: moved(a, lambda a: a / 0.)).clone()
""",
        lambda difference, line, program: (
            (difference.kind == "accepts" and "ZeroTensors are immutable" in difference.theirs)
            or (
                (
                    (difference.kind == "values" and _transforms(line))
                    or (difference.kind == "grad" and any(map(_moves, program)))
                )
                and "nan" in difference.theirs
                and difference.about in (UNKNOWN, ONE_FINITE)
            )
        ),
        ends=True,
    ),
    Known(
        "dimensions of slices",
        "A write that would give a slice more dimensions is refused under `vmap` too; torch takes"
        " those of size 1.",
        "t0 = torch.func.vmap(lambda a: a.clone().mul_(torch.ones(1)))(torch.ones(2))",
        lambda difference, line, program: (
            difference.kind == "raises"
            and bool(re.search(r"match the broadcast shape|must match the size", difference.ours))
            and _transforms(program[-1])
        ),
    ),
    Known(
        "softmax of slices without dimensions",
        "Under `vmap` the gradient of `softmax` or `log_softmax` of a slice without dimensions is"
        " that of the slice alone, NaN where it is not finite; torch's is zero.",
        """
t0 = torch.tensor([0., float('inf')])
t1 = mapped(t0, lambda a: sloped(a, lambda a: a.softmax(-1))).clone()
""",
        lambda difference, line, program: (
            difference.about == HERE_ALONE
            and difference.kind in ("values", "grad")
            and any("softmax(" in each.source and "mapped(" in each.form for each in program)
        ),
        ends=True,
    ),
    Known(
        "gradients of tangents",
        "The tangent of `softmax` has a gradient, also where torch has written what it saved.",
        """
t0 = torch.ones(2, 3, dtype=torch.float64).t().requires_grad_()
t1 = pushed(t0, lambda a: a.softmax(-1)).clone()
t2 = torch.autograd.grad(t1, [t0], torch.ones_like(t1))[0].clone()
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "modified by an inplace operation" in difference.theirs
            and any("softmax" in each.source and _transforms(each) for each in program)
        ),
    ),
    Known(
        "tangents of inference tensors",
        "What is computed of an inference tensor that has a tangent has one, too; outside of"
        " inference mode torch loses it, but inside of `func.jvp`.",
        """
with torch.inference_mode(): t0 = torch.tensor(1.)
t1 = pushed(t0, lambda a: a.sin()).clone()
""",
        lambda difference, line, program: (
            "pushed(" in line.form
            and any("inference_mode" in each.mode for each in program)
            and (
                difference.kind in ("values", "shape", "stride", "dtype")
                # Of what has no tangent in torch nobody wants one.
                or (difference.kind == "raises" and "implement the jvp" in difference.ours)
            )
        ),
        ends=True,
    ),
    Known(
        "dtypes of tangents",
        "A tangent has the dtype of its tensor, also that of a 0-d one that a number divides.",
        "t0 = moved(torch.tensor(1.), lambda a: (a / 0.5).expand(2)).clone()",
        lambda difference, line, program: difference.kind == "dtype" and _transforms(line),
        ends=True,
    ),
    Known(
        "tangents of expanded tensors",
        "A tangent has memory of its own, also that of an expanded tensor, which torch refuses to"
        " write.",
        """
t0 = torch.tensor(1.).expand(3)
t1 = torch.func.jacfwd(lambda a: a.sin())(t0).clone()
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "more than one element of the written-to tensor" in difference.theirs
            and _transforms(program[-1])
        ),
    ),
    Known(
        "second gradients of zero",
        "Where a second derivative is zero, a first one, a gradient or a tangent, may require grad"
        " in one engine alone, which then may also refuse its backward, call its hooks, leave a"
        " zero in `.grad`, or have a zero as gradient.",
        """
t0 = torch.ones(0, requires_grad=True)
t1 = t0.as_strided((0,), (1,))
t2 = torch.autograd.grad((t1 * t1).sum(), [t0], create_graph=True)[0]
""",
        lambda difference, line, program: (
            (
                difference.kind in ("requires_grad", "is_leaf")
                and _gradient(line)
                and "materialize" not in line.form
            )
            or (difference.kind == "grad" and difference.about == "requires_grad")
            or (
                difference.kind == "grad"
                and difference.about == "node"
                and "" in (difference.ours, difference.theirs)
            )
            or (
                difference.kind == "accepts"
                and difference.ours == "nothing is raised"
                and "derivative for aten::floor_divide is not implemented" in difference.theirs
                and any(map(_transforms, program))
            )
        ),
        ends=True,
    ),
    Known(
        "view(dtype) in inference mode",
        "A view of a normal tensor that is made in inference mode is normal, by `view(dtype)` too.",
        "t0 = torch.ones(2)\nwith torch.inference_mode(): t1 = t0.view(torch.complex64)",
        lambda difference, line, program: (
            difference.kind in ("inference", "version") and ".view(torch." in line.form
        ),
        ends=True,
    ),
    Known(
        "writes into integers",
        "Integers and bools never require grad; in torch what is written into them (`eq_`, `fill_`,"
        " `x[...] = y`, ...) may make them require it, or be refused as a write into a view.",
        "t0 = torch.ones(2, requires_grad=True)\nt1 = torch.tensor([1, 2])\nt1.eq_(t0)",
        lambda difference, line, program: (
            (difference.about == INTEGERS and difference.ours == "False")
            or (
                difference.kind == "accepts"
                and bool(REFUSED_VIEW.search(difference.theirs))
                and (written := WRITTEN.match(program[-1].source)) is not None
                and any(INTEGRAL.search(each.source) for each in _ancestry(written[1], program)[1])
            )
        ),
        ends=True,
    ),
    Known(
        "data and inference",
        "A tensor is an inference tensor by how it was made; `x.data = y` does not change it.",
        "with torch.inference_mode(): t0 = torch.ones(2)\nt0.data = torch.ones(2)",
        lambda difference, line, program: (
            difference.kind == "inference" and _of(difference, DATA_SET, program)
        ),
        ends=True,
    ),
    Known(
        "versions of inference tensors",
        "No inference tensor has a version; in torch `detach()` of one does.",
        "with torch.inference_mode(): t0 = torch.ones(2)\nt1 = t0.detach()",
        lambda difference, line, program: (
            difference.kind == "version"
            and difference.ours.startswith("raises")
            and line.source.endswith(".detach()")
        ),
    ),
    Known(
        "inference tensors under vmap",
        "Under `vmap` an inference tensor of another dtype may be an operand of a write whose node"
        " saves it.",
        """
t0 = torch.tensor([1.], dtype=torch.float64, requires_grad=True)
with torch.inference_mode(): t1 = torch.tensor(1.) / 1
t2 = torch.func.vmap(lambda a: a.clone().mul_(t1))(t0)
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "Inference tensors cannot be saved for backward" in difference.theirs
            and _transforms(program[-1])
        ),
    ),
    Known(
        "data of inference tensors",
        "`data` of an inference tensor is a normal one, with a version; in torch it may be written"
        " as one too, but says that it is an inference tensor.",
        "with torch.inference_mode(): t0 = torch.ones(2)\nt1 = t0.data",
        lambda difference, line, program: (
            difference.kind == "inference"
            and difference.ours == "False"
            and line.source.endswith(".data")
        ),
        ends=True,
    ),
    Known(
        "inference tensors repeated",
        "`repeat`, `stack` and `select_scatter` of inference tensors give no view.",
        "with torch.inference_mode(): t0 = torch.ones(2)\nt1 = t0.repeat(2)",
        lambda difference, line, program: (
            (
                (
                    difference.kind in ("is_view", "base")
                    and (
                        difference.about in ("False for True", " for one without a name")
                        or difference.theirs == "one without a name"
                    )
                )
                or (difference.kind == "node" and difference.theirs == "AsStridedBackward0")
            )
            and any("inference_mode" in each.mode for each in program)
            and any(MADE_OF_VIEWS.search(each.source) for each in (line, *program))
        ),
    ),
    Known(
        "gradients of what was turned in place",
        "`retain_grad` follows a tensor that is turned in place (`t_`, ...), as it follows one that"
        " is written; in torch it keeps the gradient of what the tensor was, in its old shape.",
        """
t0 = torch.ones(2, 3, requires_grad=True) * 1
t0.retain_grad()
t0.t_()
t0.sum().backward()
""",
        lambda difference, line, program: (
            difference.kind == "grad" and _of(difference, TURNS, program)
        ),
    ),
    Known(
        "integers into bools",
        "An in-place operation whose result is not bool is refused for bools before anything "
        "else, and integers are never written into them.",
        "t0 = torch.tensor(True)\nt0.cumsum_(0)",
        lambda difference, line, program: (
            "cast to the desired output type" in (difference.ours + difference.theirs)
        ),
    ),
    Known(
        "no complex32",
        "There is no complex32.",
        "t0 = torch.tensor([1., 2.], dtype=torch.float16) * 1j",
        lambda difference, line, program: (
            difference.about == "complex64 for complex32"
            or difference.ours.startswith("RuntimeError: view_as_complex is only supported for flo")
        ),
        ends=True,
    ),
    Known(
        "converted sums",
        "`sum(dtype=...)` and its like convert by a node of its own.",
        "t0 = torch.ones(2, requires_grad=True)\nt1 = t0.sum(dtype=torch.float64)",
        lambda difference, line, program: (
            difference.kind == "edges"
            and "ToCopyBackward0" in difference.ours
            and any("dtype=" in each.form for each in program)
        ),
    ),
    Known(
        "order in memory",
        "A result of operands that are not row-major, and its gradient, may be row-major where"
        " torch's is not, or lie in memory in another order.",
        "t0 = torch.ones(2, 3).t()\nt1 = torch.ones(3, 2)\nt2 = t0 + t1",
        lambda difference, line, program: (
            difference.about == IN_ORDER
            or (
                difference.about == IN_ROWS
                and (difference.kind == "grad" or _gradient(line) or _transforms(line))
            )
            or (difference.about == OF_VIEWS and _gradient(line))
            or (difference.kind == "stride" and _of(difference, RESIZED, program))
            or (
                difference.kind == "values"
                and (out := OUT.search(program[-1].source)) is not None
                and _share(difference.name, out[1], program[:-1])
                and _reordered(difference)
            )
            or (
                difference.kind == "accepts"
                and "view size is not compatible with input tensor's size" in difference.theirs
            )
        ),
        ends=True,
    ),
    Known(
        "memory of gradients",
        "A gradient has memory of its own where torch's is a view: of the complex gradient that it"
        " is the real part of, or, behind `as_strided`, an expanded one.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = torch.autograd.grad((t0 * 1j).sum().real, [t0])[0]
""",
        lambda difference, line, program: difference.about == OWN and _gradient(line),
        ends=True,
    ),
    Known(
        "places of joined gradients",
        "The gradient of what `cat` joined has memory of its own; torch's is a part of the whole"
        " one.",
        """
t0 = torch.ones(1, requires_grad=True)
t1 = torch.cat([torch.ones(1), t0], 0)
t2 = torch.autograd.grad(t1.mul(2).sum(), [t0])[0]
""",
        lambda difference, line, program: (
            difference.kind == "offset"
            and difference.ours == "0"
            and _gradient(line)
            and any(JOINS.search(each.form) for each in program)
        ),
    ),
    Known(
        "memory around what is scattered into",
        "`select_scatter` and its like copy the elements of `input`, not the memory around them:"
        " the result starts at offset 0.",
        "t0 = torch.ones(2)[1:]\nt1 = t0.select_scatter(t0[0], 0, 0)",
        lambda difference, line, program: (
            difference.kind == "offset"
            and difference.ours == "0"
            and bool(SCATTERS.search(line.form))
        ),
        ends=True,
    ),
    Known(
        "conjugates",
        "`conj()` copies, and `is_conj()` is always False.",
        "t0 = torch.tensor([1j])\nt1 = t0.conj()",
        lambda difference, line, program: (
            difference.kind in ("is_view", "base") and line.form.endswith(".conj()")
        ),
    ),
    Known(
        "gradients are not views",
        "A gradient that is one number everywhere is expanded, as in torch, but it is not a "
        "view: `_is_view()` is False.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = torch.autograd.grad(t0.sum(), [t0])[0]
""",
        lambda difference, line, program: (
            difference.kind in ("is_view", "base") and _gradient(line)
        ),
    ),
    Known(
        "complex powers",
        "A complex zero to the power of zero is 1, as a real one; torch's is NaN. Other powers of a"
        " complex number that is not finite, or by one, may be NaN in one engine alone, too.",
        "t0 = torch.tensor([0j])\nt1 = t0 ** t0",
        lambda difference, line, program: (
            difference.about == ONE_FINITE and any(POWERS.search(each.form) for each in program)
        ),
        ends=True,
    ),
    Known(
        "parts of infinities",
        "A complex number that is not finite may have NaN or infinity in another of its parts.",
        "t0 = torch.tensor([complex(float('inf'), 1.), 1j]).cumprod(0)",
        lambda difference, line, program: difference.about == PARTS,
        ends=True,
    ),
    Known(
        "signs of zeros",
        "Of `0.` and `-0.` either one may be the maximum or minimum, or a part of a complex"
        " product, as a tangent is one, or of `-x`; roots, logarithms, powers and bits of it show"
        " which.",
        "t0 = 1 / torch.tensor([0., -0.]).amax(0)",
        lambda difference, line, program: (
            difference.kind == "values"
            and (
                (
                    SIGNS.sub("", difference.ours) == SIGNS.sub("", difference.theirs)
                    and (
                        (
                            "inf" in difference.ours
                            and any(EXTREMES.search(each.source) for each in program)
                        )
                        or ("3.14" in difference.ours and line.form.endswith(".angle()"))
                    )
                )
                or (
                    "j" in difference.theirs
                    and any(".neg" in each.form for each in program)
                    and any(BITS.search(each.source) for each in program)
                )
                or (
                    "j" in difference.theirs
                    and bool(BRANCHES.search(line.form + program[-1].form))
                    and any(map(_moves, program))
                )
            )
        ),
        ends=True,
    ),
    Known(
        "means of infinities",
        "The mean of `var_mean` and `std_mean` is that of `mean`: of an infinity too, where torch's"
        " is NaN.",
        "t0 = torch.var_mean(torch.tensor([float('inf'), 1.]))[1]",
        lambda difference, line, program: (
            difference.kind == "values"
            and line.form.startswith("torch.var_mean(")
            and difference.ours.startswith(("tensor(inf", "tensor(-inf"))
            and difference.theirs.startswith("tensor(nan")
        ),
        ends=True,
    ),
    Known(
        "gelu of infinity",
        "`gelu(inf)` is infinity in every dtype; torch's is NaN in some. From half of the largest"
        " number on, torch's is infinity.",
        "t0 = torch.nn.functional.gelu(torch.tensor([float('inf'), 1.]))",
        lambda difference, line, program: (
            difference.kind == "values"
            and "gelu(" in line.form
            and (
                ("inf" in difference.ours and "nan" in difference.theirs)
                or ("inf" in difference.theirs and HUGE.search(difference.ours) is not None)
            )
        ),
        ends=True,
        not_with=frozenset(("AVX2",)),
    ),
    Known(
        "softmax of empty integers",
        "`softmax` of integers, and `median`, `amax` and `amin` of complex numbers are refused,"
        " also where there are none.",
        "t0 = torch.zeros(0, dtype=torch.int64).softmax(0)",
        lambda difference, line, program: (
            difference.kind == "raises"
            and (
                'softmax_lastdim_kernel_impl"' in difference.ours
                or REAL_ONLY.search(difference.ours) is not None
            )
        ),
    ),
    Known(
        "indices into nothing",
        "An index into a dimension of size 0 is refused, also where torch does not look at it.",
        "t0 = torch.zeros(0, 0)\nt0.index_fill_(0, torch.tensor([0]), 1)",
        lambda difference, line, program: (
            difference.kind == "raises"
            and bool(re.search(r"out of bounds for dimension \d with size 0$", difference.ours))
        ),
    ),
    Known(
        "views of what has grown",
        "A tensor that is resized beyond its memory gets new one; views of it, and what it was"
        " detached from, stay in the old one.",
        """
t0 = torch.zeros(1)
t1 = t0[0]
torch.add(torch.ones(2), 1, out=t0)
""",
        lambda difference, line, program: (
            difference.kind == "values"
            and (out := OUT.search(program[-1].source)) is not None
            and (
                _comes_from(difference.name, out[1], program)
                or any(
                    out[1] in each.targets
                    and LOOKS_INTO.search(each.source)
                    and _comes_from(out[1], difference.name, program)
                    for each in program
                )
            )
        ),
        ends=True,
    ),
    Known(
        "views that have to grow",
        "A view does not grow beyond the memory that it looks into, as `out=` or by `resize_`.",
        "t0 = torch.ones(1).view(1)\ntorch.sin(torch.ones(2), out=t0)",
        lambda difference, line, program: (
            difference.kind == "raises"
            and bool(GROWS.search(line.form))
            and "Trying to resize storage that is not resizable" in difference.ours
        ),
    ),
    Known(
        "inference tensors behind detach()",
        "An inference tensor is not written outside inference mode through `detach()` either.",
        "with torch.inference_mode(): t0 = torch.ones(2) * 1\nt0.detach().mul_(2)",
        lambda difference, line, program: (
            difference.kind == "raises"
            and any(".detach()" in each.form for each in program)
            and "Inplace update to inference tensor outside" in difference.ours
        ),
    ),
    Known(
        "saved values that nobody reads",
        "A value that no wanted derivative reads is not saved: it may be written (the result of"
        " `**`, where the exponent requires no grad; what a tangent is made of), or be an inference"
        " tensor.",
        """
t0 = torch.tensor(2., requires_grad=True)
t1 = torch.tensor(2.)
t2 = t0 ** t1
t2.mul_(2)
t2.backward()
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and (
                (
                    "modified by an inplace operation" in difference.theirs
                    and (
                        "which is output 0 of Pow" in difference.theirs
                        or any(NO_GRAPH.search(each.mode) for each in program)
                        or any(READ_TWICE.search(each.form) for each in program)
                        or any("pushed(" in each.source for each in program)
                    )
                )
                or (
                    "Inference tensors cannot be saved" in difference.theirs
                    and bool(READ_TWICE.search(line.form))
                )
                or (
                    SHADED.search(difference.theirs) is not None
                    and ("backward(" in line.form or _gradient(line))
                )
            )
        ),
    ),
    Known(
        "detached in place after a transform",
        "What a transform has read may not be `detach_()`ed before the backward, as without one; in"
        " torch it may.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = t0 * 1
t2 = torch.func.vjp(lambda a: torch.func.jvp(torch.sin, (a,), (torch.ones(2),))[1], t1)[1](t1)[0]
t1.detach_()
t2.sum().backward()
""",
        lambda difference, line, program: (
            difference.kind == "raises"
            and "has been detached in-place" in difference.ours
            and any(map(_transforms, program))
        ),
    ),
    Known(
        "gradients with slices",
        "Gradients with slices (`is_grads_batched=True`, `vmap` of `autograd.grad`) are not kept at"
        " tensors outside on which `retain_grad()` was called; torch leaves a tensor there that can"
        " no longer be used.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = t0 * 2
t1.retain_grad()
t1.sum().backward(retain_graph=True)
t2 = torch.autograd.grad(t1, [t0], torch.ones(2, 2), is_grads_batched=True)[0]
""",
        lambda difference, line, program: (
            difference.kind == "grad"
            # what is empty is printed alike
            and (
                UNPRINTED in difference.theirs
                or difference.ours == difference.theirs
                or difference.theirs.startswith("tensor([]")
            )
            and any("grads_batched" in each.source for each in program)
        ),
    ),
    Known(
        "hooks after a turn",
        "A hook that is registered after its tensor was turned in place (`t_`, `squeeze_`, ...)"
        " gets the gradient of what it is now; in torch, where there is one from before, that of"
        " what it was.",
        """
t0 = torch.ones(1, 2, requires_grad=True)
t1 = t0 * 2
t1.register_hook(lambda g: t1.mul_(1) and None)
t1.t_()
t1.register_hook(lambda g: t1.mul_(2) and None)
t1.sum().backward()
""",
        lambda difference, line, program: (
            any("backward(" in each.form or _gradient(each) for each in program)
            and any(
                (turned := TURNS.search(each.source))
                and any(f"{turned[1]}.register_hook" in one.source for one in program[:at])
                and any(f"{turned[1]}.register_hook" in one.source for one in program[at:])
                for at, each in enumerate(program)
            )
        ),
    ),
    Known(
        "equal values",
        "`sort` keeps equal values in their order; torch, of more than 16 numbers, where it is told"
        " to (`stable=True`).",
        "t0, t1 = (torch.arange(40.) // 36).flip(0).sort()",
        lambda difference, line, program: (
            difference.kind == "values"
            and bool(SORTS.search(line.form))
            and "." not in difference.theirs  # the same indices in another order
            and sorted(NUMBER.findall(difference.ours)) == sorted(NUMBER.findall(difference.theirs))
        ),
    ),
    Known(
        "where a backward fails",
        "A backward that comes to `//`, or that fails at a hook of `number % tensor`, fails there:"
        " leaves that it has reached before have their gradient, and what it has passed is freed;"
        " torch's fails first.",
        """
t0 = torch.tensor(1., requires_grad=True)
t1 = torch.tensor(1., requires_grad=True)
t2 = t1 // 1
torch.autograd.backward([t0.sum(), t2.sum()])
""",
        lambda difference, line, program: (
            (
                difference.kind == "accepts"
                and "derivative for aten::floor_divide is not implemented" in difference.theirs
                and difference.ours != "nothing is raised"
            )
            or (
                difference.kind == "raises"
                and "backward through the graph a second time" in difference.ours
                and any(UNDERIVED.search(each.form) for each in program)
                and sum("backward(" in each.form or _gradient(each) for each in program) > 1
            )
            or (
                difference.kind == "grad"
                and difference.about in ("none", "values")
                and any("backward(" in each.form for each in program)
                and any(
                    (hooked := HOOKED.search(each.source))
                    and any(
                        hooked[1] in made.targets and UNDERIVED.search(made.form)
                        for made in program
                    )
                    for each in program
                )
            )
        ),
    ),
    Known(
        "gradients made in inference mode",
        "A `.grad` that was made in inference mode stays what it was where a backward outside of it"
        " is refused; torch adds to it first.",
        """
t0 = torch.tensor(1., requires_grad=True)
t1 = torch.tensor(1., requires_grad=True)
with torch.inference_mode(): t0.backward(torch.tensor(2.))
torch.autograd.backward([t0.sum(), t1.sum()])
""",
        lambda difference, line, program: (
            difference.kind == "grad"
            and difference.about == "values"
            and "backward(" in program[-1].form
            and any("inference_mode" in each.mode and "backward(" in each.form for each in program)
        ),
        ends=True,
    ),
    Known(
        "derivatives beside integers",
        "Derivatives beside bools and integers (`x ** y`, `y.atan2(x)`) are those of the numbers"
        " that they are; torch refuses to subtract or negate bools, and lets integers wrap around.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True)
t1 = t0 ** torch.tensor([True, False])
t1.sum().backward()
""",
        lambda difference, line, program: (
            (
                difference.kind == "accepts"
                and bool(OF_BOOLS.search(difference.theirs))
                and any(BESIDE_BOOLS.search(each.form) for each in program)
                and ("backward(" in line.form or _gradient(line))
            )
            or (
                (difference.kind == "grad" or (difference.kind == "values" and _gradient(line)))
                and any("torch.uint8" in each.source for each in program)
                and any(ANGLES.search(each.form) for each in program)
            )
        ),
        ends=True,
    ),
    Known(
        "formulas after data = y",
        "After `x.data = y` of another shape, what the derivative of an earlier operation on `x`"
        " reads has the old shape in one engine, the new one in the other: one of them may refuse."
        " So may torch where indices became floats."
        " A transform has read `x`; in torch a view of it, which keeps the old values.",
        """
t0 = torch.ones(2, 3, requires_grad=True) * 1
t1 = t0.gather(0, torch.zeros((2, 3), dtype=torch.int64))
t0.data = torch.ones(1, 3)
t1.sum().backward()
""",
        lambda difference, line, program: (
            ("backward(" in program[-1].form or _gradient(line) or _gradient(program[-1]))
            and any(
                (replaced := DATA_SET.search(each.source))
                and (
                    _refused_shape(difference)
                    or (difference.kind == "accepts" and "dtype int32/int64" in difference.theirs)
                    or (
                        difference.kind in ("values", "grad")
                        and any(
                            _transforms(reader) and replaced[1] in NAME.findall(reader.source)
                            for reader in program
                        )
                    )
                )
                for each in program
            )
        ),
        ends=True,
    ),
    Known(
        "cumprod of NaN and zero",
        "Where zero and NaN meet, the gradient of `cumprod` is that of the formula, NaN where a"
        " product has one; torch, without `create_graph=True`, has NaN at other places.",
        """
t0 = torch.tensor([float('nan'), 0.], requires_grad=True)
t0.cumprod(0).sum().backward()
""",
        lambda difference, line, program: (
            (difference.kind == "grad" or (difference.kind == "values" and _gradient(line)))
            and "nan" in difference.ours
            and "nan" in difference.theirs
            and any(".cumprod(" in each.form for each in program)
        ),
        ends=True,
    ),
    Known(
        "negative zeros of complex numbers",
        "`neg` turns the sign of a complex number's zero part, too; torch's does not where it takes"
        " several numbers at once, and a derivative's zero part may have the other sign: angles,"
        " roots, logarithms and powers show it.",
        "t0 = torch.full((16,), 2 + 0j).neg()\nt1 = t0.sqrt()",
        lambda difference, line, program: (
            (difference.kind == "values" or difference.about == "values")
            and ("j" in difference.theirs or ".angle(" in line.form)
            and (
                bool(BRANCHES.search(line.form + program[-1].form))
                or (
                    any(BRANCHES.search(each.form) for each in program)
                    and SIGNED_PARTS.sub("", difference.ours)
                    == SIGNED_PARTS.sub("", difference.theirs)
                )
            )
            and any(NEGATES.search(each.form) or _transforms(each) for each in program)
        ),
        ends=True,
    ),
    Known(
        "what a post-accumulate hook returns",
        "A post-accumulate hook that returns something is refused at once; torch gives that to the"
        " next hook first.",
        """
t0 = torch.tensor(1., requires_grad=True)
t0.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.) and None)
t0.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(1) and None)
t0.sum().backward()
""",
        lambda difference, line, program: (
            difference.kind == "class"
            and "post accumulate grad hooks should return None" in difference.ours
            and "'NoneType' object has no attribute" in difference.theirs
        ),
    ),
    Known(
        "derivatives that nobody wants",
        "Where no derivative of an operation is wanted, as that of a view made under `no_grad`, a"
        " backward goes on through what has none (`//`), and with `retain_graph=True` or"
        " `create_graph=True` through what was freed. A transform that has read such a view may go"
        " backward after its base was written.",
        """
t0 = torch.ones(2, requires_grad=True)
with torch.no_grad(): t1 = t0[:1]
(1 // t1).sum().backward()
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and difference.ours == "nothing is raised"
            and any(NO_GRAPH.search(each.mode) for each in program)
            and (
                "derivative for aten::floor_divide is not implemented" in difference.theirs
                or (
                    "created in no_grad mode and its base" in difference.theirs
                    and any(map(_transforms, program))
                )
                or (
                    "backward through the graph a second time" in difference.theirs
                    and KEEPS_GRAPH.search(program[-1].form) is not None
                    and any(
                        NO_GRAPH.search(each.mode) and VIEWED.search(each.source)
                        for each in program
                    )
                )
            )
        ),
    ),
    Known(
        "values saved by hooks",
        "What hooks (`saved_tensors_hooks`, `save_on_cpu`) saved of a result keeps its shape when"
        " that is turned in place (`t_`, `unsqueeze_`, ...); torch computes with the new shape."
        " Torch saves masks, too, and refuses one that a hook has made into numbers. The gradient"
        " of `cumprod` beside zeros is computed without its result; torch's shows what was written"
        " into one that `save_on_cpu` saved.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True)
with torch.autograd.graph.save_on_cpu(): t1 = t0.rsqrt()
t1.unsqueeze_(-1)
t1.sum().backward()
""",
        lambda difference, line, program: (
            (
                difference.kind == "accepts"
                and "where expected condition to be a boolean tensor" in difference.theirs
                and any("saved_tensors_hooks" in each.mode for each in program)
            )
            or (
                (
                    difference.kind in ("grad", "values")
                    or OF_SHAPES.search(difference.theirs) is not None
                )
                and any(
                    (
                        ("save_on_cpu" in each.mode or "saved_tensors_hooks" in each.mode)
                        and any(
                            (turned := TURNS.search(later.source)) and turned[1] in each.targets
                            for later in program
                        )
                    )
                    or ("save_on_cpu" in each.mode and ".cumprod(" in each.source)
                    for each in program
                )
            )
        ),
        ends=True,
    ),
    Known(
        "out= that is read",
        "What is written into an `out=` that shares memory with an argument is computed first;"
        " torch may read what it has written already. One that takes another shape is refused by"
        " the memory that it had in torch, by what it has then here.",
        """
t0 = torch.tensor([1., 2.])
t1 = t0.expand(2, 2)
torch.sin(t1, out=t0)
""",
        lambda difference, line, program: (
            (difference.kind == "values" or SHARED in difference.ours + difference.theirs)
            and _reads_what_it_writes(program)
        ),
        ends=True,
    ),
    Known(
        "gradients that are not finite",
        "An infinite or NaN gradient of `amax`, `amin` and `aminmax` goes to the elements that were"
        " chosen, one of `norm` at zero to none, one of `nan_to_num` to none that it replaced;"
        " torch multiplies it by zero there, which is NaN."
        " Beside NaN the gradient of their tangent is NaN everywhere; torch's is zero elsewhere.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True)
t0.amax().backward(torch.tensor(float('inf')))
""",
        lambda difference, line, program: (
            (
                difference.about == UNKNOWN
                or (difference.about == HERE_ALONE and any(map(_moves, program)))
            )
            and (
                any(CHOOSES.search(each.source) for each in program)
                or (
                    (difference.kind == "grad" or _gradient(line))
                    and any(".nan_to_num(" in each.source for each in program)
                )
            )
        ),
        ends=True,
    ),
    Known(
        "second derivatives of copysign",
        "The second derivative of `copysign` is zero at zero, too; torch's is NaN.",
        """
t0 = torch.zeros(1, requires_grad=True)
t1 = torch.autograd.grad(t0.copysign(1).sum(), [t0], create_graph=True)[0]
t1.sum().backward()
""",
        lambda difference, line, program: (
            difference.about == UNKNOWN
            and any(".copysign(" in each.form for each in program)
            and _traced(program)
        ),
        ends=True,
    ),
    Known(
        "zeros that grad() makes",
        "The zeros of `grad(..., materialize_grads=True)` require grad, as in 2.8.",
        """
t0 = torch.ones(2, requires_grad=True)
t1 = torch.ones(2, requires_grad=True)
t2 = torch.autograd.grad(t0.sum(), [t1], materialize_grads=True)[0]
""",
        lambda difference, line, program: (
            difference.kind == "requires_grad" and "materialize_grads" in line.form
        ),
    ),
    Known(
        "graphs of transforms",
        "What a transform computes (`func.vmap`, ...) has a graph of other nodes.",
        """
t0 = torch.ones(1, requires_grad=True)
t1 = torch.func.jvp(lambda a: a.softmax(-1), (t0,), (torch.ones(1),))[1].clone()
""",
        lambda difference, line, program: (
            difference.kind in ("node", "edges") and any(map(_transforms, program))
        ),
    ),
    Known(
        "no slices",
        "A `vmap` over no slices gives results without elements, also where torch looks for one. A"
        " stride of 0 that such a slice has is that of an expanded tensor.",
        "t0 = torch.func.vmap(lambda a: a * 1)(torch.zeros(0))",
        lambda difference, line, program: (
            _transforms(program[-1])
            and (
                (
                    difference.kind in ("accepts", "class")
                    and bool(NO_SLICES.search(difference.theirs))
                )
                or (
                    difference.kind == "raises"
                    and any("[]" in each.source for each in program)
                    and "more than one element of the written-to tensor" in difference.ours
                )
            )
        ),
    ),
    Known(
        "gradients of another shape",
        "A gradient has the shape of its tensor; torch gives a leaf that was turned in place (`t_`,"
        " ...) while an earlier result of it is alive one of one element, or of none, that has its"
        " shape from before. One of which torch repeats or adds up elements, as the `.data` of the"
        " leaf was replaced by one of other sizes, is refused.",
        """
t0 = torch.ones(2, 0, requires_grad=True)
t1 = t0.exp()
with torch.no_grad(): t0.t_()
t1.sum().backward()
""",
        lambda difference, line, program: (
            difference.kind == "raises"
            and "its data was replaced while an earlier result" in difference.ours
        ),
    ),
    Known(
        "graphs of gradients",
        "The graph of a gradient (`create_graph=True`) computes the same by other nodes.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True)
t1 = torch.autograd.grad(t0.var(), [t0], create_graph=True)[0]
""",
        lambda difference, line, program: (
            (difference.kind == "node" and _gradient(line))
            or (difference.kind == "edges" and _traced(program))
        ),
    ),
    Known(
        "bools under vmap",
        "`-` with a bool tensor without dimensions is refused under `vmap` too.",
        "t0 = torch.func.vmap(lambda a: torch.tensor(True) - a)(torch.ones(1))",
        lambda difference, line, program: (
            difference.kind == "raises"
            and _transforms(program[-1])
            and bool(OF_BOOLS.search(difference.ours))
        ),
    ),
    Known(
        "second slopes of prelu",
        "The second derivatives of `prelu` at zero are those of its first ones; torch's are those"
        " of a positive number.",
        """
t0 = torch.zeros(1, requires_grad=True)
t1 = torch.ones(1, requires_grad=True)
t2 = torch.autograd.grad(torch.nn.functional.prelu(t0, t1).sum(), [t0], create_graph=True)[0]
t3 = torch.autograd.grad(t2.sum(), [t1])[0]
""",
        lambda difference, line, program: (
            difference.kind == "values"
            and any("prelu(" in each.source for each in program)
            and any("create_graph=True" in each.source for each in program)
        ),
        ends=True,
    ),
    Known(
        "powers in a loss",
        "`soft_margin_loss` of large numbers (over 88 in float32) is finite; torch's powers"
        " overflow.",
        """
t0 = torch.nn.functional.soft_margin_loss(torch.tensor([-100.]), torch.ones(1))
""",
        lambda difference, line, program: (
            difference.kind == "values"
            and "inf" in difference.theirs
            and any("soft_margin_loss(" in each.source for each in program)
        ),
        ends=True,
    ),
    Known(
        "narrow sums",
        "Sums and products of many are computed in float32 and rounded once, also those of"
        " `index_add` and of the gradients of an index, an embedding and a `layer_norm`, where"
        " torch's end at 256 (bfloat16) or 2048 (float16) ones.",
        """
u0 = torch.ones(3000, dtype=torch.bfloat16, requires_grad=True)
u1 = torch.autograd.grad(u0.take(torch.zeros(3000, dtype=torch.int64)).sum(), [u0])[0]
""",
        lambda difference, line, program: (
            difference.kind == "values"
            and any(re.search(r"float16'?[,)]", each.source) for each in program)
            and any(ADDED.search(each.source) for each in program)
            and any(MANY.search(each.source) for each in program)
        ),
        ends=True,
    ),
    Known(
        "phases of large numbers",
        "`sin`, `cos` and `tan` of a number whose last digit is as large as a turn (`e ** 25` in"
        " float32) may be any.",
        """
t0 = torch.arange(40.)
t1 = mapped(t0, lambda a: sloped(a, lambda a: (a.exp()).clone().sin_()))
""",
        lambda difference, line, program: (
            difference.kind == "values" and PHASES.search(line.source) is not None
        ),
        ends=True,
    ),
    Known(
        "digits of rows",
        "Rows whose `softmax` is equal in torch may differ in their last digit, so that `amax` is"
        " in one of them.",
        """
t0 = torch.arange(6.).as_strided((2, 2), (1, 2), 1).requires_grad_()
t1 = pulled(t0, lambda a: (a.softmax(-1)).amax()).clone()
""",
        lambda difference, line, program: (
            difference.kind == "values" and ROW_DIGITS.search(line.source) is not None
        ),
        ends=True,
    ),
    Known(
        "hooks of slices",
        "A hook that gives a gradient with slices another dtype is refused, as one without is.",
        """
t0 = torch.tensor(1., dtype=torch.float64, requires_grad=True)
t1 = torch.tensor(1., requires_grad=True)
t1.register_hook(lambda g: t0.detach() * 0 + g)
t2 = torch.autograd.grad(t1, [t1], torch.ones(2), is_grads_batched=True)[0]
""",
        lambda difference, line, program: (
            difference.kind == "raises"
            and "has changed the type of value" in difference.ours
            and _transforms(program[-1])
        ),
    ),
    Known(
        "rates in tensors",
        "A learning rate that is a tensor is computed with in double precision, torch's in its own"
        " dtype.",
        """
p0 = torch.full((2,), 1e6, dtype=torch.float64).requires_grad_()
o0 = torch.optim.AdamW([p0], lr=torch.tensor(0.1), weight_decay=1)
p0.grad = torch.zeros_like(p0)
for _ in range(20): o0.step()
u0 = p0.detach().clone()
""",
        lambda difference, line, program: (
            difference.kind in ("values", "facts")
            and any("lr=torch.tensor(" in each.source for each in program)
        ),
        ends=True,
    ),
    Known(
        "averages of infinite gradients",
        "What an optimizer keeps of an infinite gradient is infinite where torch's `lerp` gives"
        " NaN.",
        """
p0 = torch.zeros(1, requires_grad=True)
o0 = torch.optim.Adam([p0], betas=(0.5, 0.9))
p0.grad = torch.full((1,), float('inf'))
o0.step()
u0 = o0.state[p0]['exp_avg'].clone()
""",
        lambda difference, line, program: (
            difference.about in (UNKNOWN, ELSEWHERE)
            and any(UNUSUAL.search(each.source) for each in program)
            and any("torch.optim." in each.form for each in program)
        ),
    ),
    Known(
        "places that do not count",
        "What is not finite at a masked place of an attention, behind a closed gate of a recurrent"
        " layer, beside the zeros around a convolution or in a query may be left out in one engine,"
        " and NaN in the other; torch's ways to compute one of them differ in it, too.",
        """
u0 = torch.full((2, 3, 1), float('nan'))
u1 = torch.nn.functional.conv1d(u0.nan_to_num(1.), u0[:, :, :1] , padding=2)
""",
        lambda difference, line, program: (
            difference.about in (UNKNOWN, ELSEWHERE, HERE_ALONE, ONE_FINITE, PARTS)
            and any(UNUSUAL.search(each.source) for each in program)
            and any(PLACES.search(each.form) for each in program)
        ),
    ),
    Known(
        "second gradients of norms",
        "second gradients of norms at zero are 0, torch's are nan",
        """
u0 = torch.zeros(1, requires_grad=True)
u1 = torch.autograd.grad(torch.nn.functional.normalize(u0, dim=0).sum(), [u0], create_graph=True)[0]
u2 = torch.autograd.grad(u1.sum(), [u0])[0]
""",
        lambda difference, line, program: (
            difference.about == UNKNOWN
            and any(".normalize(" in each.form for each in program)
            and sum("autograd.grad(" in each.form for each in program) > 1
        ),
    ),
    Known(
        "empty transposed convolutions",
        "A transposed convolution without output is refused; torch takes it where another library"
        " computes it.",
        "u0 = torch.nn.functional.conv_transpose1d(torch.ones(1, 6, 4), torch.ones(6, 1, 1),"
        " padding=2, dilation=3, groups=3)",
        lambda difference, line, program: (
            difference.kind == "raises" and "Output size is too small" in difference.ours
        ),
    ),
]


def known(difference: Difference, program: Program) -> Known | None:
    """The entry that a difference belongs to."""
    name = difference.name.removesuffix(".grad")
    made = next((line for line in program if name in line.targets), program[-1])
    return next((entry for entry in KNOWN if entry.fits(difference, made, program)), None)
