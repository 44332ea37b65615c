"""Memory that is planned at the start of each run, for the sizes of that run.

The libraries are C code: data/planned_memory.c, whose main function checks the workspace that it
gets, and data/found_sizes.c, which finds sizes during its run.
"""

from __future__ import annotations

import ctypes
import functools
import gc
from pathlib import Path

import libraries
import numpy as np
import pytest

import tvmrt
from tvmrt.runtime.executor import AotModule


def built(folder: Path, name: str, **definitions: object) -> tvmrt.runtime.Module:
    """Return a library that is built with definitions."""
    lines = [f"#define {key} {value}" for key, value in definitions.items()]
    source = folder / "network.c"
    source.write_text("\n".join([*lines, f'#include "{libraries.DATA / name}"', ""]))
    return tvmrt.runtime.load_module(libraries.compile_library(source, folder / "network.so"))


@pytest.fixture
def planned(tmp_path):
    return functools.partial(built, tmp_path, "planned_memory.c")


@pytest.fixture
def found(tmp_path):
    return functools.partial(built, tmp_path, "found_sizes.c")


def executor(library: tvmrt.runtime.Module) -> AotModule:
    create = tvmrt.get_global_func("tvm.aot_executor.create")
    return AotModule(create(library, tvmrt.cpu(0), "default"))


def input_of(batch: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((batch, width)).astype(np.float32)


def run(module: AotModule, x: np.ndarray) -> None:
    module.set_input("x", x)
    module.run()


def check(module: AotModule, x: np.ndarray) -> None:
    """Run the network and compare both outputs."""
    run(module, x)
    np.testing.assert_array_equal(module.get_output(0).numpy(), x * 2 + 1)
    sums = x.sum(axis=1)
    np.testing.assert_allclose(module.get_output(1).numpy(), sums[sums > 0], rtol=1e-4)


def value(library: tvmrt.runtime.Module, name: str, kind=ctypes.c_int) -> int:
    """Return a variable of the library."""
    return kind.from_address(library[name]().value).value


def workspace_bytes(library: tvmrt.runtime.Module) -> int:
    return value(library, "bytes_of_workspace", ctypes.c_int64)


def expected_workspace(batch: int, width: int) -> int:
    return 64 + 2 * ((batch * width * 4 + 63) // 64 * 64)


def test_sizes_grow_and_shrink(planned):
    library = planned()
    module = executor(library)
    for batch, width in ((1, 1), (3, 70), (200, 3000), (150, 3000), (2, 5), (1, 1)):
        check(module, input_of(batch, width, batch))
        # memory is kept unless a run needs a quarter or less
        sizes = (200, 3000) if batch == 150 else (batch, width)
        if batch != 1:
            assert workspace_bytes(library) == expected_workspace(*sizes)


def test_a_network_runs_at_its_minimum_sizes_before_inputs_are_set(planned):
    module = executor(planned())
    module.run()
    assert module.get_input(0).shape == (1, 1)
    assert module.get_output(0).numpy().tolist() == [[1]]


def test_four_sizes_are_remembered(planned):
    library = planned()
    module = executor(library)
    sizes = [(1, 10), (2, 20), (3, 30), (4, 40)]
    for _ in range(3):
        for batch, width in sizes:
            check(module, input_of(batch, width))
    assert value(library, "num_plans") == 4
    check(module, input_of(5, 50))
    check(module, input_of(4, 40))
    assert value(library, "num_plans") == 5
    check(module, input_of(1, 10))
    assert value(library, "num_plans") == 6


def test_infos_have_the_maximum_extents(planned):
    module = executor(planned())
    check(module, input_of(3, 4))
    assert module.get_input_info()[0]["x"] == (2**31 - 1, 2**31 - 1)
    assert module.module["get_output_info"]()["shape"]["positive"] == (2**31 - 1,)


def test_too_large_sizes_change_nothing(planned):
    module = executor(planned(SCALE=1000))
    x = input_of(3, 4)
    check(module, x)
    before = module.get_output(0)
    message = (
        r"a run at batch = 1500, width = 1600 needs a tensor of 2\.4e\+09 elements, and the "
        r"maximum is 2147483647; use smaller inputs"
    )
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            run(module, input_of(1500, 1600))
    np.testing.assert_array_equal(before.numpy(), x * 2 + 1)
    check(module, input_of(2, 4))


def test_limit_of_memory(planned):
    limit = 64 + 2 * 4096 + 2 * 4096 + 4 * 32
    module = executor(planned(MAX_BYTES=limit))
    x = input_of(32, 32)
    check(module, x)
    message = (
        rf"a run at batch = 32, width = 33 needs {64 + 4 * 4224 + 4 * 32} bytes for tensors, and "
        rf"the limit is {limit} \(max_memory\); use smaller inputs, or raise the limit"
    )
    before = module.get_output(0)
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            run(module, input_of(32, 33))
    np.testing.assert_array_equal(before.numpy(), x * 2 + 1)
    check(module, input_of(8, 100))


def test_no_memory(planned):
    resource = pytest.importorskip("resource")
    module = executor(planned(SCALE=1000))
    x = input_of(3, 4)
    check(module, x)
    large = input_of(1400, 1400)
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (12 << 30, old[1]))
    try:
        with pytest.raises(MemoryError, match="no memory for 15680000064 bytes"):
            run(module, large)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)
    np.testing.assert_array_equal(module.get_output(0).numpy(), x * 2 + 1)
    check(module, x)


