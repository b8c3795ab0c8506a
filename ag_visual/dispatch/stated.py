"""Batching rules that say what they do, so that built code need not call them.

`dispatch.vmap` says what a rule is; declarations of ops use these, `codegen.of_slices` reads them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ag_visual.dispatch.rules import requests_of

Rule = Callable[[Any], Any]


class Same:
    """The same on all slices at once: the op itself or another one, with other arguments.

    arguments: values, or functions of what they name: arguments, `rank` (of a slice), `slices`
    (their number), `whole` (the array of all of them). when: such a function, whether that is so;
    else the rule is `otherwise`. pads: such a function, how many dimensions of size 1 each slice
    gets in front before.
    """

    def __init__(
        self,
        name: str = "",
        *,
        when: Callable[..., Any] | None = None,
        otherwise: Rule | None = None,
        pads: Callable[..., int] | None = None,
        **arguments: Any,
    ) -> None:
        self.name = name
        self.pads = pads
        self.when = when
        self.otherwise = otherwise
        self.arguments = arguments

    def __call__(self, batch: Any) -> Any:
        if self.otherwise is not None:
            return self.otherwise(batch)
        (name,) = batch.tensors
        known = {**batch.values, "slices": batch.size, "rank": batch.rank(name)}

        def value_of(value: Any) -> Any:
            return (
                value(*[known[each] for each in requests_of(value)]) if callable(value) else value
            )

        changed = {each: value_of(value) for each, value in self.arguments.items()}
        x = batch.padded(name, known["rank"] + value_of(self.pads or 0))
        if self.name:
            return batch.on(self.name)(x, **changed)
        return batch.run(**{name: x, **changed})


class Sliced:
    """A rule that asks for what it needs by the names of its parameters, as derivatives do.

    F, inputs (with the batch in front, if they have one), `has_self` whether they have it,
    arguments, and `slices`, their number.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.requests = requests_of(function)

    def __call__(self, batch: Any) -> Any:
        known = {**batch.values, "F": batch.F, "slices": batch.size}
        known.update({f"has_{name}": name in batch for name in batch.op.inputs})
        return self.function(*[known[name] for name in self.requests])
