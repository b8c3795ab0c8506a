"""Differences on purpose: each with the sentence of docs/guide/differences.md that tells it, and
the shortest program that shows it.

A difference of tensors that stays does not end a program; an error of one engine alone does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .compare import FAILED, IN_ORDER, NOWHERE, OWN, PARTS, UNKNOWN, Difference
from .program import Line, Program


@dataclass(frozen=True)
class Known:
    """A difference that stays."""

    name: str
    sentence: str
    program: str  # it shows the difference after its last line
    fits: Callable[[Difference, Line, Program], bool]  # given the line that named it, or raised
    ends: bool = False  # whether a program ends where it meets this difference of tensors


EMPTY = re.compile(r"\('', 0\), |, \('', 0\)")  # an edge that leads nowhere
WRITTEN = re.compile(r"(\w+)(?:\.(?:eq|ne|lt|le|gt|ge|fill)_\(|\[.*?\] = )")
GROWS = re.compile(r"out=|\.resize_\(")
FILLED = re.compile(r"\.(?:fill|zero|masked_fill|index_fill)_\(")
RESIZED = re.compile(r"out=(\w+)\)")
CONVERTED = re.compile(r"view_as_(?:real|complex)\(|\.(?:real|imag)\b")  # views of another dtype
DATA_SET = re.compile(r"(\w+)\.data = ")
OF_VIEWS = re.compile(r"\.repeat\(|torch\.stack\(|\.select_scatter\(")  # what torch makes of views


def _itself(difference: Difference, line: Line) -> bool:
    """Has torch refused to copy a tensor of one row into this row?"""
    shared = "refer to a single memory location" in difference.theirs
    return shared and ROW.search(line.source) is not None


def _comes_from(name: str, source: str, program: Program) -> bool:
    """Was a tensor made from another one, over however many lines?"""
    names = {name}
    for line in reversed(program):
        if names & set(line.targets):
            names.update(re.findall(r"\bt\d+\b", line.source))
    return name != source and source in names


def _gradient(line: Line) -> bool:
    return line.form.startswith("torch.autograd.grad(")


def _of(difference: Difference, pattern: re.Pattern[str], program: Program) -> bool:
    """Does some line of the program do that to the very tensor that differs?"""
    found = (pattern.search(line.source) for line in program)
    name = difference.name.removesuffix(".grad")
    return any(each is not None and each[1] == name for each in found)


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

CHOOSES = re.compile(r"\.(amax|amin|aminmax)\(")
READ_TWICE = re.compile(r"\.(addcdiv|hypot|atan2)_?\(")  # two formulas read one operand
# (Seen by a third run, in which torch's digits replace ours after each line.)
DIGITS = Known(
    "last digits",
    "The last digits of a result may be others than torch's: what jumps (`//`, `>`, `floor`) or"
    " reads bits (`view(dtype)`) may show more of them.",
    "t0, t1 = torch.var_mean(torch.tensor([3., 3., 2.], dtype=torch.float64))\nt2 = 1 // t0",
    lambda difference, line, program: False,
)

POWERS = re.compile(r" \*\* |\.pow_?\(")
# torch's refusals that we do not share.
LENIENT = re.compile(
    r'NotImplementedError: "\w+" not implemented for'
    r"|RuntimeError: arg(max|min)\(\): does not support (complex|bool) input"
    r"|RuntimeError: (std and var|var_mean) only support floating point and complex dtypes"
    r"|RuntimeError: linalg.vector_norm: Expected a floating point or complex tensor"
    r"|RuntimeError: \w+ does not support automatic differentiation for outputs with complex"
    r"|RuntimeError: derivative for aten::remainder is not implemented"
    r"|RuntimeError: In-place abs is not supported for complex tensors"
    r"|RuntimeError: Tensor must have a (storage_offset divisible|stride divisible|last dimension)"
    r"|RuntimeError: self.(stride\(-?\d+\)|storage_offset\(\)) must be"
    r"|RuntimeError: Bool(ean)? inputs not supported for"
    r"|RuntimeError: value cannot be converted to type \w+ without overflow"
)
ROW = re.compile(r"\b(\w+)\[-?\d\] = \1$")
OUT = re.compile(r"\bout=(\w+)\)")
SCATTERS = re.compile(r"\.(select|slice|diagonal)_scatter\(")
LEAF_VIEW = re.compile(r"\)\.requires_grad_\(\)|^t\d+\.requires_grad_\(\)")
REFUSED_VIEW = re.compile(
    r"is a view and its base or|[Vv]iew (of a view which )?was created in \w+"
)
TURNS = re.compile(r"(\w+)\.(?:t|transpose|squeeze|unsqueeze|as_strided)_\(")
# What a call says of a dtype, of memory or of what made a tensor, whatever else is wrong with it.
OTHER = re.compile(
    r"not implemented for|does not support|only support|Expected a floating point"
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
        " `x[0] = x` of one row.",
        "t0 = torch.tensor([True, False]).argmax()",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and bool(LENIENT.match(difference.theirs) or _itself(difference, program[-1]))
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
        lambda difference, line, program: FAILED in difference.theirs,
        ends=True,
    ),
    Known(
        "strides that nothing follows",
        "The stride of a dimension of size 1, and strides and offset of an empty tensor, say where"
        " no element is; they may be others than torch's.",
        "t0 = torch.ones(3, 1, 2).permute(2, 0, 1) * 1",
        lambda difference, line, program: difference.about == NOWHERE,
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
            and bool(OTHER.search(difference.theirs) or OTHER.search(difference.ours))
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
            difference.kind == "node"
            and difference.ours == "AsStridedBackward0"
            and difference.theirs in ("ViewAsRealBackward0", "ViewAsComplexBackward0")
            and _of(difference, TURNS, program)
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
            and any(FILLED.search(each.source) for each in program)
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
            difference.kind in ("edges", "node")
            and _gradient(line)
            and "create_graph" not in line.form
            and difference.ours in ("None", "")
            and any("register_hook" in each.form for each in program)
        ),
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
        "second gradients of zero",
        "Where a second gradient is zero, a first one may require grad in one engine alone.",
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
        ),
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
        " `x[...] = y`, ...) may make them require it.",
        "t0 = torch.ones(2, requires_grad=True)\nt1 = torch.tensor([1, 2])\nt1.eq_(t0)",
        lambda difference, line, program: (
            difference.kind == "requires_grad"
            and difference.ours == "False"
            and _of(difference, WRITTEN, program)
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
            difference.kind in ("is_view", "base")
            and difference.about in ("False for True", " for one without a name")
            and any("inference_mode" in each.mode for each in program)
            and bool(OF_VIEWS.search(line.source))
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
        "A result of operands that are not row-major may be row-major where torch's is not, or lie"
        " in memory in another order.",
        "t0 = torch.ones(2, 3).t()\nt1 = torch.ones(3, 2)\nt2 = t0 + t1",
        lambda difference, line, program: (
            difference.about == IN_ORDER
            or (difference.kind == "stride" and _of(difference, RESIZED, program))
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
        "gradients are no views",
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
        "zero to the power of zero",
        "A complex zero to the power of zero is 1, as a real one; torch's is NaN.",
        "t0 = torch.tensor([0j])\nt1 = t0 ** t0",
        lambda difference, line, program: (
            difference.kind == "values"
            and bool(POWERS.search(line.form + program[-1].form))
            and "j" in difference.theirs
            and "nan" in difference.theirs
            and bool(re.search(r"\b1\.0*(e\+00)?\+0", difference.ours))
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
        "`gelu(inf)` is infinity in every dtype; torch's is NaN in some.",
        "t0 = torch.nn.functional.gelu(torch.tensor([float('inf'), 1.]))",
        lambda difference, line, program: (
            difference.kind == "values"
            and "gelu(" in line.form
            and "inf" in difference.ours
            and "nan" in difference.theirs
        ),
        ends=True,
    ),
    Known(
        "softmax of empty integers",
        "`softmax` of integers and `median` of complex numbers are refused, also where there are"
        " none.",
        "t0 = torch.zeros(0, dtype=torch.int64).softmax(0)",
        lambda difference, line, program: (
            difference.kind == "raises"
            and (
                'softmax_lastdim_kernel_impl"' in difference.ours
                or '"median" not implemented for \'Complex' in difference.ours
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
        "A tensor that is resized beyond its memory gets new one; views of it stay in the old one.",
        """
