"""Names that libraries on torch import or ask for: they are there, and do what torch's do."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import warnings
from collections import OrderedDict, defaultdict, namedtuple
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import ag_visual as ag
from ag_visual import absent
from ag_visual.utils import _foreach_utils, _pytree
from ag_visual.utils.checkpoint import get_device_states, set_device_states
from ag_visual.utils.data import DataLoader, dataloader as data_loaders

from ..oracle import torch

Pair = namedtuple("Pair", "left right")


def script(tmp_path: Path, text: str) -> str:
    """What a script prints in which `import torch` gives this package."""
    path = tmp_path / "script.py"
    path.write_text(text)
    words = [sys.executable, "-m", "ag_visual", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=Path(ag.__file__).parents[1])
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torch_is_its_own_attribute_and_operators_are_names(tmp_path: Path) -> None:
    said = script(
        tmp_path,
        """
import torch
print(torch.torch is torch, torch.torch.Tensor is torch.Tensor)
aten = torch.ops.aten
table = {aten.clone.default: 1, aten.add: 2}
print(table[torch.ops.aten.clone.default], hasattr(torch.ops.pyg, "knn"))
for call in (aten.clone, lambda: torch.ops.load_library("x.so")):
    try:
        call()
    except NotImplementedError as error:
        print(error)
