"""torch.utils.tensorboard: `SummaryWriter` of the package tensorboardX, which takes our tensors.

TensorBoard's own writer needs TensorFlow's file formats; tensorboardX has them without TensorFlow.
"""

from __future__ import annotations

from typing import Any

from ag_visual.core.tensor import Tensor

try:
    from tensorboardX import SummaryWriter as _Writer
except ImportError as error:
    raise ImportError(
        "torch.utils.tensorboard writes with the package tensorboardX, which is not installed: "
        "pip install tensorboardX"
    ) from error


def _as_arrays(value: Any) -> Any:
    """Tensors, also in lists and dictionaries, as arrays of NumPy."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return {key: _as_arrays(each) for key, each in value.items()}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(_as_arrays(each) for each in value)
    return value


class SummaryWriter(_Writer):  # type: ignore[misc]
    """Writes scalars, histograms, images and text that TensorBoard shows; see tensorboardX.

    Tensors may be given wherever it takes arrays. `add_graph` draws graphs of torch's tracer, which
    is not here: `ag_visual.to_dot(loss)` draws those of autograd.
    """

    def add_graph(self, model: Any, input_to_model: Any = None, *_: Any, **__: Any) -> None:
        """Raises NotImplementedError."""
        raise NotImplementedError(
            "add_graph is not here: there is no tracer. ag_visual.show(loss) and "
            "ag_visual.to_dot(loss) draw the graph of a loss."
        )


def _taking_tensors(name: str) -> Any:
    written = getattr(_Writer, name)

    def add(self: SummaryWriter, *args: Any, **kwargs: Any) -> Any:
        return written(self, *_as_arrays(args), **_as_arrays(kwargs))

    add.__name__, add.__doc__ = name, written.__doc__
    return add


for _name in dir(_Writer):
    if _name.startswith("add_") and _name not in vars(SummaryWriter):
        setattr(SummaryWriter, _name, _taking_tensors(_name))

__all__ = ["SummaryWriter"]
