"""Levels of transforms: which nodes they made, how they are named and lie in each other."""

from __future__ import annotations

from typing import Any

import pytest

import ag_visual as ag
from ag_visual.autograd import forward_ad
from ag_visual.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from ag_visual.observe.record.recorder import Recorder
from ag_visual.observe.wire import store

from .reading import rows
from .test_calls import paths

X = ag.arange(6.0).reshape(3, 2)
W = ag.ones(2, 2, requires_grad=True)


def f(v: Any) -> Any:
    return (v @ W).sin().sum()


PROGRAMS = {
    "grad": lambda: grad(f)(X[0]),
    "vjp": lambda: vjp(f, X[0])[1](ag.tensor(1.0)),
    "vmap of grad": lambda: vmap(grad(f))(X),
    "grad of vmap": lambda: grad(lambda x: vmap(f)(x).sum())(X),
    "vmap of vmap": lambda: vmap(vmap(lambda a: (a * W).sum()))(X).sum().backward(),
    "jvp": lambda: jvp(f, (X[0],), (X[1],)),
    "jacrev": lambda: jacrev(lambda v: (v @ W).sin())(X[0]),
    "jacfwd": lambda: jacfwd(lambda v: (v @ W).sin())(X[0]),
    "hessian": lambda: hessian(f)(X[0]),
    "vmap of hessian": lambda: vmap(hessian(f))(X),
    "backward of vmap": lambda: vmap(f)(X).sum().backward(),
    "backward of jacobian": lambda: jacrev(lambda v: (v @ W).sin())(X[0]).sum().backward(),
    "batched seeds": lambda: ag.autograd.grad(
        (X @ W).sin()[0], W, ag.eye(2), is_grads_batched=True
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_transforms_are_recorded_with_their_levels(recorder: Recorder, name: str) -> None:
    recorder.start()
    PROGRAMS[name]()
    recorder.stop()
    found = rows(recorder)
    calls = {row["call"]: row for row in found["calls"]}
    assert {row["call"] for row in found["levels"]} == calls.keys()
    made = {row["seq"] for row in found.get("nodes", ())}
    assert {row["seq"] for row in found.get("scopes", ())} <= made


def test_a_level_has_its_name_its_size_and_its_line(recorder: Recorder) -> None:
    recorder.start()
    vmap(grad(f))(X)
    recorder.stop()
    found = rows(recorder)
    about = [(row["kind"], row["depth"], row["size"]) for row in found["levels"]]
    assert about == [("vmap", 1, 3), ("grad", 2, 0)]
    assert [row["name"] for row in found["calls"]] == ["vmap, 3 lanes", "grad, level 2"]
    sites = [recorder.encoder.sites.found[row["site"]] for row in found["levels"]]
    assert [site.source_line for site in sites] == ["vmap(grad(f))(X)"] * 2
    inside = ("vmap, 3 lanes", "grad, level 2")
    assert ("SinBackward0", inside) in paths(recorder)


def test_nodes_outside_belong_to_no_level(recorder: Recorder) -> None:
    recorder.start()
    (vmap(f)(X) * W.sum()).sum().backward()
    recorder.stop()
    found = paths(recorder)
    assert ("SinBackward0", ("vmap, 3 lanes",)) in found
    assert ("MulBackward0", ()) in found


def test_a_module_and_a_level_lie_in_each_other(recorder: Recorder) -> None:
    net = ag.nn.Linear(2, 2)

    class Outer(ag.nn.Module):
        def forward(self, x: Any) -> Any:
            return vmap(net)(x).sum()

    recorder.start()
    Outer()(X)
    recorder.stop()
    assert ("AddBackward0", ("Outer", "vmap, 3 lanes", "Linear")) in paths(recorder)


def test_a_level_of_forward_mode_is_one_too(recorder: Recorder) -> None:
    recorder.start()
    with forward_ad.dual_level():
        forward_ad.make_dual(W, ag.ones(2, 2)).sin()
    W.cos()
    recorder.stop()
    found = paths(recorder)
    assert ("SinBackward0", ("forward mode",)) in found
    assert ("CosBackward0", ()) in found


def test_an_error_inside_ends_the_levels(recorder: Recorder) -> None:
    recorder.start()
    with pytest.raises(RuntimeError, match="shapes"):
        vmap(grad(lambda v: (v @ ag.ones(5, 5)).sum()))(X)
    W * 2
    recorder.stop()
    assert paths(recorder)[-1] == ("MulBackward0", ())


def test_thinning_keeps_what_is_known_of_the_levels_around_what_lives(recorder: Recorder) -> None:
    recorder.start()
    kept = vmap(f)(X)
    vmap(f, chunk_size=2)(X)
    recorder.stop()
    [chunk] = recorder.chunks()
    assert chunk.rows("levels") == 3
    thinned, _ = store.thin(chunk, recorder.alive())
    assert (thinned.rows("calls"), thinned.rows("levels")) == (1, 1)
    gone, _ = store.thin(chunk, recorder.alive()[:0])
    assert gone.rows("levels") == 0
    assert kept.grad_fn is not None


def test_nobody_is_told_where_nobody_records(recorder: Recorder) -> None:
    vmap(grad(f))(X)
    assert recorder.waiting == 0
