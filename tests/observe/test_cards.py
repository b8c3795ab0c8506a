"""Cards of nodes: every differentiable op has one, and what it says is what is computed."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import ag_visual as ag
from ag_visual.core.tensor import Tensor, from_array
from ag_visual.dispatch import vmap
from ag_visual.dispatch.op_node import OpNode
from ag_visual.dispatch.table import ops, traced
from ag_visual.observe.formulas import card_numbers, cards, derivation
from ag_visual.observe.formulas.card_numbers import NoNumbersError, kept_gradients, numbers
from ag_visual.observe.formulas.notation import linear, parse
from ag_visual.observe.formulas.sample_sizes import OF_SAMPLE
from ag_visual.observe.formulas.terms import (
    OPERATORS,
    Term,
    computed,
    formula_of,
    input_term,
    trace,
)
from ag_visual.observe.record.node_view import edges_by_name

from ..properties import cases

DIFFERENTIABLE = cases.every(cases.differentiable)


def names_in(math):
    """The identifiers of a formula."""
    if "children" not in math:
        return {math["text"]} if math["tag"] in ("mi", "mtext") else set()
    return set().union(*(names_in(child) for child in math["children"]))


def numbers_in(math):
    """The numbers of a formula, as it writes them."""
    if "children" not in math:
        return {math["text"]} if math["tag"] == "mn" else set()
    return set().union(*(numbers_in(child) for child in math["children"]))


def made(op, call):
    """The node of a sample call, or None where it makes none of the op's own."""
    values, _ = call.tensors()
    positional, named = cases.arguments(op, values)
    outputs = op.call(*positional, **named)
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    nodes = [out.grad_fn for out in outputs if out.grad_fn is not None]
    found = next((node for node in nodes if isinstance(node, OpNode)), None)
    return found if found is None or found.op is op else None


def arriving(node, seed=0):
    random = np.random.default_rng(seed)
    metas = node.outs or ((node.shape, node.dtype),)
    return [from_array(np.asarray(random.uniform(0.5, 1.5, s)).astype(d)) for s, d in metas]


def backward_of(node, grads):
    """The gradients of all inputs, or None where they are not defined (eigenvectors)."""
    try:
        with ag.no_grad():
            found = node(*grads)
    except RuntimeError:
        return None
    return found if isinstance(found, tuple) else (found,)


@DIFFERENTIABLE
def test_every_differentiable_op_has_a_card_with_its_inputs(op):
    card = cards.sample_card(op)
    assert "=" in card["text"]
    said = names_in(card["forward"])
    flat = {one["input"] for one in card["derivatives"] if one["text"].endswith("= 0")}
    assert set(op.diff_inputs) - flat <= said
    told = {one["input"].partition("[")[0] for one in card["derivatives"]}
    optional = op.optional | {n for rule in op.rules if rule.joint for n in rule.inputs}
    assert set(op.diff_inputs) - optional <= told
    assert told
    known = {"grad", "none", "grad_output", *op.params, *op.outputs}
    for one in card["derivatives"]:
        assert one["text"].startswith(f"(∂L) / (∂{one['input']}) = ")
        right = one["math"]["children"][2:]
        assert linear({"tag": "mrow", "children": right}).strip()
        asked = {n for n in known if n in one["text"]}
        zero = "= 0" in one["text"] or "not defined" in one["text"]
        assert zero or asked, one["text"]


@DIFFERENTIABLE
def test_what_the_card_derives_is_what_the_backward_computes(op):
    for call in cases.calls(op):
        node = made(op, call)
        if node is None:
            continue
        grads = arriving(node)
        real = backward_of(node, grads)
        if real is None:
            with pytest.raises(RuntimeError, match="ill-defined"):
                derivation.derive(node, grads)
            continue
        found = derivation.derive(node, grads)
        for (name, edge), g in zip(edges_by_name(node), real, strict=True):
            term = found.gradients.get(name)
            if edge is None or not isinstance(term, Term):
                continue
            fitted = card_numbers._fitted(term, found.inputs[name])
            np.testing.assert_allclose(np.asarray(fitted.array), g._array, rtol=1e-9, atol=1e-12)


