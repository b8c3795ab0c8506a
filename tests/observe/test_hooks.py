"""What a recording keeps of hooks: order, names, places, what each did to the gradient."""

from __future__ import annotations

import functools
import math
import pickle

import pytest

import ag_visual as ag
from ag_visual.core.hooks import HookTable, full_name, register
from ag_visual.observe.record.details import all_hooks, hooks_of
from ag_visual.observe.wire import schema
from ag_visual.observe.wire.check import check


def leaf(*values):
    return ag.tensor(list(values), requires_grad=True)


def told(recorder):
    """Rows of the table of hooks, strings and sites resolved."""
    recorder.drain()
    encoder = recorder.encoder
    rows = []
    for chunk in recorder.chunks():
        table = chunk.tables.get("hooks")
        for i in range(0 if table is None else len(table["seq"])):
            row = {name: column[i].item() for name, column in table.items()}
            for name in ("kind", "name", "effect", "error"):
                row[name] = encoder.strings.texts[row[name]]
            row["site"] = None if row["site"] == schema.NONE else encoder.sites.found[row["site"]]
            rows.append(row)
    return rows


def poison(grad):
    return grad * float("nan")


def _double(g):
    g.mul_(2.0)


EFFECTS = {
    "none": lambda g: None,
    "same": lambda g: g,
    "equal": lambda g: g.clone(),
    "scaled": lambda g: g * 0.5,
    "replaced": lambda g: g.clamp(-1.0, 1.0),
    "in place": _double,
}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("dtype", [ag.float32, ag.float64, ag.bfloat16, ag.complex64])
def test_effect_is_told(recorder, effect, dtype):
    if effect == "replaced" and dtype is ag.complex64:
        hook = lambda g: g.conj() + 1  # noqa: E731
    else:
        hook = EFFECTS[effect]
    x = ag.ones(3, dtype=dtype, requires_grad=True)
    recorder.start()
    y = x * 1
    y.register_hook(hook)
    y.backward(ag.tensor([3.0, -4.0, 0.5], dtype=dtype))
    [row] = told(recorder)
    assert row["effect"] == effect
    if effect == "scaled":
        assert row["factor"] == 0.5
        assert row["after"] == pytest.approx(row["before"] / 2, rel=1e-2)


def test_range_and_nan_before_and_after(recorder):
    x = leaf(1.0, 1.0, 1.0)
    recorder.start()
    y = x * 1
    y.register_hook(lambda g: g * ag.tensor([2.0, float("inf"), float("nan")]))
    y.backward(ag.tensor([3.0, -4.0, 0.5]))
    [row] = told(recorder)
    assert (row["before_min"], row["before_max"]) == (-4.0, 3.0)
    assert (row["before_nan"], row["before_inf"]) == (0, 0)
    assert (row["after_min"], row["after_max"]) == (6.0, 6.0)
    assert (row["after_nan"], row["after_inf"]) == (1, 1)
    assert math.isnan(row["after"])


def test_a_gradient_of_nan_that_nobody_touched_is_not_changed(recorder):
    x = leaf(1.0, 1.0)
    recorder.start()
    y = x * 1
    y.register_hook(lambda g: None)
    y.backward(ag.tensor([float("nan"), 1.0]))
    assert [row["effect"] for row in told(recorder)] == ["none"]