def test_held_output_keeps_its_contents(planned):
    module = executor(planned())
    x = input_of(3, 4)
    run(module, x)
    held = module.get_output(0)
    for sizes in ((30, 40), (1, 1)):
        other = input_of(*sizes)
        check(module, other)
        assert held.shape == (3, 4)
        np.testing.assert_array_equal(held.numpy(), x * 2 + 1)
    del held
    gc.collect()
    check(module, input_of(7, 7))


def test_held_input_keeps_its_contents(planned):
    module = executor(planned())
    x = input_of(3, 4)
    run(module, x)
    held = module.get_input(0)
    check(module, input_of(30, 40))
    np.testing.assert_array_equal(held.numpy(), x)


def test_bound_tensors(planned):
    module = executor(planned())
    x = tvmrt.nd.array(input_of(5, 64))
    y = tvmrt.nd.array(np.zeros((5, 64), np.float32))
    module.set_input_zero_copy("x", x)
    module.set_output_zero_copy(0, y)
    module.run()
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 2 + 1)
    check(module, input_of(2, 64))
    assert y.shape == (2, 64)
    with pytest.raises(ValueError, match=r"output 'y': axis 0 has 5 elements, the result 6; pass"):
        run(module, input_of(6, 64))
    check(module, input_of(5, 64))


def test_profile_plans(planned):
    module = executor(planned())
    module.set_input("x", input_of(100, 10))
    module.module["profile"]()
    assert module.get_output(0).shape == (100, 10)


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ({"NUM_EXTENTS": 2}, "plan of memory does not match network 'tvmgen_default'; compile it"),
        (
            {"STATE": 1},
            "plan of memory .* 'tvmgen_default', which keeps state between runs; compile",
        ),
    ],
)
def test_plan_of_another_network(planned, definitions, message):
    with pytest.raises(ValueError, match=message):
        executor(planned(**definitions))


def test_parameters_are_copied_before_they_are_returned(planned):
    """The executor has the only reference to a loaded parameter."""
    module = executor(planned())
    x = input_of(300, 1000)
    module.load_params(tvmrt.save_param_dict({"x": x}))
    np.testing.assert_array_equal(module.get_input("x").numpy(), x)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), x * 2 + 1)


# ---- sizes that a run finds ----


def values(n: int, positive: int) -> np.ndarray:
    """Return n values whose positive ones are 1."""
    return np.where(np.arange(n) < positive, 1, -2).astype(np.float32)


