"""Made inside of a transform: tensors that require grad, parameters, modules; checkpoints there."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual as ag
from tests.func.programs import Program, same, values


def facts(x: Any) -> list[Any]:
    return [x, x.requires_grad, None if x.grad_fn is None else x.grad_fn.name()]


def of_a_slice(t: Any) -> Any:
    seen = []

    def f(x: Any) -> Any:
        made = t.nn.Parameter(x)
        twice = made * 2
        seen.append([type(made).__name__, isinstance(made, t.nn.Parameter), made.is_leaf])
        seen.append([repr(made), made.requires_grad, twice.requires_grad, twice.grad_fn is None])
        return twice

    return [t.vmap(f)(values(t, 2, 3)), seen]


def followed(t: Any) -> Any:
    """A parameter made where a level follows what is computed."""
    seen = []

    def f(x: Any) -> Any:
        made = t.nn.Parameter(t.ones(3, dtype=t.float64))
        loss = (made * x).sum()
        seen.append(repr(made))
        seen.append(t.autograd.grad(loss, made, retain_graph=True)[0].requires_grad)
        return loss

    return [t.func.grad(f)(values(t, 3)), seen]


def layer_norm(t: Any) -> Any:
    return facts(t.vmap(lambda x: t.nn.LayerNorm(3).double()(x))(values(t, 2, 4, 3)))


def linear(t: Any) -> Any:
    def made(x: Any) -> Any:
        return t.nn.Linear(3, 2)(x)

    seen = t.vmap(made, randomness="same")(t.ones(2, 3))
    slope = t.func.grad(lambda x: made(x).sum())(t.ones(3))
    return [list(seen.shape), seen.requires_grad, list(slope.shape)]


def embedding(t: Any) -> Any:
    table = lambda: t.nn.Embedding.from_pretrained(values(t, 4, 2))  # noqa: E731
    return t.vmap(lambda at: table()(at))(t.tensor([0, 3, 1]))


def drawn(t: Any) -> Any:
    def f(x: Any) -> Any:
        return t.rand(3, requires_grad=True) * x

    kinds = ("same", "different")
    slope = t.func.grad(lambda x: f(x).sum())(t.ones(3))
    found = [t.vmap(f, randomness=kind)(t.ones(2, 3)).requires_grad for kind in kinds]
    return [found, list(slope.shape)]


def like_a_slice(t: Any) -> Any:
    return facts(t.vmap(lambda x: t.ones_like(x, requires_grad=True) * x)(values(t, 2, 3)))


def checkpointed(t: Any) -> Any:
    run = t.utils.checkpoint.checkpoint
    x = values(t, 2, 3)
    inner = lambda a: run(t.sin, a, use_reentrant=False)  # noqa: E731
    return [t.vmap(inner)(x), t.func.jvp(inner, (x,), (x,)), t.vmap(t.func.jacfwd(inner))(x)]


def slope(t: Any, x: Any) -> Any:
    """The gradient of a parameter that is made here, through a view, a list and a hook."""
    made = t.nn.Parameter(t.ones_like(x.detach()))
    y = made * made * x
    y = y.view(1, -1)[0]
    y.register_hook(lambda g: 2 * g)
    loss = t.stack([y, y.sin()]).sum()
    return t.autograd.grad(loss, made, create_graph=True)[0]


def pushed_through_a_gradient(t: Any) -> Any:
    f, x = lambda x: slope(t, x), values(t, 3)
    jvp, jacfwd = t.func.jvp, t.func.jacfwd
    return [
        jvp(f, (x,), (x,)),
        jacfwd(f)(x),
        t.vmap(jacfwd(f))(values(t, 2, 3)),
        jacfwd(jacfwd(lambda x: f(x) * x))(x),
        t.func.grad(lambda x: jvp(f, (x,), (x,))[1].sum())(x),
    ]


def recorded_at_jvp(t: Any) -> Any:
    """Whether what is made of a parameter requires grad, and what leaves does not."""
    seen = []

    def f(x: Any) -> Any:
        made = t.ones(3, dtype=t.float64, requires_grad=True)
        with t.no_grad():
            still = made * x
        seen.extend(each.requires_grad for each in (x * 2, still, made * x, made.detach() * x))
        return made * x

    return [t.func.jvp(f, (values(t, 3),), (values(t, 3),)), seen]


def checkpoint_of_what_is_over(t: Any) -> Any:
    run = t.utils.checkpoint.checkpoint
    x = values(t, 2, 3).requires_grad_()
    return t.vmap(lambda a: run(t.sin, a, use_reentrant=False))(x).sum().backward()


@pytest.mark.parametrize(
    "program",
    [
        of_a_slice,
        followed,
        layer_norm,
        linear,
        embedding,
        drawn,
        like_a_slice,
        checkpointed,
        pushed_through_a_gradient,
        recorded_at_jvp,
    ],
)
@pytest.mark.filterwarnings("ignore:.*None of the inputs have requires_grad")
def test_as_in_torch(program: Program) -> None:
    program(ag)
    same(program)


def test_writes_beside_a_parameter_have_tangents() -> None:
    """torch refuses: its tangent of zeros is immutable."""

    def f(x: Any) -> Any:
        made = ag.nn.Parameter(ag.ones_like(x.detach()))
        y = made * made * x
        y[0] = x[1] * made[0]
        y += x.sin() * made
        return ag.autograd.grad((y * y).sum(), made, create_graph=True)[0]

    x = values(ag, 3)
    by_rows = ag.func.jacrev(f)(x)
    assert by_rows.count_nonzero() == 4
    for by_columns in (ag.func.jacfwd(f)(x), ag.vmap(ag.func.jacfwd(f))(x[None])[0]):
        assert ag.allclose(by_columns, by_rows)
    assert ag.allclose(ag.func.linearize(f, x)[1](x), by_rows @ x)


def test_a_checkpoint_of_what_is_over_says_so() -> None:
    same(checkpoint_of_what_is_over)
    with pytest.raises(RuntimeError, match="may have escaped"):
        checkpoint_of_what_is_over(ag)


def test_a_module_made_inside_learns_nothing_of_slices() -> None:
    """Its parameters are leaves as any: the gradient is that of all slices together."""
    made = []

    def f(x: Any) -> Any:
        layer = ag.nn.LayerNorm(3)
        made.append(layer)
        return layer(x)

    x = values(ag, 2, 3).float()
    ag.vmap(f)(x).sum().backward()
    assert made[0].bias.grad.tolist() == [2.0, 2.0, 2.0]


def test_what_a_tensor_of_a_transform_holds() -> None:
    def program(t: Any) -> Any:
        seen = []

        def f(x: Any) -> Any:
            for recurse in (True, False):
                held = t.func.debug_unwrap(x, recurse=recurse)
                seen.append([repr(held), list(held.shape), held.requires_grad])
            return (x * x).sum()

        x = values(t, 2, 3)
        t.vmap(t.vmap(f))(x[None])
        t.vmap(t.func.grad(f))(x)
        return [seen, t.func.debug_unwrap(x) is x]

    program(ag)
    same(program)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        ag.func.debug_unwrap(3)  # type: ignore[arg-type]


def test_batch_norms_without_running_statistics() -> None:
    def program(t: Any) -> Any:
        kinds = (t.nn.BatchNorm1d(3), t.nn.InstanceNorm1d(3, track_running_stats=True))
        net = t.nn.Sequential(*kinds, t.nn.Sequential(t.nn.BatchNorm1d(3))).double()
        returned = t.func.replace_all_batch_norm_modules_(net)
        batch = net[2]
        names = [name for name, _ in net.named_buffers()]
        return [returned is net, repr(net), names, t.vmap(batch)(values(t, 2, 4, 3))]

    program(ag)
    same(program)
