"""`backward` and `grad`: checks of what was asked for, then the engine.

Source: https://pytorch.org/docs/2.8/autograd.html#torch.autograd.backward
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import CodeType
from typing import Any
from weakref import ref

import numpy

from ag_visual import dtypes
from ag_visual.arrays.backend import backend_for, backend_of
from ag_visual.arrays.kernels.order import empty_as
from ag_visual.autograd.graph import GradientEdge
from ag_visual.core import modes, source
from ag_visual.core.level import Batched, Level, wrap
from ag_visual.core.node import Edge
from ag_visual.core.source import warn
from ag_visual.core.sparse import SparseTensor, tensor_of
from ag_visual.core.tensor import Tensor, accumulator, from_array, method
from ag_visual.devices import device as Device
from ag_visual.engine.run import run_backward, running
from ag_visual.errors import type_name
from ag_visual.events import instrument
from ag_visual.events.spans import OP
from ag_visual.events.timed import Span
from ag_visual.sizes import Size

End = Tensor | GradientEdge
"""Where a backward begins, or ends."""

Ends = End | Iterable[End]
Seeds = Tensor | Iterable[Tensor | None] | None


def _listed(value: Any) -> list[Any]:
    """One Tensor or edge, or what an iterable gives (`model.parameters()`), as a list."""
    if isinstance(value, (Tensor, GradientEdge)):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise TypeError(
            f"'{type_name(value)}' object is not iterable: pass a Tensor, a GradientEdge or "
            "several of them"
        ) from None


def _root(tensor: End, index: int) -> Edge:
    if isinstance(tensor, GradientEdge):
        return tensor.node.edge(tensor.output_nr)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"element {index} of tensors must be a Tensor, but got {type_name(tensor)}")
    edge = tensor.gradient_edge()
    if edge is None:
        running()  # recording may be off for a backward that has died
        raise RuntimeError(
            f"element {index} of tensors does not require grad and does not have a grad_fn: no "
            "operation on a tensor that requires grad led to it (or it was detached, or made "
            "under no_grad)"
        )
    return edge


def _facts(output: End) -> tuple[tuple[int, ...], dtypes.dtype, Device]:
    """Shape, dtype and device of a root, which may be a tensor or an edge."""
    if isinstance(output, GradientEdge):
        meta = output.node._input_metadata[output.output_nr]
        return tuple(meta.shape), meta.dtype, meta.device
    return output._array.shape, output.dtype, output.device


_ONE = {each: numpy.ones((), each) for each in map(numpy.dtype, ("float32", "float64"))}
"""Copying a number takes a third of the time of making one."""


def _plain_seed(array: Any, grad: Tensor | None) -> numpy.ndarray | None:
    """The array to start with, of the plain cases that need no question; None for all others."""
    if type(array) is not numpy.ndarray:
        return None
    if grad is None:
        dtype = array.dtype
        if array.ndim == 0 and dtype in _ONE:
            return _ONE[dtype].copy()
        return numpy.ones(array.shape, dtype) if array.size == 1 and dtype.kind == "f" else None
    if isinstance(grad, Tensor):
        given = grad._array
        if type(given) is numpy.ndarray and given.shape == array.shape:
            return given if given.dtype is array.dtype else None
    return None


def _seed(output: End, grad: Tensor | None, index: int) -> Tensor:
    """The gradient to start with: what was given, checked, or one for a real scalar."""
    if grad is None and instrument.spans is not None:
        with Span("aten::ones_like", OP):  # as which torch makes it
            return _seed_of(output, grad, index)
    return _seed_of(output, grad, index)


def _seed_of(output: End, grad: Tensor | None, index: int) -> Tensor:
    if isinstance(output, Tensor):
        plain = _plain_seed(output._array, grad)
        if plain is not None:
            return from_array(plain) if grad is None else grad
    shape, dtype, device = _facts(output)
    if grad is None:
        if math.prod(shape) != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs, but output "
                f"{index} has shape {list(shape)}: pass gradient=, or reduce it (.sum())"
            )
        if dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {dtype}"
            )
        return from_array(backend_for(device).xp.ones(shape, dtype=dtype.np))
    _check_kind(grad)
    if grad._array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {Size(grad.shape)} and "
            f"output[{index}] has a shape of {Size(shape)}."
        )
    if grad.dtype.is_complex != dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{index}] has a dtype of {grad.dtype} and "
            f"output[{index}] has a dtype of {dtype}."
        )
    if grad.device != device:
        raise RuntimeError(
            f"grad_output[{index}] is on {grad.device} but output[{index}] is on {device}: "
            "move one with .to(device)"
        )
    return grad if grad.dtype is dtype else grad.to(dtype)


def _check_kind(grad: object) -> None:
    if grad is not None and not isinstance(grad, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type_name(grad)}")


def _seeds(outputs: list[End], grads: Seeds) -> list[Tensor]:
    given = [None] * len(outputs) if grads is None else _listed(grads)
    for grad in given:
        _check_kind(grad)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    return [_seed(o, g, i) for i, (o, g) in enumerate(zip(outputs, given, strict=True))]


def backward(
    tensors: Ends,
    grad_tensors: Seeds = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Seeds = None,
    inputs: Ends | None = None,
) -> None:
    """Add the gradients of `tensors` with respect to the graph's leaves to their `.grad`.

    tensors: one Tensor or several (any iterable); grad_tensors: the vectors of the vector-Jacobian
    product, of the same shapes (may be left out for scalars). retain_graph: keep what the graph
    saved, for another backward (default: create_graph). create_graph: record the backward itself.
    inputs: accumulate only into these. Raises RuntimeError for a tensor that does not require grad,
    a mismatch in shape, a graph that was freed, a saved tensor that was modified.
    """
    if modes.special and modes.state.levels:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    if grad_variables is not None:
        warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if modes.special and modes.state.levels:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    outputs = _listed(tensors)
    edges = None
    if inputs is not None:
        inputs = _listed(inputs)
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        edges = [_input(t) for t in inputs]
    roots = [_root(t, i) for i, t in enumerate(outputs)]
    seeds = _seeds(outputs, grad_tensors)
    for tensor in inputs or ():  # now that all of the request is known to be sound
        if isinstance(tensor, Tensor) and not tensor.is_leaf:
            tensor.retain_grad()
    if create_graph:
        warn(
            "Using backward() with create_graph=True will create a reference cycle between the "
            "parameter and its gradient which can cause a memory leak. We recommend using "
            "autograd.grad when creating the graph to avoid this. If you have to use this "
            "function, make sure to reset the .grad fields of your parameters to None after use to "
            "break the cycle and avoid the leak."
        )
    run_backward(
        roots,
        seeds,
        retain=create_graph if retain_graph is None else retain_graph,
        create_graph=create_graph,
        call_site=source.here(),
        inputs=edges,
        tensors=[t if isinstance(t, Tensor) else None for t in outputs],
    )


def _input(tensor: End) -> Edge:
    if isinstance(tensor, GradientEdge):
        return tensor.node.edge(tensor.output_nr)
    if not isinstance(tensor, Tensor):
        raise RuntimeError(
            f"all inputs have to be Tensors or GradientEdges, but got {type_name(tensor)}"
        )
    edge = tensor.gradient_edge()
    if edge is None and tensor.requires_grad:
        return accumulator(tensor)  # a view of a leaf, made in no_grad: nothing flows into it
    if edge is None:
        raise RuntimeError(
            "One of the differentiated Tensors does not require grad: it has shape "
            f"{list(tensor.shape)} and dtype {tensor.dtype}"
        )
    return edge


def grad(
    outputs: Ends,
    inputs: Ends,
    grad_outputs: Seeds = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of `outputs` with respect to `inputs`, as a tuple; no `.grad` is touched.

    grad_outputs: as grad_tensors of `backward`. allow_unused: None for inputs that `outputs` do
    not depend on, instead of an error. materialize_grads: zeros for them. Shapes and dtypes are
    those of the inputs.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: "
            "allow_unused=False."
        )
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    wanted = _listed(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    results = _listed(outputs)
    roots = [_root(t, i) for i, t in enumerate(results)]
    edges = [_input(t) for t in wanted]
    call_site = source.here()
    retain = create_graph if retain_graph is None else retain_graph
    found: list[Any]  # None where nothing arrived
    if is_grads_batched:
        found = _batched(results, roots, edges, grad_outputs, retain, create_graph, call_site)
    else:
        found = run_backward(
            roots,
            _seeds(results, grad_outputs),
            retain=retain,
            create_graph=create_graph,
            call_site=call_site,
            inputs=edges,
            into_leaves=False,
            tensors=[t if isinstance(t, Tensor) else None for t in results],
        )
    if materialize_grads:
        return tuple(
            _zeros_of(t, not is_grads_batched) if g is None else g
            for t, g in zip(wanted, found, strict=True)
        )
    unused = [i for i, g in enumerate(found) if g is None]
    if not allow_unused and unused:
        raise RuntimeError(
            f"The differentiated Tensor at index {unused[0]} appears to not have been used in the "
            "graph. Set allow_unused=True if this is the desired behavior."
        )
    return tuple(found)


def _zeros_of(wanted: Tensor | GradientEdge, requires_grad: bool) -> Tensor:
    """The gradient of an input that nothing depends on, where zeros were asked for."""
    if isinstance(wanted, GradientEdge):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge: no gradient "
            f"arrived at output {wanted.output_nr} of {wanted.node.name()}"
        )
    if isinstance(wanted, SparseTensor):
        return tensor_of(wanted._array.nothing()).requires_grad_(requires_grad)
    zeros = empty_as(backend_of(wanted._array).xp, wanted._array)
    zeros[...] = 0
    return from_array(zeros, requires_grad)


def _batched(
    outputs: list[End],
    roots: list[Edge],
    edges: list[Edge],
    grad_outputs: Seeds,
    retain: bool,
    create_graph: bool,
    call_site: tuple[CodeType, int] | None,
) -> list[Tensor | None]:
    """One run in which every gradient is the slices of a batch: a vmap of the backward."""
    given: list[Any] = [None] * len(outputs) if grad_outputs is None else _listed(grad_outputs)
    for index, (output, g) in enumerate(zip(outputs, given, strict=True)):
        _check_kind(g)
        if g is None:
            _seed(output, None, index)  # refuses what is not a scalar
            raise ValueError(
                "is_grads_batched=True needs grad_outputs, whose first dimension is the batch: "
                f"expected a Tensor, but grad_output[{index}] is None"
            )
        if not g.dim():
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
                f"`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number: grad_output"
                f"[{index}] has no dimension that could be the batch"
            )
        shape = _facts(output)[0]
        if g._array.shape[1:] != shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                f"match the shape of corresponding output, but a mismatch was detected: "
                f"grad_output[{index}] has a shape of {Size(g.shape)} and output[{index}] has a "
                f"shape of {Size(shape)}."
            )
    sizes = [g.shape[0] for g in given]
    count = sizes[0]
    if any(n != count for n in sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    if not count:
        raise IndexError(
            "is_grads_batched=True needs a batch, but grad_output[0] has none (size 0)"
        )
    level = Level("vmap", count)

    def run() -> list[Tensor | None]:
        slices = [wrap(Batched, level, g) for g in given]
        return run_backward(
            roots,
            [_seed(o, g, i) for i, (o, g) in enumerate(zip(outputs, slices, strict=True))],
            retain=retain,
            create_graph=create_graph,
            call_site=call_site,
            inputs=edges,
            into_leaves=False,
        )

    found = level.run(run)
    return [None if g is None else level.whole(g) for g in found]


def _not_inside(what: str) -> None:
    """Raise inside of a transform, which has its own way to say what is differentiated."""
    if modes.special and modes.state.levels:
        perhaps = " (or perhaps using torch.autograd.functional.* APIs)"
        raise RuntimeError(
            f"You are attempting to call Tensor.{what}()"
            f"{perhaps if what == 'requires_grad_' else ''} inside of a function being transformed "
            "by a functorch transform. This is unsupported, please attempt to use the functorch "
            f"transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call {what}() outside of a "
            "function being transformed instead."
        )


@method("requires_grad_")
def _requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Say whether autograd should record operations on this leaf."""
    _not_inside("requires_grad_")
    return self._require_grad(requires_grad)


@method("retain_grad")
def _retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf in `.grad` during backward."""
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    _not_inside("retain_grad")
    node = self.grad_fn
    if node is not None:
        own = node._hooks()
        own.retain[self.output_nr] = ref(self)
        own.retained[self.output_nr] = source.here()


@method("backward")
def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Ends | None = None,
) -> None:
    """Add the gradients of this tensor with respect to the graph's leaves to their `.grad`."""
    plain = not modes.special and instrument.spans is None
    if plain and not create_graph and inputs is None:
        seed, edge = _plain_seed(self._array, gradient), self.gradient_edge()
        if seed is not None and edge is not None:
            run_backward(
                (edge,),
                (seed,),
                retain=bool(retain_graph),
                create_graph=False,
                call_site=source.here(),
                tensors=(self,),
            )
            return
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)
