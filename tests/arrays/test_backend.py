"""Backends: finding one, moving data, scattered writes, memory tuning, random numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy
import pytest

from ag_visual.arrays import (
    CPU_BACKEND,
    Backend,
    BackendUnavailable,
    backend_for,
    backend_of,
    memory,
    of_namespace,
)
from ag_visual.arrays.random import DEFAULT_SEED, Generator
from ag_visual.devices import device

from ..oracle import torch


def test_backends_are_found_by_array_device_and_namespace(backend: Backend) -> None:
    array = backend.from_numpy(numpy.zeros(3))
    assert backend_of(array) is backend
    assert backend_for(backend.device(array)) is backend
    assert backend_for(device(backend.device_type)) is backend
    assert of_namespace(backend.xp) is backend


def test_subclasses_belong_to_their_library_and_strangers_to_none() -> None:
    class Special(numpy.ndarray):
        pass

    assert backend_of(numpy.zeros(2).view(Special)) is CPU_BACKEND
    with pytest.raises(TypeError, match="no array library is known for list"):
        backend_of([1])


def test_a_missing_cupy_is_said_with_the_command_to_install_it() -> None:
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "from ag_visual.arrays import BackendUnavailable, backend_for\n"
        "try: backend_for('cuda')\n"
        "except BackendUnavailable as problem: print(problem)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "device 'cuda' needs CuPy" in told.stdout
    assert "pip install 'ag-visual[cuda12]'" in told.stdout
    assert not told.stderr


def test_an_unknown_device_type_or_index_is_said() -> None:
    with pytest.raises(BackendUnavailable, match="no array library serves device type 'tape'"):
        backend_for("tape")
    with pytest.raises(BackendUnavailable, match="'cpu:3' does not exist; there is 1"):
        CPU_BACKEND.on(3)
    with CPU_BACKEND.on(None):
        pass


def test_importing_the_arrays_loads_neither_cupy_nor_scipy() -> None:
    code = (
        "import sys, ag_visual.arrays; "
        "print([m for m in ('cupy', 'scipy', 'torch') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


INDICES: list[Any] = [
    numpy.array([0, 2, 2, 1, 2]),
    numpy.array([-1, 0, -1]),
    (numpy.array([0, 2, 2, 2]), numpy.array([1, 1, 1, 0])),
    (slice(None), numpy.array([0, 1, 1])),
    (numpy.array([[0, 2], [2, 2]]),),
    (slice(0, 2), slice(None, None, 2)),
    numpy.array([], numpy.int64),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64", "int32"])
@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("order", ["C", "F"])
def test_scattered_addition_counts_duplicates(
    backend: Backend, index: Any, dtype: str, order: str
) -> None:
    random = numpy.random.default_rng(0)
    target = numpy.asarray(random.integers(-9, 9, (3, 4)), dtype, order=order)
    shape = target[index].shape
    values = random.integers(-9, 9, shape).astype(dtype)
    there = backend.from_numpy(target.copy(order="K"))

    def inward(value: Any) -> Any:
        return backend.from_numpy(value) if isinstance(value, numpy.ndarray) else value

    moved = tuple(map(inward, index)) if isinstance(index, tuple) else inward(index)
    backend.add_at(there, moved, backend.from_numpy(values))
    wanted = target.copy()
    numpy.add.at(wanted, index, values)
    numpy.testing.assert_array_equal(backend.to_numpy(there), wanted)


def test_scattered_addition_of_many_rows_goes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from ag_visual.arrays import numpy as module

    monkeypatch.setattr(module, "_CHUNK", 8)
    random = numpy.random.default_rng(0)
    index = random.integers(0, 5, 40)
    values = random.standard_normal((40, 3))
    target = numpy.zeros((5, 3))
    CPU_BACKEND.add_at(target, index, values)
    wanted = numpy.zeros((5, 3))
    numpy.add.at(wanted, index, values)
    numpy.testing.assert_allclose(target, wanted)
    with pytest.raises(IndexError, match="out of bounds for size 5"):
        CPU_BACKEND.add_at(target, numpy.array([5]), values[:1])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
def test_scattered_rows_of_even_width_keep_what_is_not_finite_apart(dtype: str) -> None:
    index = numpy.array([[0, -1], [2, 0]])
    values = numpy.arange(16).reshape(2, 2, 4).astype(dtype)
    if dtype != "int32":
        values[0, 0, 1], values[1, 0, 2], values[1, 1, 3] = numpy.nan, numpy.inf, -numpy.inf
    for given in (values, values[:, :, :1], values[0, 0], values.swapaxes(0, 1)):
        target, wanted = numpy.ones((2, 3, 4), dtype)
        CPU_BACKEND.add_at(target, index, given)
        numpy.add.at(wanted, index, given)
        numpy.testing.assert_array_equal(target, wanted)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_scattered_extremes_see_every_duplicate(backend: Backend, name: str) -> None:
    target = backend.from_numpy(numpy.zeros(3, "float32"))
    index = backend.from_numpy(numpy.array([0, 0, 2]))
    values = backend.from_numpy(numpy.array([-2, 3, -1], "float32"))
    getattr(backend, f"{name}_at")(target, index, values)
    wanted = [3, 0, 0] if name == "maximum" else [-2, 0, -1]
    numpy.testing.assert_array_equal(backend.to_numpy(target), wanted)


def test_strided_views_share_memory(backend: Backend) -> None:
    array = backend.from_numpy(numpy.arange(6.0))
    view = backend.as_strided(array, (2, 3), (8, 8))
    view[0, 0] = 9
    numpy.testing.assert_array_equal(backend.to_numpy(view), [[9, 1, 2], [1, 2, 3]])
    assert backend.pointer(view) == backend.pointer(array)
    assert float(array[0]) == 9


@pytest.mark.parametrize("asked", ["0", "1"])
def test_the_allocator_is_tuned_unless_told_not_to(asked: str) -> None:
    code = "from ag_visual.arrays import memory; print(memory.state())"
    told = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "AG_VISUAL_MALLOC": asked},
    )
    state = told.stdout.strip()
    if asked == "0":
        assert state == "off: AG_VISUAL_MALLOC=0"
    else:
        assert state == "on" or state.startswith("off: ")
    assert memory.tune() == memory.state()


@pytest.fixture
def generator(backend: Backend) -> Generator:
    return Generator(backend).manual_seed(7)


def host(generator: Generator, array: Any) -> Any:
    assert type(array) is generator.backend.array_type
    return generator.backend.to_numpy(array)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("shape", [(), (0,), (2000,), (3, 4)])
def test_uniform_numbers(generator: Generator, dtype: str, shape: tuple[int, ...]) -> None:
    drawn = host(generator, generator.rand(shape, dtype))
    assert (drawn.shape, drawn.dtype) == (shape, dtype)
    parts = numpy.stack([drawn.real, drawn.imag]) if drawn.dtype.kind == "c" else drawn[None]
    assert ((parts >= 0) & (parts < 1)).all()
    if drawn.size == 2000:
        means = parts.reshape(-1, 2000).mean(1, dtype=float)
        numpy.testing.assert_allclose(means, 0.5, atol=0.04)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_normal_numbers(generator: Generator, dtype: str) -> None:
    drawn = host(generator, generator.randn((4000,), dtype))
    assert drawn.dtype == dtype
    wide = drawn.astype(complex)
    assert abs(wide.mean()) < 0.08
    assert abs((abs(wide) ** 2).mean() - 1) < 0.1
    assert host(generator, generator.randn((), dtype)).shape == ()


def test_integers_permutations_and_coins(generator: Generator) -> None:
    drawn = host(generator, generator.randint(-2, 3, (500,), "int32"))
    assert set(drawn.tolist()) == {-2, -1, 0, 1, 2}
    assert drawn.dtype == "int32"
    order = host(generator, generator.randperm(50))
    assert sorted(order.tolist()) == list(range(50)) != order.tolist()
    coins = host(generator, generator.bernoulli(0.25, (4000,)))
    assert coins.dtype == bool
    assert abs(coins.mean() - 0.25) < 0.04
    p = generator.backend.from_numpy(numpy.array([0.0, 1.0]))
    tossed = host(generator, generator.bernoulli(p, (30, 2)))
    assert (tossed == [False, True]).all()
    assert host(generator, generator.bernoulli(1.0, ())).item() is True


def test_random_arguments_out_of_range_are_said(generator: Generator) -> None:
    with pytest.raises(RuntimeError, match="expects 'from' to be less than 'to'"):
        generator.randint(3, 3, (1,), "int64")
    with pytest.raises(RuntimeError, match=r"expects p to be in \[0, 1\], but got p=1.5"):
        generator.bernoulli(1.5, (1,))
    with pytest.raises(RuntimeError, match="Expected p_in >= 0 && p_in <= 1"):
        generator.bernoulli(generator.backend.from_numpy(numpy.array([2.0])), (1,))
    with pytest.raises(RuntimeError, match="n must be non-negative"):
        generator.randperm(-1)


def test_a_seed_and_a_state_give_the_numbers_again(generator: Generator) -> None:
    first = host(generator, generator.rand((5,), "float32"))
    state = generator.get_state()
    second = host(generator, generator.randint(0, 99, (5,), "int64"))
    generator.set_state(state)
    again = host(generator, generator.randint(0, 99, (5,), "int64"))
    numpy.testing.assert_array_equal(second, again)
    generator.manual_seed(7)
    numpy.testing.assert_array_equal(first, host(generator, generator.rand((5,), "float32")))
    assert generator.initial_seed() == 7
    with pytest.raises(RuntimeError, match="wrong size or foreign"):
        generator.set_state(state[:20])
    with pytest.raises(RuntimeError, match=r"expected a torch\.ByteTensor"):
        generator.set_state(state.astype("float32"))
    seed = generator.seed()
    assert generator.initial_seed() == seed != 7


def test_seeds_are_read_as_torch_reads_them() -> None:
    assert Generator(CPU_BACKEND).initial_seed() == DEFAULT_SEED
    assert torch.Generator().initial_seed() == DEFAULT_SEED
    for seed in (0, -1, 2**63, -(2**63)):
        wanted = torch.Generator().manual_seed(seed).initial_seed()
        assert Generator(CPU_BACKEND, seed).initial_seed() == wanted
    with pytest.raises(RuntimeError, match="Overflow when unpacking long"):
        Generator(CPU_BACKEND, 2**64)