from torch.distributions.utils import _standard_normal, _sum_rightmost
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.serialization import MAP_LOCATION
from torch._C import Value, _disabled_torch_function_impl, _TensorMeta
from torch.distributed.tensor import DTensor
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.utils.data.dataloader import _collate_fn_t
from torch.distributed._tensor.experimental import implicit_replication
from torch._subclasses.fake_tensor import FakeTensor, is_fake
from torch.nn.parallel.scatter_gather import scatter
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from torch._dynamo import OptimizedModule
from torch.jit import _overload, _overload_method
class Mode(TorchFunctionMode): ...
from torch._C import _are_functorch_transforms_active as inside
print(inside(), torch.vmap(lambda x: x * inside())(torch.ones(2)).tolist())
absent = (FakeTensor, OptimizedModule, torch.SymInt, DTensor, Value)
print(is_fake(torch.ones(1)), isinstance(3, absent))
print(_sum_rightmost(torch.ones(2, 3, 4), 2).tolist(), type(torch.ones(1)).__class__ is _TensorMeta)
""",
    )
    assert said.splitlines() == [
        "True True",
        "1 False",
        "torch.ops.aten.clone is not here. There is no C++ below this package: write it as a "
        "torch.autograd.Function. The function or method of Tensor that computes 'clone' may be "
        "called.",
        "torch.ops.load_library('x.so') is not here. There is no C++ below this package: write it "
        "as a torch.autograd.Function.",
        "False [1.0, 1.0]",
        "False False",
        "[12.0, 12.0] True",
    ]


def test_what_stands_at_the_top_is_told_where_it_is_used() -> None:
    assert isinstance(ag.PyTorchFileReader, type)
    with pytest.raises(NotImplementedError, match=r"torch\.PyTorchFileReader is .*torch\.load and"):
        ag.PyTorchFileReader("model.pt")
    assert ag.complex64 not in (ag.complex32, ag.bfloat16)
    with pytest.raises(AttributeError, match="no attribute 'knn'"):
        _ = absent.OPERATORS.pyg.knn


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["_standard_normal", "_sum_rightmost"])
def test_helpers_of_distributions(name: str) -> None:
    ours, theirs = (getattr(t.distributions.utils, name) for t in (ag, torch))
    if name == "_standard_normal":
        found, expected = ours((2, 3), ag.float64, "cpu"), theirs((2, 3), torch.float64, "cpu")
        assert found.shape == expected.shape
        assert str(found.dtype) == str(expected.dtype)
        return
    for dims in range(4):
        shape = (2, 3, 4)
        assert ours(ag.ones(shape), dims).tolist() == theirs(torch.ones(shape), dims).tolist()


@pytest.mark.oracle
def test_any_class_may_have_a_divergence() -> None:
    for t in (ag, torch):

        class Base:
            """Of a library that has distributions of its own."""

        class Mine(t.distributions.Normal): ...

        @t.distributions.register_kl(Mine, Base)
        def formula(p: Any, q: Any) -> int:
            return 3

        assert t.distributions.kl_divergence(Mine(0.0, 1.0), Base()) == 3
        with pytest.raises(TypeError):
            t.distributions.register_kl(Mine, 3)


@pytest.mark.oracle
def test_tensors_in_groups_by_dtype() -> None:
    def groups(t: Any, utils: Any, indices: bool) -> Any:
        first = [t.ones(2), t.ones(3, dtype=t.float64), t.ones(4)]
        lists = [first, [x * 2 for x in first], [None] * 3, []]
        found = utils._group_tensors_by_device_and_dtype(lists, with_indices=indices)
        return {
            (str(device), str(dtype)): (
                [[x.tolist() if isinstance(x, t.Tensor) else x for x in each] for each in split],
                places,
            )
            for (device, dtype), (split, places) in found.items()
        }

    from torch.utils import _foreach_utils as theirs

    for indices in (False, True):
        lists = groups(ag, _foreach_utils, indices)
        expected = groups(torch, theirs, indices)
        assert lists == expected


def test_random_states_of_devices() -> None:
    assert get_device_states(ag.ones(2), 3, "x") == ([], [])
    set_device_states([], [])
    assert ag.cuda._initialized is ag.cuda.is_initialized()


@pytest.mark.oracle
@pytest.mark.parametrize(
    "tree",
    [
        (1, [2]),
        [1, 2],
        {"b": 1, "a": 2},
        OrderedDict(b=1, a=2),
        defaultdict(list, b=1),
        Pair(1, [2]),
        3,
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_kinds_of_nodes(tree: Any) -> None:
    from torch.utils import _pytree as theirs

    kind = _pytree._get_node_type(tree)
    assert kind is theirs._get_node_type(tree)
    assert (kind in _pytree.SUPPORTED_NODES) is (kind in theirs.SUPPORTED_NODES)
    if kind in _pytree.SUPPORTED_NODES:
        children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(tree)
        assert list(children) == list(theirs.SUPPORTED_NODES[kind].flatten_fn(tree)[0])
        again = _pytree.SUPPORTED_NODES[kind].unflatten_fn(children, context)
        assert again == tree
        assert type(again) is type(tree)
    assert _pytree.LeafSpec().is_leaf()


def test_classes_of_parameters() -> None:
    class Mine(ag.nn.Parameter):
        def __new__(cls, data: Any, note: str) -> Mine:
            made = ag.Tensor._make_subclass(cls, data, True)
            made.note = note
            return made

    data = ag.arange(3.0)
    leaf = Mine(data, "n")
    assert type(leaf) is Mine
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert leaf.data_ptr() == data.data_ptr()
    assert not data.requires_grad
    (leaf**2).sum().backward()
    assert leaf.grad.tolist() == [0.0, 2.0, 4.0]
    assert not ag.Tensor._make_subclass(Mine, data).requires_grad


@pytest.mark.oracle
def test_blocks_of_transformer_layers_may_be_replaced() -> None:
    """Subclasses call and override the blocks, by torch's names."""

    def told(t: Any) -> list[Any]:
        class Encoder(t.nn.TransformerEncoderLayer):
            def _sa_block(self, x: Any, mask: Any, padding: Any, is_causal: bool = False) -> Any:
                return 2 * super()._sa_block(x, mask, padding, is_causal=is_causal)

            def _ff_block(self, x: Any) -> Any:
                return super()._ff_block(x).sin()

        class Decoder(t.nn.TransformerDecoderLayer):
            def _mha_block(
                self, x: Any, mem: Any, mask: Any, padding: Any, is_causal: bool = False
            ) -> Any:
                return -super()._mha_block(x, mem, mask, padding, is_causal)

        found = []
        for first in (False, True):
            for made in (Encoder, Decoder):
                layer = made(4, 2, 8, dropout=0.0, norm_first=first, batch_first=True).double()
                for i, p in enumerate(layer.parameters()):
                    p.data = t.linspace(-1, 1, p.numel()).double().reshape(p.shape) * (1 + i % 3)
                x = t.linspace(0, 3, 24).double().cos().reshape(2, 3, 4)
                out = layer(x) if made is Encoder else layer(x, x[:, :2].sin())
                out.pow(2).sum().backward()
                found += [out.flatten().tolist(), layer.linear1.weight.grad.flatten().tolist()]
        return found

    for ours, theirs in zip(told(ag), told(torch), strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12)


@pytest.mark.oracle
def test_variables_of_a_module_of_layers() -> None:
    """As libraries look for an activation by its name."""

    def layers(t: Any) -> set[str]:
        found = vars(t.nn.modules.activation).values()
        return {x.__name__ for x in found if isinstance(x, type) and issubclass(x, t.nn.Module)}

    theirs = {name for name in layers(torch) if hasattr(torch.nn.modules.activation, name)}
    assert layers(ag) == theirs - {"Module", "NonDynamicallyQuantizableLinear"}


@pytest.mark.oracle
def test_arguments_of_to() -> None:
    def told(t: Any) -> list[str]:
        parse = t._C._nn._parse_to
        asks = [((), {}), (("cpu",), {}), ((t.float64,), {}), ((t.ones(1),), {})]
        asks += [(("cpu", t.int64, True), {}), ((), {"dtype": t.float64, "non_blocking": True})]
        asks += [((t.device("cpu"),), {"memory_format": t.channels_last})]
        return [repr(parse(*args, **named)) for args, named in asks]

    assert told(ag) == told(torch)


