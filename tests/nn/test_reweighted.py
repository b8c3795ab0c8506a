"""nn.utils.weight_norm and spectral_norm, the older forms, against torch's."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import ag_visual as ag
from tests.programs import agree, raised


def normed(t: Any, function: str, module: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return getattr(t.nn.utils, function)(module, **options)


def filled(t: Any, module: Any) -> Any:
    """A module whose parameters and buffers have known values."""
    with t.no_grad():
        for i, (_, value) in enumerate(sorted(module.state_dict().items())):
            steps = t.arange(1, value.numel() + 1, dtype=t.float64)
            value.copy_((steps * (i + 1)).sin().reshape(value.shape))
    return module.double()


KINDS: dict[str, Any] = {
    "linear": (lambda t: t.nn.Linear(3, 4), (2, 3)),
    "convolution": (lambda t: t.nn.Conv2d(2, 3, 2), (1, 2, 4, 4)),
    "transposed": (lambda t: t.nn.ConvTranspose1d(2, 3, 2), (1, 2, 5)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("weight_norm", {}),
        ("weight_norm", {"dim": 1}),
        ("weight_norm", {"dim": None}),
        ("spectral_norm", {}),
        ("spectral_norm", {"n_power_iterations": 3, "dim": 1}),
    ],
)
def test_values_gradients_and_states_are_torchs(name: str, options: Any, kind: str) -> None:
    make, shape = KINDS[kind]

    def program(t: Any) -> Any:
        layer = filled(t, normed(t, name, make(t).double(), **options))
        x = t.linspace(-1, 1, 2 * 3 * 16, dtype=t.float64)[: t.Size(shape).numel()].reshape(shape)
        optimizer = t.optim.SGD(layer.parameters(), lr=0.1)
        seen: list[Any] = [list(layer.state_dict()), [n for n, _ in layer.named_parameters()]]
        for _ in range(3):
            # Two passes before one backward, as GANs do.
            loss = layer(x).square().sum() - layer(x + 1).sum()
            optimizer.zero_grad()
            loss.backward()
            seen.append([loss.detach(), *[p.grad.clone() for p in layer.parameters()]])
            optimizer.step()
        layer.eval()
        seen += [layer(x).detach(), layer(x).detach(), *layer.state_dict().values()]
        getattr(t.nn.utils, f"remove_{name}")(layer)
        seen += [list(layer.state_dict()), layer(x).detach(), layer.weight.detach()]
        return [*seen, raised(lambda: getattr(t.nn.utils, f"remove_{name}")(layer))]

    agree(program)


def test_a_recurrent_weight_is_normed() -> None:
    def program(t: Any) -> Any:
        lstm = filled(t, normed(t, "weight_norm", t.nn.LSTM(2, 3).double(), name="weight_hh_l0"))
        out, _ = lstm(t.ones(4, 1, 2, dtype=t.float64))
        out.sum().backward()
        return [out.detach(), *[p.grad for _, p in sorted(lstm.named_parameters())]]

    agree(program)


def test_a_checkpoint_of_the_older_names_is_read() -> None:
    """By the older form as it is, by the parametrization in its names."""

    def program(t: Any) -> Any:
        first = filled(t, normed(t, "weight_norm", t.nn.Linear(3, 2).double()))
        second = normed(t, "weight_norm", t.nn.Linear(3, 2).double())
        third = t.nn.utils.parametrizations.weight_norm(t.nn.Linear(3, 2).double())
        second.load_state_dict(first.state_dict())
        third.load_state_dict(first.state_dict())
        x = t.ones(1, 3, dtype=t.float64)
        return [layer(x).detach() for layer in (first, second, third)]

    agree(program)


def test_hooks_are_found_refused_and_copied() -> None:
    def program(t: Any) -> Any:
        from importlib import import_module

        package = t.nn.utils.__name__
        layer = normed(t, "spectral_norm", t.nn.Linear(3, 2).double())
        kind = import_module(f"{package}.spectral_norm").SpectralNorm
        import_module(f"{package}.weight_norm")
        found = [isinstance(h, kind) for h in layer._forward_pre_hooks.values()]
        other = copy.deepcopy(t.nn.Sequential(layer))
        before = layer.weight_u.clone()
        other(t.ones(1, 3, dtype=t.float64))
        same = bool((layer.weight_u == before).all())
        normed(t, "weight_norm", plain := t.nn.Linear(2, 2))
        return [
            *(found, same, callable(t.nn.utils.spectral_norm), callable(t.nn.utils.weight_norm)),
            raised(lambda: normed(t, "spectral_norm", layer)),
            raised(lambda: normed(t, "weight_norm", plain)),
            raised(lambda: normed(t, "spectral_norm", t.nn.Linear(2, 2), n_power_iterations=0)),
        ]

    agree(program)


def test_what_cannot_be_normed_is_refused() -> None:
    for name in ("weight_norm", "spectral_norm"):
        lazy, none = ag.nn.LazyLinear(2), ag.nn.Linear(2, 2, bias=False)
        for module, options in ((lazy, {}), (none, {"name": "bias"})):
            kind, text = raised(lambda n=name, m=module, o=options: normed(ag, n, m, **o))
            assert kind == "ValueError", text
    with pytest.warns(FutureWarning, match=r"parametrizations\.weight_norm"):
        ag.nn.utils.weight_norm(ag.nn.Linear(2, 2))
