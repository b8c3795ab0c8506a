"""nn.utils against torch's: clipping, vectors, sequences of different lengths, parametrizations."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import ag_visual as ag
from tests.programs import agree, raised

INF = float("inf")


def _parameters(t: Any) -> list[Any]:
    values = [[3.0, -4.0], [0.5], [1.0, 2.0, 2.0]]
    found = [t.tensor(v, dtype=t.float64, requires_grad=True) for v in values]
    for p in found[:2]:
        p.grad = p.detach() * 2
    return found


@pytest.mark.parametrize("norm", [2.0, 1.0, 3.5, INF, 0.0])
@pytest.mark.parametrize("most", [1.0, 100.0])
def test_clipped_by_norm(norm: float, most: float) -> None:
    def program(t: Any) -> Any:
        found = _parameters(t)
        grads = [p.grad for p in found if p.grad is not None]
        utils = t.nn.utils
        total = utils.get_total_norm(grads, norm)
        same = utils.clip_grad_norm_(iter(found), most, norm)
        return [total, same, *[p.grad for p in found[:2]]]

    agree(program)


def test_clipping_without_gradients_by_value_and_not_finite() -> None:
    def program(t: Any) -> Any:
        utils, found = t.nn.utils, _parameters(t)
        nothing = utils.clip_grad_norm_(found[2], 1.0)
        utils.clip_grad_value_(found, 1.5)
        seen = [p.grad.clone() for p in found[:2]]
        found[0].grad[0] = INF
        return [
            nothing,
            seen,
            raised(lambda: utils.clip_grad_norm_(found, 1.0, error_if_nonfinite=True)),
        ]

    agree(program)


def test_parameters_as_a_vector() -> None:
    def program(t: Any) -> Any:
        found = _parameters(t)
        vector = t.nn.utils.parameters_to_vector(found)
        (vector**2).sum().backward()
        t.nn.utils.vector_to_parameters(t.arange(6.0, dtype=t.float64), found)
        return [vector.detach(), *[p.grad for p in found], *[p.detach() for p in found]]

    agree(program)


# Sequences -----------------------------------------------------------------------------------


def _sequences(t: Any) -> list[Any]:
    return [t.arange(2.0 * n, dtype=t.float64).reshape(n, 2) + n for n in (2, 4, 1, 3)]


def _told(packed: Any) -> list[Any]:
    return [part for part in packed if part is not None]


@pytest.mark.parametrize("batch_first", [True, False])
def test_padded_and_packed(batch_first: bool) -> None:
    def program(t: Any) -> Any:
        rnn = t.nn.utils.rnn
        padded = rnn.pad_sequence(_sequences(t), batch_first, -1.0)
        left = rnn.pad_sequence(_sequences(t), batch_first, padding_side="left")
        lengths = [2, 4, 1, 3]
        packed = rnn.pack_padded_sequence(padded, lengths, batch_first, enforce_sorted=False)
        back = rnn.pad_packed_sequence(packed, batch_first, 7.0, total_length=5)
        alone = rnn.unpad_sequence(padded.clone(), t.tensor(lengths), batch_first)  # torch turns it
        again = rnn.unpack_sequence(rnn.pack_sequence(_sequences(t), enforce_sorted=False))
        return [padded, left, _told(packed), *back, alone, again]

    agree(program)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [1, 3]),
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [1, 0]),
        lambda t: t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [3, 1, 1]),
        lambda t: t.nn.utils.rnn.pad_sequence(3),
        lambda t: t.nn.utils.rnn.pad_packed_sequence(
            t.nn.utils.rnn.pack_padded_sequence(t.ones(3, 2), [3, 1]), total_length=2
        ),
    ],
)
def test_bad_sequences(make: Any) -> None:
    def program(t: Any) -> Any:
        kind, text = raised(lambda: make(t))
        return [kind, text[:60]]

    agree(program)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_layers_on_packed_sequences(kind: str, options: dict[str, Any]) -> None:
    def program(t: Any) -> Any:
        layer = getattr(t.nn, kind)(2, 3, **options).double()
        with t.no_grad():
            for i, p in enumerate(layer.parameters()):
                p.copy_(t.arange(p.numel(), dtype=t.float64).reshape(p.shape).sin() / 2 + i / 10)
        x = [s.sin().requires_grad_() for s in _sequences(t)]
        output, state = layer(t.nn.utils.rnn.pack_sequence(x, enforce_sorted=False))
        states = state if isinstance(state, tuple) else (state,)
        total = output.data.square().sum() + sum((s**3).sum() for s in states)
        total.backward()
        grads = [s.grad for s in x] + [p.grad for p in layer.parameters()]
        return [_told(output), *states, *grads]

    agree(program)


def test_the_names_of_recurrent_weights() -> None:
    """What programs initialize layers by."""

    def program(t: Any) -> Any:
        layer = t.nn.GRU(2, 3, 2, bidirectional=True)
        flat = zip(layer._flat_weights_names, layer._flat_weights, strict=True)
        same = [layer._parameters[name] is weight for name, weight in flat]
        return [layer._flat_weights_names, layer._all_weights, same]

    agree(program)


# Parametrizations ----------------------------------------------------------------------------


def _linear(t: Any) -> Any:
    layer = t.nn.Linear(3, 2).double()
    with t.no_grad():
        layer.weight.copy_(t.tensor([[1.0, 2.0, 2.0], [0.0, 3.0, 4.0]]))
        layer.bias.zero_()
    return layer


def _symmetric(t: Any) -> Any:
    class Symmetric(t.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, a: Any) -> Any:
            return a.triu()

    return Symmetric()


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(dim: int | None) -> None:
    def program(t: Any) -> Any:
        layer = t.nn.utils.parametrizations.weight_norm(_linear(t), dim=dim)
        before = layer.weight.detach().clone()
        layer(t.ones(1, 3, dtype=t.float64)).square().sum().backward()
        names = [name for name, _ in layer.named_parameters()]
        grads = [p.grad for p in layer.parameters() if p.grad is not None]
        t.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        after = [name for name, _ in layer.named_parameters()]
        return [before, names, grads, after, layer.weight.detach(), repr(layer)]

    agree(program)


def test_spectral_norm() -> None:
    """The largest singular value becomes 1; in evaluation the vectors stay."""
    layer = ag.nn.utils.parametrizations.spectral_norm(_linear(ag))
    for _ in range(5):
        layer(ag.ones(1, 3, dtype=ag.float64))
    assert ag.allclose(_largest(layer.weight), ag.ones((), dtype=ag.float64), rtol=1e-3)
    layer.eval()
    u = layer.parametrizations.weight[0]._u
    layer(ag.ones(1, 3, dtype=ag.float64)).sum().backward()
    assert layer.parametrizations.weight[0]._u is u
    assert layer.parametrizations.weight.original.grad is not None


def _largest(weight: Any) -> Any:
    values = weight @ weight.t()
    v = ag.ones(2, dtype=ag.float64)
    for _ in range(50):
        v = values @ v
        v = v / v.norm()
    return (values @ v).norm().sqrt()


def test_a_second_parametrization_takes_the_first_ones_result() -> None:
    """The original stays what it is, also where the second one could be inverted."""

    def program(t: Any) -> Any:
        class Doubled(t.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self, back: Any) -> None:
                super().__init__()
                self.back = back

            def forward(self, x: Any) -> Any:
                return x * 2

            def right_inverse(self, y: Any) -> Any:
                return self.back(y)

        register = t.nn.utils.parametrize.register_parametrization
        layer = _linear(t)
        register(layer, "weight", Doubled(lambda y: y / 2))
        register(layer, "weight", Doubled(lambda y: y / 2))
        seen = [layer.parametrizations.weight.original.detach().clone(), layer.weight.detach()]
        layer.weight = t.ones(2, 3, dtype=t.float64)
        seen += [layer.parametrizations.weight.original.detach(), layer.weight.detach()]
        for back in (lambda y: y[0], lambda y: y.float(), lambda y: 3, lambda y: y.missing()):
            seen.append(raised(lambda b=back: register(layer, "weight", Doubled(b)))[0])
        return seen

    agree(program)


def test_own_parametrization() -> None:
    def program(t: Any) -> Any:
        parametrize = t.nn.utils.parametrize
        layer = t.nn.Linear(2, 2, bias=False).double()
        with t.no_grad():
            layer.weight.copy_(t.tensor([[1.0, 2.0], [3.0, 4.0]]))
        original = layer.weight
        parametrize.register_parametrization(layer, "weight", _symmetric(t))
        seen = [layer.weight.detach(), parametrize.is_parametrized(layer, "weight")]
        seen += [original is layer.parametrizations.weight.original, type(layer).__name__]
        seen += [list(layer.state_dict()), isinstance(layer, t.nn.Linear)]
        layer.weight = t.tensor([[5.0, 6.0], [6.0, 7.0]], dtype=t.float64)
        seen += [layer.weight.detach(), layer.weight is layer.weight]
        with parametrize.cached():
            seen.append(layer.weight is layer.weight)
        seen.append(raised(lambda: pickle.dumps(layer))[0])
        twin = copy.deepcopy(layer)
        twin.parametrizations.weight.original.detach().zero_()
        seen += [layer.weight.detach(), twin.weight.detach()]
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
        return [*seen, layer.weight.detach(), type(layer).__name__, repr(twin)]

    agree(program)


def test_bad_parametrizations() -> None:
    def program(t: Any) -> Any:
        register = t.nn.utils.parametrize.register_parametrization
        remove = t.nn.utils.parametrize.remove_parametrizations

        class Wider(t.nn.Module):  # type: ignore[misc, name-defined]
            def forward(self, x: Any) -> Any:
                return t.cat([x, x])

        return [
            raised(lambda: register(_linear(t), "weight", Wider()))[0],
            raised(lambda: register(_linear(t), "odd", Wider()))[0],
            raised(lambda: remove(_linear(t), "weight"))[0],
            register(_linear(t), "weight", Wider(), unsafe=True).weight.shape[0],
        ]

    agree(program)


def test_packed_sequences_change_their_dtype() -> None:
    packed = ag.nn.utils.rnn.pack_sequence([ag.tensor([1.5, 2.0]), ag.tensor([3.0])])
    kinds = ("double", "float", "half", "byte", "char", "short", "int", "long")
    for name in kinds:
        made = getattr(packed, name)()
        assert made.data.dtype is getattr(packed.data, name)().dtype
        assert made.batch_sizes is packed.batch_sizes
    assert packed.float() is packed
    assert packed.long().data.tolist() == [1, 3, 2]
    assert not packed.is_pinned()