def test_iterators_of_loaders_tell_who_makes_batches() -> None:
    iterator = iter(DataLoader([1, 2]))
    assert isinstance(iterator, data_loaders._BaseDataLoaderIter)
    assert isinstance(iterator, data_loaders._SingleProcessDataLoaderIter)
    assert not isinstance(iterator, data_loaders._MultiProcessingDataLoaderIter)
    assert len(iterator) == 2


def test_workers_that_stay_draw_one_seed() -> None:
    loader = DataLoader([1, 2], num_workers=1, persistent_workers=True)
    states = []
    for _ in range(3):
        list(loader)
        states.append(ag.get_rng_state().tolist())
    assert states[0] == states[1] == states[2]


@pytest.mark.oracle
def test_the_folder_of_models(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ag.hub.HASH_REGEX.pattern == torch.hub.HASH_REGEX.pattern
    assert ag.hub.READ_DATA_CHUNK == torch.hub.READ_DATA_CHUNK
    for name in ("TORCH_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
        assert ag.hub.get_dir() == torch.hub.get_dir()
    monkeypatch.setattr(ag.hub, "_chosen", None)
    ag.hub.set_dir(tmp_path)
    assert ag.hub.get_dir() == str(tmp_path)
    with pytest.raises(NotImplementedError, match="Nothing is downloaded"):
        ag.hub.load_state_dict_from_url("x")


@pytest.mark.oracle
def test_numbers_of_a_tensor_as_text() -> None:
    from torch import _tensor_str as theirs

    ours = ag._tensor_str
    assert ours.PRINT_OPTS.threshold == theirs.PRINT_OPTS.threshold
    data = [[1.0, 2.5], [3.0, 4.0]]
    found, expected = (
        ours._tensor_str(ag.tensor(data), 0),
        theirs._tensor_str(torch.tensor(data), 0),
    )
    assert found == expected


# Memory formats, and what older programs write ---------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["channels_last", "channels_last_3d"])
def test_channels_last_is_taken(name: str) -> None:
    def told(t: Any) -> list[Any]:
        form = getattr(t, name)
        rank = 4 if name == "channels_last" else 5
        plain = t.arange(2 * 3 * 4 ** (rank - 2)).reshape(2, 3, *[4] * (rank - 2)).double()
        last = (
            plain.permute(0, *range(2, rank), 1)
            .contiguous()
            .permute(0, rank - 1, *range(1, rank - 1))
        )
        conv = t.nn.Sequential(t.nn.Conv2d(1, 1, 1), t.nn.BatchNorm2d(1)).double()
        copies = [
            plain.contiguous(memory_format=form),
            plain.to(memory_format=form),
            plain.clone(memory_format=form),
            t.empty_like(plain, memory_format=form).copy_(plain),
        ]
        return [
            repr(form),
            plain.is_contiguous(memory_format=form),
            last.is_contiguous(memory_format=form),
            t.ones(2, 3).is_contiguous(memory_format=form),
            [x.tolist() == plain.tolist() for x in copies],
            [tuple(v.shape) for v in conv.to(memory_format=t.channels_last).state_dict().values()],
        ]

    assert told(ag) == told(torch)


@pytest.mark.oracle
def test_older_sparse_constructors_and_products() -> None:
    def told(t: Any) -> list[Any]:
        places, values = t.tensor([[0, 1, 1], [1, 0, 2]]), t.tensor([1.0, 2.0, 3.0])
        values.requires_grad_()
        x = t.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
        a = t.sparse.FloatTensor(places, values, t.Size([2, 3]))
        out = [t.spmm(a, x), t.dsmm(a, x)]
        (out[0].sum() + (out[1] ** 2).sum()).backward()
        empty = t.sparse.DoubleTensor(2, 3)
        return [
            *(y.tolist() for y in out),
            values.grad.tolist(),
            x.grad.tolist(),
            isinstance(a, t.sparse.FloatTensor),
            isinstance(a, t.sparse.DoubleTensor),
            isinstance(x, t.sparse.FloatTensor),
            str(empty.dtype),
            tuple(empty.shape),
            empty.to_dense().tolist(),
            tuple(t.sparse.LongTensor(places, t.tensor([1, 2, 3])).shape),
        ]

    expected = told(ag)
    with warnings.catch_warnings(action="ignore"):  # torch warns that they are older ones
        assert told(torch) == expected


# Futures -----------------------------------------------------------------------------------------


@pytest.mark.oracle
def test_futures() -> None:
    def told(t: Any) -> list[Any]:
        future, seen = t.futures.Future(), []
        later = future.then(lambda done: done.value() + 1)
        wrong = later.then(lambda done: {}["absent"])
        future.add_done_callback(lambda done: seen.append(done.value()))
        both = t.futures.collect_all([future, later])
        states = [future.done(), both.done()]
        threading.Thread(target=future.set_result, args=(3,)).start()
        found = [future.wait(), later.wait(), [each.wait() for each in both.wait()]]
        states += [future.done(), both.done(), seen == [3]]
        found.append(t.futures.wait_all([future, later]))
        for ask in (wrong.wait, lambda: future.set_result(4), t.futures.Future().value):
            with pytest.raises(Exception):  # noqa: B017
                ask()
        failed = t.futures.Future()
        failed.set_exception(ValueError("no"))
        with pytest.raises(ValueError, match="no"):
            failed.wait()
        with pytest.raises(AssertionError, match="not an Exception"):
            t.futures.Future().set_exception(3)
        return [states, found]

    assert told(ag) == told(torch)
    assert ag.futures.wait_all([]) == []


# Quasirandom points ------------------------------------------------------------------------------


@pytest.mark.oracle
def test_points_of_sobol_sequences() -> None:
    def told(t: Any) -> list[Any]:
        engine = t.quasirandom.SobolEngine(5)
        found: list[Any] = [engine.draw(3).tolist(), engine.num_generated, repr(engine)]
        found += [engine.fast_forward(4).draw(2, dtype=t.float64).tolist()]
        out = t.empty(0)
        engine.reset().draw_base2(2, out=out)
        found += [out.tolist(), str(out.dtype), engine.draw(0).shape]
        for ask in (
            lambda: t.quasirandom.SobolEngine(0),
            lambda: engine.draw_base2(3),
            lambda: engine.draw(-1),
        ):
            with pytest.raises((ValueError, RuntimeError)) as caught:
                ask()
            found.append((caught.type, str(caught.value)))
        return [*found, repr(t.quasirandom.SobolEngine(2, scramble=True, seed=3))]

    assert told(ag) == told(torch)


def test_scrambled_points_are_those_of_their_seed_and_spread_evenly() -> None:
    points = ag.quasirandom.SobolEngine(2, scramble=True, seed=3)
    first = points.draw(64)
    assert (points.reset().draw(64) == first).all()
    assert (ag.quasirandom.SobolEngine(2, scramble=True, seed=3).draw(64) == first).all()
    assert not (ag.quasirandom.SobolEngine(2, scramble=True, seed=4).draw(64) == first).all()
    # One in each of 64 cells, whichever way the square is cut.
    for rows in (1, 2, 4, 8, 16, 32, 64):
        sizes = ag.tensor([rows, 64 // rows])
        cells = (first * sizes).floor() * ag.tensor([64 // rows, 1])
        assert cells.sum(1).unique().numel() == 64
    ag.manual_seed(1)
    drawn = ag.quasirandom.SobolEngine(2, scramble=True).draw(4)
    ag.manual_seed(1)
    assert (ag.quasirandom.SobolEngine(2, scramble=True).draw(4) == drawn).all()


# TensorBoard -------------------------------------------------------------------------------------


def test_tensorboard_writes_by_tensorboardx(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    class SummaryWriter:
        def __init__(self, logdir: str) -> None:
            self.logdir = logdir

        def add_scalar(self, tag: str, value: Any, global_step: int | None = None) -> None:
            written.append((tag, value, global_step))

        def add_scalars(self, tag: str, values: dict[str, Any]) -> None:
            written.append((tag, values))

        def add_graph(self, model: Any) -> None:
            raise AssertionError

    package = ModuleType("tensorboardX")
    package.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", package)
    monkeypatch.delitem(sys.modules, "ag_visual.utils.tensorboard", raising=False)
    from ag_visual.utils import tensorboard

    writer = tensorboard.SummaryWriter("runs")
    loss = ag.tensor(2.5, requires_grad=True)
    writer.add_scalar("loss", loss, global_step=3)
    writer.add_scalars("two", {"a": loss * 2, "b": 1.0})
    assert [type(x) for x in (written[0][1], written[1][1]["a"])] == [
        type(loss.detach().numpy())
    ] * 2
    assert [written[0][2], written[1][1]["a"].tolist(), written[1][1]["b"]] == [3, 5.0, 1.0]
    with pytest.raises(NotImplementedError, match="show"):
        writer.add_graph(ag.nn.Linear(1, 1))
    del sys.modules["ag_visual.utils.tensorboard"]  # it has the package of this test


def test_tensorboard_names_the_package_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    monkeypatch.delitem(sys.modules, "ag_visual.utils.tensorboard", raising=False)
    with pytest.raises(ImportError, match=re.escape("pip install tensorboardX")):
        import ag_visual.utils.tensorboard  # noqa: F401