@cases.every(lambda op: cases.differentiable(op) and len(op.outputs) == 1 and not op.lists)
def test_formulas_that_can_be_computed_give_what_the_op_gives(op):
    formula = formula_of(op)
    if formula is None:
        assert not callable(op.formula) or op.arguments
        return
    for call in cases.calls(op):
        values, _ = call.tensors(grad=False)
        with ag.no_grad():
            given = callable(op.formula)
            known = {name: input_term(name, value) for name, value in values.items()}
            found = trace(op.formula, known) if given else computed(formula, known)
            positional, named = cases.arguments(op, values)
            expected = op.call(*positional, **named)
        np.testing.assert_allclose(
            np.asarray(found.array), expected._array, rtol=1e-7, atol=1e-9, err_msg=op.name
        )


def value_of(term):
    """A formula with numbers in it, computed; None where a part of it is left out."""
    if not isinstance(term, Term):
        return term
    if term.head == "value":
        return from_array(np.asarray(term.value))
    if term.head == "since":
        return value_of(term.args[0])
    args = [value_of(arg) for arg in term.args]
    if any(arg is None or isinstance(arg, str) for arg in args):
        return None
    if term.head == "listed":
        return sum(args[1:], args[0])
    if term.head in OPERATORS:
        return OPERATORS[term.head](*args)
    return getattr(traced, term.head)(*args, **term.named)


@DIFFERENTIABLE
def test_the_numbers_of_a_card_give_the_gradient(op, monkeypatch):
    filled = []
    fill = card_numbers._Path.fill

    def noting(self, term, index):
        found = fill(self, term, index)
        filled.append(found)
        return found

    monkeypatch.setattr(card_numbers._Path, "fill", noting)
    for call in cases.calls(op)[:3]:
        node = made(op, call)
        if node is None:
            continue
        grads = arriving(node)
        real = backward_of(node, grads)
        if real is None:
            with pytest.raises(NoNumbersError, match="ill-defined"):
                numbers(node, grads)
            continue
        by_name = dict(zip([n for n, _ in edges_by_name(node)], real, strict=True))
        for name, g in by_name.items():
            if g is None or not g.numel() or g._array.dtype.kind != "f":
                continue
            if name not in derivation.derive(node, grads).gradients:
                with pytest.raises(NoNumbersError, match=r"no gradient here|no input"):
                    numbers(node, grads, input=name)
                continue
            filled.clear()
            told = numbers(node, grads, input=name, at=g.numel() - 1)
            with ag.no_grad():
                result = value_of(filled[-1])
            expected = g._array.reshape(-1)[-1]
            assert told["index"] == list(np.unravel_index(g.numel() - 1, g._array.shape))
            if isinstance(result, Tensor) and result._array.dtype.kind == "f":
                np.testing.assert_allclose(result._array, expected, rtol=1e-6, atol=1e-9)


def test_numbers_of_a_product_are_row_times_column():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = ag.tensor([[5.0, 6.0], [7.0, 8.0]], requires_grad=True)
    node = (x @ w).grad_fn
    told = numbers(node, [ag.tensor([[1.0, 10.0], [0.0, 0.0]])], input="self", at=0)
    assert told["text"] == "(∂L) / (∂self)[0, 0] = 1 · 5 + 10 · 6 = 65"
    assert told["source"] == "kept"
    assert numbers(node, None)["source"] == "ones"
    assert {"name": "mat2[0, 1]", "text": "6"} in told["used"]


