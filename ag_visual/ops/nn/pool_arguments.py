"""What pooling layers say of wrong sizes, in torch's words. Imported by the pooling ops alone."""

from __future__ import annotations

from ag_visual.dispatch.arguments import checked, kind_named

Ints = tuple[int, ...]
_COUNTS = {2: "two", 3: "three"}
_AXES = {2: "HW", 3: "THW"}


def option(name: str, what: str, value, rank: int) -> Ints:
    """One number for each spatial dimension, from one for all or from a sequence."""
    if type(value) is not int:
        value = checked(name, what, kind_named("SomeDims"), value)
    found = (value,) * rank if isinstance(value, int) else value
    if len(found) == 1:
        found = found * rank
    if len(found) != rank:
        raise RuntimeError(_other_count(name, what, len(found), rank))
    return found


def _other_count(name: str, what: str, count: int, rank: int) -> str:
    if rank == 1 and not name.startswith("max"):
        return f"{name}() argument '{what}' should contain one int (got {count})"
    if rank == 1:
        none = "None, " if what == "stride" else ""
        comma = "" if what in ("kernel_size", "dilation") else ","
        return (
            f"{name}() {what} must be {none}an int, list of ints{comma} or tuple of ints of size "
            f"1 but got size {count}"
        )
    omitted = "omitted, " if what == "stride" else ""
    verb = "must be either" if what == "dilation" else "must either be"
    verb = "must be" if name == "avg_pool3d" else verb
    return f"{name}: {what} {verb} {omitted}a single int, or a tuple of {_COUNTS[rank]} ints"


def steps(name: str, stride, kernel: Ints) -> Ints:
    """The stride, which is the kernel's size where it is left out (None, or no numbers at all)."""
    if stride is None or (isinstance(stride, (tuple, list)) and not stride):
        return kernel
    return option(name, "stride", stride, len(kernel))


def check_rank(name: str, shape: Ints, rank: int) -> None:
    """Raise RuntimeError where an input is neither one image nor a batch of them."""
    if len(shape) in (rank + 1, rank + 2):
        return
    if name == "max_pool1d":
        raise RuntimeError(_no_image(name, shape, rank))
    if rank == 1:
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {len(shape)}-dimensional tensor for argument #1 "
            f"'self' (while checking arguments for {name})"
        )
    raise RuntimeError(
        f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input\n{name}() "
        f"got an input of size {list(shape)}."
    )


def _no_image(name: str, shape: Ints, rank: int) -> str:
    head = f"{name}: " if rank == 1 else ""
    return (
        f"{head}Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with optional 0 dim batch "
        f"size for input, but got:{list(shape)}"
    )


def check_one(name: str, shape: Ints, options: tuple[Ints, Ints, Ints, Ints]) -> None:
    """max_pool1d's own words for its kernel, stride, padding and dilation."""
    (kernel,), (stride,), (padding,), (dilation,) = options
    for what, value in (("kernel_size", kernel), ("stride", stride)):
        if value <= 0:
            raise RuntimeError(f"{name}() {what} must be greater than zero, but got {value}")
    if padding < 0:
        raise RuntimeError(f"{name}() padding must be non-negative, but got {padding}")
    if padding > kernel // 2:
        raise RuntimeError(
            f"{name}() padding should be at most half of kernel size, but got padding={padding} "
            f"and kernel_size={kernel}"
        )
    if dilation <= 0:
        raise RuntimeError(f"{name}() dilation must be greater than zero, but got {dilation}")
    if 0 in shape[-2:]:
        raise RuntimeError(_no_image(name, shape, 1))
    size = (shape[-1] + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    if size < 1:
        raise RuntimeError(f"{name}() Invalid computed output size: {size}")


def check_windows(
    name: str, shape: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> None:
    """Raise RuntimeError where windows of these numbers cannot be laid over an image."""
    if 0 in stride:
        raise RuntimeError("stride should not be zero")
    for p, k, d in zip(padding, kernel, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but got pad: {p}")
        if k > 0 and d > 0 and p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
    rank = len(kernel)
    for what, axis, sizes in (
        ("kernel size", "k", kernel),
        ("stride", "d", stride),
        ("dilation", "dilation", dilation),
    ):
        if min(sizes) <= 0:
            raise RuntimeError(f"{what} should be greater than zero, but got {_each(axis, sizes)}")
    image = shape[-rank - 1 :]
    if rank == 2 and 0 in image:
        raise RuntimeError(_no_image(name, shape, rank))
    if 0 in image:
        op = f"{name}_with_indices_out_cpu_template" if name.startswith("max") else name
        raise RuntimeError(
            f"{op}(): Expected input's non-batch dimensions to have positive length, but input "
            f"has a shape of {list(shape)} and non-batch dimension {image.index(0)} has length "
            "zero!"
        )
    if name == "avg_pool3d" and any(n < k for n, k in zip(image[1:], kernel, strict=True)):
        raise RuntimeError(
            f"input image ({_each('', image[1:])}) smaller than kernel size ({_each('k', kernel)})"
        )


def check_results(shape: Ints, out: Ints) -> None:
    """Raise RuntimeError where not a single window fits into the image."""
    if min(out, default=1) < 1:
        channels = shape[-len(out) - 1]
        size = "x".join(map(str, (channels, *shape[-len(out) :])))
        result = "x".join(map(str, (channels, *out)))
        raise RuntimeError(
            f"Given input size: ({size}). Calculated output size: ({result}). Output size is too "
            "small"
        )


def _each(head: str, sizes: Ints) -> str:
    """'kH: 2 kW: 3'."""
    named = zip(_AXES[len(sizes)], sizes, strict=True)
    return " ".join(f"{head}{axis}: {n}" for axis, n in named)


def adaptive_size(name: str, shape: Ints, output_size, rank: int) -> Ints:
    """How many windows an adaptive layer lays along each dimension; None keeps a size."""
    if not isinstance(output_size, (tuple, list)):
        return option(name, "output_size", output_size, rank)
    spatial, count = shape[-rank:], len(output_size)
    if rank > 1 and len(shape) <= count:
        raise ValueError(f"Input dimension should be at least {count + 1}")
    if count != rank:
        if rank == 1:
            raise RuntimeError(_other_count(name, "output_size", count, 1))
        said = "()" if "max" in name else ""
        subject = "internal error: output_size.size()" if "max" in name else "output_size"
        raise RuntimeError(f"{name}{said}: {subject} must be {rank}")
    kept = tuple(n if o is None else o for o, n in zip(output_size, spatial, strict=True))
    return option(name, "output_size", kept, rank)


def check_not_negative(name: str, shape: Ints, size: Ints) -> None:
    """Raise RuntimeError for a negative number of windows."""
    if min(size) >= 0:
        return
    rank = len(size)
    if "max" in name:
        made = [*shape[:-rank], *size] if rank > 1 else [*shape[:-1], 1, *size]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {made}")
    sizes = ", ".join(map(str, (1, *size) if rank == 1 else size[:2]))
    sizes += "".join(f",{n}" for n in size[2:])
    name = name.replace("1d", "2d")
    raise RuntimeError(
        f"{name}: elements of output_size must be greater than or equal to 0 but received "
        f"{{{sizes}}}"
    )