def check_found(module: AotModule, x: np.ndarray) -> None:
    """Run the network and compare all outputs."""
    run(module, x)
    chosen = x[x > 0]
    np.testing.assert_array_equal(module.get_output(0).numpy(), 2 * x)
    np.testing.assert_array_equal(module.get_output(1).numpy(), chosen)
    np.testing.assert_array_equal(module.get_output(2).numpy(), np.arange(int(chosen.sum())))


def test_found_sizes_grow_and_shrink(found):
    module = executor(found())
    for n, positive in ((1, 0), (5, 3), (5, 0), (9000, 8000), (9000, 7000), (9000, 3), (2, 2)):
        check_found(module, values(n, positive))


def test_only_a_later_phase_grows(found):
    module = executor(found())
    for last in (1, 100, 5, 100000, 1):
        check_found(module, np.array([-2, 1, last], np.float32))


def found_bytes(n: int, positive: int) -> int:
    """Return the bytes of inputs, outputs and buffers."""

    def placed(count: int) -> int:
        return (count * 4 + 63) // 64 * 64

    return 64 + 8 * n + placed(n) + 2 * (4 * positive + placed(positive))


def test_limit_of_memory_in_a_later_phase(found):
    limit = found_bytes(1000, 600)
    module = executor(found(MAX_BYTES=limit))
    check_found(module, values(1000, 600))
    message = (
        rf"a run at n = 1000 needs {found_bytes(1000, 608)} bytes for tensors, and the limit is "
        rf"{limit} \(max_memory\); use smaller inputs, or raise the limit"
    )
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            run(module, values(1000, 608))
        check_found(module, values(1000, 600))
    with pytest.raises(ValueError, match=r"a run at n = 3000 needs .* bytes for tensors"):
        run(module, values(3000, 1))  # the first phase already
    check_found(module, values(10, 4))


def test_held_outputs_of_later_phases_keep_their_contents(found):
    module = executor(found())
    check_found(module, values(50, 20))
    held = [module.get_output(i) for i in range(3)]
    before = [each.numpy() for each in held]
    check_found(module, values(5000, 2000))
    check_found(module, values(1, 0))
    for tensor, content in zip(held, before):
        np.testing.assert_array_equal(tensor.numpy(), content)


def test_taken_outputs_never_change(found):
    module = executor(found())
    kept = []
    for n, positive in ((50, 20), (50, 20), (50, 20), (60, 21), (5000, 2000), (1, 0), (50, 20)):
        check_found(module, values(n, positive))
        taken = [module.module["take_output"](i) for i in range(3)]
        kept.append((taken, [each.numpy() for each in taken]))
    for tensors, contents in kept:
        for tensor, content in zip(tensors, contents):
            np.testing.assert_array_equal(tensor.numpy(), content)


def test_bound_output_of_a_later_phase(found):
    module = executor(found())
    y = tvmrt.nd.array(np.full(20, -1, np.int32))
    module.set_output_zero_copy(2, y)
    check_found(module, values(50, 20))
    np.testing.assert_array_equal(y.numpy(), np.arange(20))
    check_found(module, values(50, 3))
    assert y.shape == (3,)
    with pytest.raises(
        ValueError, match=r"output 'range': axis 0 has 20 elements, the result 21; pass"
    ):
        run(module, values(50, 21))
    check_found(module, values(40, 20))


def test_an_error_in_the_middle_of_a_run(found):
    module = executor(found())
    x = values(50, 20)
    for _ in range(2):
        check_found(module, x)
        with pytest.raises(ValueError, match="a run at n = 2 needs a tensor of -5 elements"):
            run(module, np.array([-1, 3], np.float32))
    check_found(module, values(500, 200))


def test_no_memory_in_a_later_phase(found):
    resource = pytest.importorskip("resource")
    module = executor(found())
    x = values(50, 20)
    check_found(module, x)
    old = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, old[1]))
    try:
        with pytest.raises(MemoryError, match="no memory for 8000000000 bytes"):
            run(module, np.array([2e9], np.float32))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, old)
    check_found(module, x)
