"""What linear algebra asks of its arguments, and the words its rules are written in.

Used by the op files of linear algebra and of the Fourier transform, and by nothing else. The
functions of a rule take the namespace `F` and work on arrays and on Tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual import dtypes
from ag_visual.core.level import all_values
from ag_visual.dispatch.families import is_complex
from ag_visual.dispatch.table import composite
from ag_visual.dispatch.vmap import Batch, Rule, each
from ag_visual.errors import LinAlgError


def composed(
    path: str, out: bool | str = False, autocast: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a composite that is public as `linalg.<name>` or `fft.<name>`; the rest: see `Op`."""
    name = path.replace(".", "_")
    return composite(name, public=False, out=out, spaces=path, autocast=autocast)


# Batches ------------------------------------------------------------------------------------------


def whole(batch: Batch):
    """Every input with the batch in front: for ops whose inputs do not broadcast."""
    return batch.run(**{name: batch.full(name) for name in batch.tensors})


def completed(rule: Rule) -> Rule:
    """A rule whose op gives an empty vector for what was not asked for."""
    return lambda batch: asked_for(batch, rule(batch))


def asked_for(batch: Batch, results: Any) -> Any:
    """The results of a batch, of which empty vectors stand for what was not asked for."""
    if not batch.size:
        raise ValueError("of no slices all may be empty vectors: ask one")
    return each(lambda x: batch.filled(x, tuple(x.shape) != (0,)), results)


# Checks -------------------------------------------------------------------------------------------


def array_of(x):
    """The array of a Tensor; an array itself."""
    return getattr(x, "_array", x)


def kind_of(a) -> str:
    """'Float', 'Long': the dtype as torch's errors call it."""
    return dtypes.of_array(a).scalar_name


def check_kind(name: str, a, low_allowed: bool = False) -> None:
    """Refuse integers, and floats that no LAPACK knows."""
    if a.dtype.char in "fdFD":
        return
    if a.dtype.kind not in "fcV":
        raise RuntimeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {kind_of(a)}"
        )
    if not low_allowed:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {kind_of(a)}")


def check_matrix(name: str, a, low_allowed: bool = False) -> None:
    """Refuse vectors and numbers."""
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    check_kind(name, a, low_allowed)


def check_square(name: str, a, low_allowed: bool = False) -> None:
    """Raise unless this is a batch of square matrices."""
    if a.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor A must have at least 2 dimensions.")
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(
            f"{name}: A must be batches of square matrices, but they are {a.shape[-2]} by "
            f"{a.shape[-1]} matrices"
        )
    check_kind(name, a, low_allowed)


def check_same_kind(name: str, a, b) -> None:
    """Refuse two dtypes."""
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: Expected A and B to have the same dtype, but found A of type {kind_of(a)} "
            f"and B of type {kind_of(b)} instead"
        )


def check_info(name: str, info, text: str) -> None:
    """Raise LinAlgError for the first matrix whose `info` is positive; `text` may name {info}."""
    found = all_values(info)
    if not bool(found.any()):
        return
    flat = found.reshape(-1)
    at = next(i for i in range(flat.size) if int(flat[i]))
    where = f"(Batch element {at}): " if found.ndim else ""
    raise LinAlgError(f"{name}: {where}{text.format(info=int(flat[at]))}")


# Words of the rules -------------------------------------------------------------------------------


def turned(F, x):
    """Each matrix transposed."""
    return F.transpose(x, -2, -1) if F.traced else x.swapaxes(-1, -2)


def adjoint(F, x):
    """Each matrix transposed and conjugated."""
    return turned(F, F.conj(x) if is_complex(x) else x)


def product(F, *factors):
    """The product of matrices, from the left to the right."""
    result = factors[0]
    for factor in factors[1:]:
        result = F.matmul(result, factor)
    return result


def diagonal(F, x):
    """The diagonal of each matrix."""
    return F.diagonal(x, 0, -2, -1)


def embedded(F, x):
    """Each vector as the diagonal of a matrix."""
    return F.diag_embed(x, 0, -2, -1)


def column(F, x):
    """Each vector as a matrix of one column."""
    return F.unsqueeze(x, -1)


def row(F, x):
    """Each vector as a matrix of one row."""
    return F.unsqueeze(x, -2)


def real_part(F, x):
    """The real part; a real tensor itself."""
    return F.real(x) if is_complex(x) else x


def conj(F, x):
    """The conjugate; a real tensor itself."""
    return F.conj(x) if is_complex(x) else x


def off_diagonal(F, x):
    """A square matrix with zeros on its diagonal."""
    return F.where(F.diagonal_mask(x, *tuple(x.shape)[-2:]), 0.0, x)


def with_diagonal(F, x, diagonal_):
    """A square matrix with another diagonal."""
    return off_diagonal(F, x) + embedded(F, diagonal_)


def identity(F, like, n: int):
    """The n by n identity in the dtype of another."""
    mask = F.diagonal_mask(like, n, n)
    return F.where(mask, F.zeros_of(like, (n, n)) + 1, F.zeros_of(like, (n, n)))


def columns(F, x, start: int, stop: int):
    """Columns start to stop of each matrix."""
    return x[..., start:stop]


def rows(F, x, start: int, stop: int):
    """Rows start to stop of each matrix."""
    return x[..., start:stop, :]


def triangular(F, a, b, **options):
    """X with A X = B, A triangular."""
    return F.linalg_solve_triangular(a, b, **options)