t0 = torch.zeros(1)
t1 = t0[0]
torch.add(torch.ones(2), 1, out=t0)
""",
        lambda difference, line, program: (
            difference.kind == "values"
            and (out := OUT.search(program[-1].source)) is not None
            and _comes_from(difference.name, out[1], program)
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
        " `**`, where the exponent requires no grad), or be an inference tensor.",
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
                        or any("no_grad" in each.mode for each in program)
                        or any(READ_TWICE.search(each.form) for each in program)
                    )
                )
                or (
                    "Inference tensors cannot be saved" in difference.theirs
                    and bool(READ_TWICE.search(line.form))
                )
            )
        ),
    ),
    Known(
        "where a backward fails",
        "A backward that comes to `//` fails there: leaves that it has reached before have their"
        " gradient; torch's fails first.",
        """
t0 = torch.tensor(1., requires_grad=True)
t1 = torch.tensor(1., requires_grad=True)
t2 = t1 // 1
torch.autograd.backward([t0.sum(), t2.sum()])
""",
        lambda difference, line, program: (
            difference.kind == "accepts"
            and "derivative for aten::floor_divide is not implemented" in difference.theirs
            and difference.ours != "nothing is raised"
        ),
    ),
    Known(
        "gradients that are not finite",
        "An infinite or NaN gradient of `amax`, `amin` and `aminmax` goes to the elements that were"
        " chosen; torch multiplies it by zero for the others, which is NaN.",
        """
t0 = torch.tensor([1., 2.], requires_grad=True)
t0.amax().backward(torch.tensor(float('inf')))
""",
        lambda difference, line, program: (
            difference.about == UNKNOWN and any(CHOOSES.search(each.source) for each in program)
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
]


def known(difference: Difference, program: Program) -> Known | None:
    """The entry that a difference belongs to."""
    name = difference.name.removesuffix(".grad")
    made = next((line for line in program if name in line.targets), program[-1])
    return next((entry for entry in KNOWN if entry.fits(difference, made, program)), None)


# Causes that programs of the test's seed meet and that nobody has mended yet: kind, the guilty
# line's form, detail. What is mended goes from here; nothing is added.
OPEN = {
    (
        "accepts",
        "{w}.index_add_({dim}, torch.tensor([0]), {same}.narrow({dim}, 0, 1))",
        "RuntimeError: unsupported operation: some elements of the in",
    ),
}
