"""torch's own bad calls of its ops (OpInfo's error inputs): the same type of error is raised here.

`python -m tests.properties.test_error_inputs [name ...]` prints the calls whose first line differs.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

from ..groups import each
from ..oracle import opinfos, torch
from . import opinfo

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]

NUMBER = "a number is taken where torch wants a Tensor"
DUNDERS = "__radd__ __rand__ __rmod__ __rmul__ __ror__ __rpow__ __rsub__ __rxor__"
NO_TENSOR = "the method of a number that is not a Tensor: torch's is a slot of a C type"
BOTH = "atan2 fmax fmin gcd heaviside hypot lcm ldexp logaddexp logical_and logical_or logical_xor"
FIRST = "copysign eq fmod ge gt le lt ne rsub"
# Calls that differ, by name and place in torch's list; a reason that no longer holds fails.
DIFFERS: dict[str, dict[int, str]] = {
    **{name: {0: NUMBER, 1: NUMBER} for name in (*BOTH.split(), "maximum", "minimum", "nextafter")},
    **{name: {0: NUMBER} for name in FIRST.split()},
    **{name: {1: NUMBER} for name in ("clamp_max", "clamp_min", "max", "min")},
    "isclose": {2: NUMBER, 3: NUMBER},
    **{name: {0: NO_TENSOR} for name in DUNDERS.split()},
    "__rdiv__": {0: NO_TENSOR, 1: NO_TENSOR},
    "narrow_copy": {1: "IndexError as of narrow, where torch's own assertion fails"},
}


def _infos() -> list[Any]:
    return [info for info in opinfos() if info.error_inputs_func is not None]


def _names() -> list[str]:
    return sorted({info.name for info in _infos()}) if torch.__version__ else []


def translated(value: Any) -> Any:
    """torch's arguments as ours; tensors share memory where theirs do."""
    tensors = opinfo.leaves_of(value, torch.Tensor)
    at = [(tensor.untyped_storage(), tensor) for tensor in tensors]
    starts = Counter(store.data_ptr() for store, _ in at)
    bases: dict[int, Any] = {}
    for store, tensor in at:
        start = store.data_ptr()
        whole = tensor.is_contiguous() and store.nbytes() == tensor.numel() * tensor.element_size()
        if not start or tensor.requires_grad or (whole and starts[start] == 1):
            continue
        # Of two storages of one address (one was resized) the larger one.
        if start not in bases or store.nbytes() > bases[start].numel() * tensor.element_size():
            size = store.nbytes() // tensor.element_size()
            bases[start] = opinfo.own_tensor(tensor.detach().as_strided((size,), (1,), 0))
    made = {}
    for store, tensor in at:
        base = bases.get(store.data_ptr())
        made[id(tensor)] = (
            opinfo.own_tensor(tensor)
            if base is None or tensor.requires_grad
            else base.as_strided(tuple(tensor.shape), tensor.stride(), tensor.storage_offset())
        )
    return opinfo.translated(value, made)


def _outcome(call: Callable[..., Any], given: Any) -> tuple[str, str]:
    input, args, kwargs = given
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            call(input, *args, **kwargs)
    except Exception as error:
        return type(error).__name__, (str(error).splitlines() or [""])[0]
    return "", ""


def outcomes(name: str) -> Iterator[tuple[int, tuple[str, str], tuple[str, str]]]:
    """(number, torch's error, ours), as type and first line, of the bad calls of a name."""
    number = -1
    for info in _infos():
        function = opinfo.ours_of(info) if info.name == name else None
        if function is None:
            continue
        torch.manual_seed(0)
        calls = []
        # All first: some of torch's calls resize the tensors of the next.
        for bad in info.error_inputs("cpu"):
            sample, number = bad.sample_input, number + 1
            given = (sample.input, sample.args, sample.kwargs)
            if all(map(_possible, opinfo.leaves_of(given, torch.Tensor))):
                calls.append((number, given, translated(given)))
        for at, given, mine in calls:
            yield at, _outcome(info.op, given), _outcome(function, mine)


def _possible(tensor: Any) -> bool:
    """Whether NumPy can hold it: 64 dimensions at most, in memory."""
    return tensor.ndim <= 64 and tensor.device.type == "cpu"


@each("name", _names())
def test_bad_calls_raise_the_type_of_error_that_torch_raises(name: str) -> None:
    found = {n: (theirs, ours) for n, theirs, ours in outcomes(name)}
    wrong = {n for n, (theirs, ours) in found.items() if theirs[0] != ours[0]}
    told = [f"{n}: {theirs} in torch, {ours} here" for n, (theirs, ours) in found.items()]
    assert wrong == set(DIFFERS.get(name, {})), "\n".join(told)


def test_a_call_that_raises_nothing_is_found() -> None:
    ours = opinfo.ours_of

    def lenient(info: Any) -> Any:
        return (lambda *args, **named: None) if info.name == "hsplit" else ours(info)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opinfo, "ours_of", lenient)
        seen = [(theirs[0], mine[0]) for _, theirs, mine in outcomes("hsplit")]
    assert ("RuntimeError", "") in seen
    assert ("TypeError", "") in seen


def main() -> None:
    for name in sys.argv[1:] or _names():
        for n, theirs, ours in outcomes(name):
            if theirs != ours:
                print(f"{name} {n}:", *(": ".join(each) for each in (theirs, ours)), sep="\n    ")


if __name__ == "__main__":
    main()
