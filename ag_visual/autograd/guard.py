"""`autograd.guard()`: writes through NumPy aliases, which no version counter sees, are noticed."""

from __future__ import annotations

from ag_visual.core import modes

__all__ = ["guard"]


class guard:
    """Notice writes to saved tensors that go around autograd: `x.numpy()[0] = 1` and the like.

    What is saved inside is fingerprinted (CRC-32), and again when backward uses it, inside or
    outside: RuntimeError when the contents changed and no counter says so. whole: read every byte
    of arrays above 192 KiB, not three samples of 64 KiB. Cost: about 0.1 ms per saved tensor at
    most, 1 ms per megabyte with `whole`; operations inside take the slow path. Thread-local.

    >>> import ag_visual as ag
    >>> x = ag.tensor([1., 2.], requires_grad=True)
    >>> with ag.autograd.guard():
    ...     y = (x * x).sum()
    >>> x.detach().numpy()[0] = 5
    >>> y.backward()
    Traceback (most recent call last):
    ag_visual.errors.InplaceError: one of the variables needed for gradient computation has been ...
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self._previous: list[bool | None] = []

    def __enter__(self) -> guard:
        modes.changing()
        self._previous.append(modes.state.guard)
        modes.set_slow("guard", self.whole, 1)
        return self

    def __exit__(self, *_: object) -> None:
        modes.set_slow("guard", self._previous[-1], -1)
        del self._previous[-1]