def test_numbers_of_a_broadcast_input_are_summed():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    b = ag.tensor([5.0, 6.0], requires_grad=True)
    node = (x * b).grad_fn
    told = numbers(node, [ag.ones(2, 2)], input="other")
    assert told["at"] == 1  # the largest, 2 + 4
    assert told["text"] == "(∂L) / (∂other)[1] = 1 · 2 + 1 · 4 = 6"
    says = {one["input"]: one["says"] for one in cards.card(node)["derivatives"]}
    assert says["self"] == ""
    assert says["other"].endswith("their gradients are added up, along dim 0.")


def test_kept_gradients_stand_by_output_and_not_as_they_were_asked_for():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    first, second = (x * 1).unbind()
    second.retain_grad()
    assert kept_gradients(first.grad_fn) == (None, "ones")
    first.retain_grad()
    (first * 10 + second * 20).backward(retain_graph=True)
    grads, source = kept_gradients(first.grad_fn)
    assert ([g.item() for g in grads], source) == ([10.0, 20.0], "kept")
    assert numbers(first.grad_fn, grads, at=0)["result"] == "10"


def test_a_case_says_why_it_holds():
    x = ag.tensor([-1.0, 2.0, float("nan")], requires_grad=True)
    node = x.relu().grad_fn
    assert numbers(node, None, at=0)["text"] == "(∂L) / (∂self)[0] = 0 since 0 ≤ 0"
    assert numbers(node, None, at=1)["text"] == "(∂L) / (∂self)[1] = 1 since 2 > 0"
    assert numbers(node, None, at=2)["text"] == "(∂L) / (∂self)[2] = 1 since not (NaN ≤ 0)"


def test_freed_saved_values_are_said():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    node = y.grad_fn
    y.sum().backward()
    card = cards.card(node)
    assert "freed by this backward" in card["note"]
    assert card["derivatives"]
    with pytest.raises(NoNumbersError, match="freed by this backward"):
        numbers(node, None)


def test_an_overwritten_saved_value_is_said_and_told_to_nobody():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    z = y * y
    y.add_(1)
    told = []
    from ag_visual.events import instrument

    before, instrument.problem = instrument.problem, lambda error, fields: told.append(error)
    try:
        assert "overwritten since it was saved" in cards.card(z.grad_fn)["note"]
    finally:
        instrument.problem = before
    assert told == []


def test_hooks_of_saved_tensors_are_not_called():
    called = []
    x = ag.tensor([1.0], requires_grad=True)
    with ag.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: called.append(1) or t):
        y = x * x
    assert "hook packed" in cards.card(y.grad_fn)["note"]
    assert called == []


def test_a_card_keeps_nothing_alive_and_makes_no_node():
    from ag_visual.core import node as nodes

    x = ag.tensor([1.0, 2.0], requires_grad=True)
    y = x.sin()
    before = repr(nodes.sequence)
    cards.card(y.grad_fn)
    numbers(y.grad_fn, None)
    assert repr(nodes.sequence) == before
    import weakref

    gone = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert gone() is None


def test_declared_formulas_are_read_or_refused():
    assert linear(cards.Typesetter().line(parse("Sum(k, a[i, k] * b[k, j])"))) == (
        "∑_(k) a[i, k] · b[k, j]"
    )
    with pytest.raises(ValueError, match="cannot read"):
        parse("a if b else c")
    with pytest.raises(ValueError, match="cannot read"):
        parse("a +")


@pytest.mark.parametrize("formula", ["{} * b", "b * ({})", "{} + b", "b - ({})"])
def test_a_nested_formula_is_set_with_work_in_proportion_to_it(formula, monkeypatch):
    set_, calls = cards.Typesetter.set, []

    def counted(self, term):
        calls.append(term)
        assert len(calls) < 10_000, "the work doubles with each level"
        return set_(self, term)

    monkeypatch.setattr(cards.Typesetter, "set", counted)
    text, levels = "a", 40
    for _ in range(levels):
        text = formula.format(text)
    told = linear(cards.Typesetter().line(parse(text)))
    assert told.count("b") == levels
    assert len(calls) <= 2 * levels + 1


