"""Names of tensors in the user's code."""

from __future__ import annotations

import gc
import sys
import weakref

import ag_visual as ag
from ag_visual.observe.record.leaf_names import Labels, names_by_storage, scopes_of, tensors_in


def leaf():
    return ag.tensor([1.0], requires_grad=True)


class Net:
    """What a module looks like from outside."""

    def __init__(self):
        self.weight = leaf()

    def named_parameters(self):
        yield "layer.weight", self.weight


class Broken:
    def named_parameters(self):
        raise RuntimeError("half built")


class Holder:
    def __init__(self):
        self.w = leaf()
        self.net = Net()


def test_where_names_are_found():
    scope = {
        "w": leaf(),
        "net": Net(),
        "rows": [leaf(), 3, leaf()],
        "table": {"a": leaf()},
        "holder": Holder(),
        "broken": Broken(),
        "_hidden": leaf(),
        "number": 3,
        "module": sys,
    }
    assert [name for name, _ in tensors_in(scope)] == [
        "w",
        "net.layer.weight",
        "rows[0]",
        "rows[2]",
        "table['a']",
        "holder.w",
        "holder.net.layer.weight",
    ]


def test_containers_in_containers_are_looked_into_the_shortest_name_first():
    params = [[leaf(), leaf()], (leaf(), {"b": leaf()})]
    looped: list = [leaf()]
    looped.append(looped)
    scope = {"Out": {5: params}, "params": params, "layers": [Net(), 3], "looped": looped}
    labels = Labels()
    labels.learn_scope(scope)
    (w, b), (v, rest) = params
    assert [labels.of(t) for t in (w, b, v, rest["b"])] == [
        "params[0][0]",
        "params[0][1]",
        "params[1][0]",
        "params[1][1]['b']",
    ]
    assert labels.of(scope["layers"][0].weight) == "layers[0].layer.weight"
    assert labels.of(looped[0]) == "looped[0]"


def test_rows_of_data_are_not_all_looked_at():
    looked = [0]

    class Row(list):
        def __getitem__(self, part):
            looked[0] += len(range(*part.indices(len(self))))
            return super().__getitem__(part)

    last = leaf()
    scope = {"data": [Row([1.0] * 100) for _ in range(1000)], "deep": [[last]]}
    assert [name for name, _ in tensors_in(scope)] == ["deep[0][0]"]
    assert looked[0] <= 1000


def test_locals_come_before_globals_and_inner_frames_before_outer():
    outer = leaf()

    def inner():
        mine = leaf()
        return [name for scope in scopes_of(sys._getframe()) for name in scope], mine

    names, _ = inner()
    assert names.index("mine") < names.index("outer") < names.index("Holder")
    assert outer is not None


def test_looking_leaves_no_variable_alive():
    mine = leaf()
    ref = weakref.ref(mine)
    names = list(next(scopes_of(sys._getframe())))
    del mine
    assert "mine" in names
    assert ref() is None


def test_a_users_own_locals_stay_as_they_are():
    mine = leaf()
    held = locals()
    assert "mine" in next(scopes_of(sys._getframe()))
    assert held["mine"] is mine


def test_labels_stay_with_their_tensor_and_do_not_keep_it():
    labels = Labels()
    first = leaf()
    labels.learn_scope({"first": first})
    ref = weakref.ref(first)
    assert labels(ref) == "first"
    del first
    gc.collect()
    assert ref() is None
    assert labels(ref) == "first"
    labels.forget_dead()
    assert labels(ref) == ""
    others = [leaf() for _ in range(100)]
    assert not any(labels.of(other) for other in others)


def test_only_leaves_that_require_grad_are_labelled():
    labels = Labels()
    x = leaf()
    y, z = x * x, ag.tensor([1.0])
    labels.learn_scope({"x": x, "y": y, "z": z})
    assert [labels.of(t) for t in (x, y, z)] == ["x", "", ""]


def test_names_on_one_storage():
    x = leaf()
    scope = {"x": x, "same": x.detach(), "through_data": x.data, "other": leaf()}
    found = names_by_storage([scope, scope])
    assert found[x._storage.uid] == ["same", "through_data", "x"]


def test_a_cells_own_variable_comes_before_what_runs_the_cell():
    cell = "x = leaf()\nlabels.learn(sys._getframe())\n"
    labels = Labels()
    names = {"leaf": leaf, "labels": labels, "sys": sys}
    exec(compile(cell, "<cell>", "exec"), names)
    assert labels.of(names["x"]) == "x"


def test_a_leaf_without_a_name_is_sought_three_times():
    labels = Labels()
    tensors = [leaf()]
    asked = 0
    while not labels.know(tensors):
        labels.learn(None, tensors)
        asked += 1
    assert asked == 3
    labels.learn_scope({"found": tensors[0]})
    assert labels.of(tensors[0]) == "found"
    del tensors[:]
    gc.collect()
    labels.forget_dead()
    assert not labels._sought
