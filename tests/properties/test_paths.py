"""torch's module paths lead to the one place where a thing is, and have torch's names alone."""

from __future__ import annotations

import copy
import importlib
import inspect
import os
import pickle
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from types import ModuleType

import pytest

import ag_visual as ag
from ag_visual import absent, paths

from ..oracle import torch


def in_both(path: str) -> tuple[ModuleType, ModuleType]:
    """The module of a path in both packages; "" is the package itself."""
    ours = importlib.import_module(f"ag_visual.{path}".rstrip("."))
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        theirs = importlib.import_module(f"torch.{path}".rstrip("."))  # some warn of themselves
    return ours, theirs


@pytest.mark.oracle
@pytest.mark.parametrize("path", paths.PATHS)
def test_a_path_has_torchs_names_alone(path: str) -> None:
    ours, theirs = in_both(path)
    assert sys.modules[f"ag_visual.{path}"] is ours
    for name in dir(ours):
        assert getattr(ours, name) is not None
        if not hasattr(theirs, name):
            importlib.import_module(f"torch.{path}.{name}")


@pytest.mark.oracle
@pytest.mark.parametrize("path", [path for path in paths.PATHS if path.startswith("nn.modules.")])
def test_a_layer_is_at_the_path_where_torch_has_it(path: str) -> None:
    theirs = importlib.import_module(f"torch.{path}")
    public = [name for name in getattr(theirs, "__all__", ()) if hasattr(ag.nn, name)]
    ours = importlib.import_module(f"ag_visual.{path}")
    assert [name for name in public if getattr(ours, name, None) is not getattr(ag.nn, name)] == []


def test_what_a_path_names_is_itself() -> None:
    from ag_visual.nn.modules import conv
    from ag_visual.nn.modules.conv import Conv2d, _ConvNd

    assert Conv2d is ag.nn.Conv2d is ag.nn.modules.Conv2d is conv.Conv2d
    assert issubclass(Conv2d, _ConvNd)
    assert pickle.loads(pickle.dumps(Conv2d)) is Conv2d
    home = inspect.getmodule(Conv2d)
    assert home is not None
    assert vars(home)["Conv2d"] is Conv2d
    # A pickle of torch's names a class by its path there.
    named = b"cag_visual.nn.modules.conv\nConv2d\n."
    assert pickle.loads(named) is Conv2d
    # A function stays where the module of the same name is imported.
    function = ag.nn.utils.spectral_norm
    assert importlib.import_module("ag_visual.nn.utils.spectral_norm").spectral_norm is function
    assert ag.nn.utils.spectral_norm is function
    with pytest.raises(AttributeError, match=r"'ag_visual\.nn\.modules\.conv' has no"):
        _ = conv.Covn2d


@pytest.mark.oracle
def test_results_with_names_are_of_the_classes_in_return_types() -> None:
    matrix = ag.eye(3)
    results = [
        *(matrix.max(0), matrix.sort(), matrix.cummax(0), ag.frexp(matrix), ag.aminmax(matrix)),
        *(ag.linalg.svd(matrix), ag.linalg.slogdet(matrix), ag.linalg.lu_factor(matrix)),
        *(ag.svd(matrix), ag.linalg.eigh(matrix), ag.histogram(matrix, 3)),
    ]
    for result in results:
        name = type(result).__name__
        assert type(result) is getattr(ag.return_types, name)
        assert result._fields[0] in dir(getattr(torch.return_types, name))
        again = pickle.loads(pickle.dumps(result))
        assert type(again) is type(copy.deepcopy(result)) is type(result)
        assert again[0].tolist() == result[0].tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("path", absent.STAND_INS)
def test_stand_ins_are_torchs_and_say_what_to_do(path: str) -> None:
    ours, theirs = in_both(path)
    for name in absent.STAND_INS[path]:
        assert hasattr(theirs, name), name
        full = f"{path}.{name}".lstrip(".")
        with pytest.raises(NotImplementedError, match=rf"^torch\.{full} is not here\. "):
            getattr(ours, name)()
        assert getattr(ours, name) is getattr(ours, name)


def test_libraries_that_import_torch(tmp_path: Path) -> None:
    """A package of its own is imported by a script: both find one torch."""
    (tmp_path / "library.py").write_text(
        textwrap.dedent(
            """
            import inspect
            import torch.backends.cudnn as cudnn
            import torch.distributed as dist
            import torch.nn.functional as F
            import torch.utils.data.dataloader
            from torch import fx, jit
            from torch.functional import einsum
            from torch.hub import load_state_dict_from_url
            from torch.nn.modules.batchnorm import _BatchNorm
            from torch.nn.modules.utils import _pair
            from torch.nn.parameter import Parameter
            from torch.nn.modules.conv import _ConvNd
            from torch.nn.parallel import DistributedDataParallel as DDP
            from torch.utils.data.distributed import DistributedSampler
            from torch.optim.lr_scheduler import _LRScheduler
            from torch.optim.optimizer import Optimizer, required
            from torch.utils._pytree import tree_map

            class Tracer(fx.Tracer):
                pass

            @jit.ignore
            def looked(model):
                return isinstance(model, fx.GraphModule), isinstance(model, _BatchNorm)

            cudnn.benchmark = True
            where = inspect.getmodule(inspect.currentframe())
            """
        )
    )
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import inspect, pickle, warnings, library, torch
            from torch.nn.modules import BatchNorm2d

            assert library.F is torch.nn.functional and library.einsum is torch.einsum
            assert torch.backends.cudnn.benchmark and library.cudnn is torch.backends.cudnn
            assert library.looked(BatchNorm2d(1)) == (False, True)
            assert not isinstance(BatchNorm2d(1), (library.DDP, torch.nn.SyncBatchNorm))
            assert library._pair(3) == (3, 3) and library.where is library
            assert torch.utils.data.dataloader.DataLoader is torch.utils.data.DataLoader
            assert issubclass(torch.optim.sgd.SGD, library.Optimizer)
            assert library._LRScheduler is not torch.optim.lr_scheduler.LRScheduler
            layer = torch.nn.Conv2d(1, 1, 1, bias=False)
            x = torch.ones(1, 1, 2, 2)
            assert (layer._conv_forward(x, torch.ones(1, 1, 1, 1), None) == x).all()
            try:
                library.Optimizer([x], {"lr": library.required})
            except ValueError as error:
                assert "required optimization parameter lr" in str(error)
            assert pickle.loads(b"ctorch.nn.modules.linear\\nLinear\\n.") is torch.nn.Linear
            assert pickle.loads(pickle.dumps(torch.nn.Linear)) is torch.nn.Linear
            torch.nn.functional.relu = lambda x, inplace=False: "mine"
            assert torch.nn.ReLU()(torch.ones(1)) == "mine"
            model = torch.nn.Linear(1, 1)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                assert torch.compile(model) is torch.compile(model) is model
            assert len(told) == 1 and "the program runs as it is" in str(told[0].message)
            assert torch.__version__ >= (2, 1) and torch.__version__ < "2.10"
            assert not library.dist.is_available()
            print("done")
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "ag_visual", str(script)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=dict(os.environ, PYTHONPATH=str(Path(ag.__file__).resolve().parents[1])),
    )
    assert (done.stdout, done.stderr) == ("done\n", "")
    assert torch is not ag