def test_all_kinds_in_the_order_in_which_they_run(recorder):
    order = []

    def note(name, result=None):
        def hook(*_):
            order.append(name)
            return result

        hook.__qualname__ = name
        return hook

    x = leaf(1.0, 2.0)
    x.register_hook(note("on leaf"))
    x.register_post_accumulate_grad_hook(note("after accumulation"))
    recorder.start()
    y = x * 2
    y.grad_fn.register_hook(note("post"))
    y.grad_fn.register_prehook(note("pre"))
    y.register_hook(note("on tensor"))
    y.retain_grad()
    ag.autograd.graph.register_multi_grad_hook([y], note("multi"))
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator.register_prehook(note("pre of leaf"))
    accumulator.register_hook(note("post of leaf"))
    known = [hook["name"] for hook in hooks_of(y.grad_fn) + hooks_of(accumulator)]
    y.sum().backward()
    rows = told(recorder)
    names = [row["name"] for row in rows]
    assert names == known
    assert [name for name in names if name != "retain_grad"] == order
    kinds = {row["name"]: row["kind"] for row in rows}
    assert kinds["multi"] == "multi_grad"
    assert kinds["after accumulation"] == "post_accumulate"
    assert [row["t"] for row in rows] == sorted(row["t"] for row in rows)


def test_place_is_where_the_hook_was_added(recorder):
    x = leaf(1.0)
    recorder.start()
    y = x * 2
    y.register_hook(poison)
    y.retain_grad()
    y.backward()
    first, second = told(recorder)
    assert first["site"].text == "y.register_hook(poison)"
    assert first["name"] == "poison"
    assert second["site"].text == "y.retain_grad()"
    assert second["hook"] == schema.NONE


def test_a_hook_that_raises_is_told_with_its_error(recorder):
    x = leaf(1.0)
    recorder.start()
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    [row] = told(recorder)
    assert (row["effect"], row["error"]) == ("raised", "ZeroDivisionError: division by zero")


def test_hooks_of_a_module_go_by_their_own_names(recorder):
    def watch(module, grad_input, grad_output):
        return None

    layer = ag.nn.Linear(2, 2)
    layer.register_full_backward_hook(watch)
    recorder.start()
    layer(leaf(1.0, 2.0)).sum().backward()
    rows = told(recorder)
    assert {row["kind"] for row in rows} == {"module"}
    assert any(row["name"].endswith("watch") for row in rows)


def test_a_hook_of_a_multi_output_node_says_which_output(recorder):
    x = leaf(1.0, 2.0)
    recorder.start()
    _, b = x.unbind()
    b.register_hook(lambda g: g * 3)
    b.backward()
    assert [row["number"] for row in told(recorder)] == [1]


def test_post_hooks_tell_all_inputs_together(recorder):
    x, w = leaf(1.0), leaf(2.0)
    recorder.start()
    y = x * w
    y.grad_fn.register_hook(lambda inputs, outputs: tuple(g * 2 for g in inputs))
    y.backward()
    [row] = told(recorder)
    assert (row["effect"], row["factor"]) == ("scaled", 2.0)
    assert row["before"] == pytest.approx(math.sqrt(5))


def test_all_hooks_of_living_nodes_the_newest_first(recorder):
    x = leaf(1.0)
    x.register_hook(poison)
    recorder.start()
    y = x * 2
    z = y + 1
    z.register_hook(poison)
    recorder.drain()
    found = all_hooks(recorder)
    for one in found:
        check("NodeHooks", one, "hooks")
    assert found[0]["name"] == "AddBackward0"
    assert len(found) == 2
    assert found[0]["hooks"][0]["site"]["text"] == "z.register_hook(poison)"


class Callable:
    def __call__(self, g):
        return None

    def method(self, g):
        return None

    def __getattr__(self, name):
        raise AssertionError(f"{name} was asked for")


@pytest.mark.parametrize(
    ("hook", "name"),
    [
        (poison, "poison"),
        (functools.partial(poison), "partial(poison)"),
        (Callable().method, "Callable.method"),
        (math.sin, "sin"),
    ],
)
def test_full_names(hook, name):
    assert full_name(hook) == name


def test_call_sites_go_with_their_hooks():
    table = HookTable()
    handle = register(table, poison)
    assert list(table.call_sites) == [handle.id]
    again = pickle.loads(pickle.dumps(table))
    assert again == table
    assert again.call_sites == {}
    handle.remove()
    assert not table.call_sites