@cases.every(lambda op: isinstance(op.formula, str))
def test_declared_formulas_name_inputs_only(op):
    assert cards.forward_math(op)


def test_custom_functions_have_a_card_with_their_own_names():
    class Twice(ag.autograd.Function):
        """Doubles a tensor."""

        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    card = cards.card(Twice.apply(ag.ones(2, requires_grad=True), 2).grad_fn)
    assert card["says"] == "Doubles a tensor."
    assert card["text"] == "result = Twice.forward(x)"
    assert card["derivatives"][0]["text"] == "(∂L) / (∂x) = Twice.backward(grad)"


def test_leaves_and_unknown_nodes_have_a_card():
    x = ag.ones(2, requires_grad=True)
    node = (x * 2).grad_fn.next_functions[0][0]
    assert cards.card(node)["text"] == "variable.grad ← variable.grad + grad"
    assert cards.card_by_name("Whatever")["op"] == "Whatever"
    assert ops["sin"].public_name == cards.card_by_name("SinBackward0")["op"]


def test_a_card_by_name_says_which_form_it_is_where_two_make_nodes_of_that_name() -> None:
    assert cards.card_by_name("SinBackward0")["note"] == ""
    assert cards.card_by_name("MmBackward0")["note"] == ""
    note = cards.card_by_name("NativeBatchNormBackward0")["note"]
    assert note.startswith("This is batch_norm_train: nodes of batch_norm_eval have the same name")


@cases.every(
    lambda op: (
        cases.differentiable(op)
        and op.public
        and vmap.rule_of(op) is vmap.elementwise
        and not op.name.endswith("_backward")
    )
)
def test_pointwise_ops_spell_their_derivative_out(op):
    for one in cards.sample_card(op)["derivatives"]:
        assert "_backward(" not in one["text"]


# Cards of samples ---------------------------------------------------------------------------------


@DIFFERENTIABLE
def test_a_sample_card_says_no_shape_of_the_sample(op):
    for one in cards.sample_card(op)["derivatives"]:
        assert "broadcast" not in one["says"]
        assert "spread to" not in one["says"]
        told = names_in(one["math"]).union(*map(names_in, one["where"]))
        assert OF_SAMPLE in one["says"] or not any(n.startswith("dim ") for n in told)


@pytest.mark.parametrize("name", ["MeanBackward0", "MeanBackward1", "CatBackward0", "VarBackward0"])
def test_sizes_are_letters_in_the_card_of_a_node_that_is_gone(name):
    for one in cards.card_by_name(name)["derivatives"]:
        letter = one["says"].split()[0]
        assert letter in "nmk"
        assert "the sizes" in one["says"]
        assert letter in names_in(one["math"])
        assert not {"12", "3", "4", "0.1818"} & numbers_in(one["math"]), one["text"]


def test_numbers_of_rules_stay_in_the_cards_of_samples():
    (one,) = cards.card_by_name("HardsigmoidBackward0")["derivatives"]
    assert {"6", "3"} <= numbers_in(one["math"])
    assert one["says"] == ""


def test_a_sample_with_arguments_of_its_own_says_whose_its_numbers_are():
    (one,) = cards.sample_card(ops["narrow_copy"])["derivatives"]
    assert one["says"] == OF_SAMPLE


def test_a_freed_node_has_no_number_of_another_call():
    mean = (ag.ones(5, 2, requires_grad=True) * 3).mean()
    node = mean.grad_fn
    assert "/ 10" in cards.card(node)["derivatives"][0]["text"]
    mean.backward()
    freed = ag.lerp(ag.ones(5, 2, requires_grad=True), ag.ones(5, 2, requires_grad=True), 0.5)
    node = freed.grad_fn
    freed.sum().backward()
    for one in (*cards.card(mean.grad_fn)["derivatives"], *cards.card(node)["derivatives"]):
        assert "/ 12" not in one["text"]
        assert "broadcast" not in one["says"]
