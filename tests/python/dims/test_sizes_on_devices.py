"""Regions with dynamic extents, on devices that need no preparation."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from any_size_case import EXECUTORS, check, check_left_to_the_cpu, loaded, results
from dynamic_networks import CASES, FLOAT, Draft

import tvmrt
from tvmrt import devices
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

runtime = pytest.importorskip("onnxruntime")

SOURCE = Path(__file__).parent / "any_size_device.c"


class AnyProducts(devices.PythonDevice):
    """Device for products and sums of any size, which records the shapes of its calls."""

    name = "any_products"
    any_size = True
    seen: ClassVar[list] = []

    def supports(self, node):
        return None if node.op in ("matmul", "add") else f"any_products takes no {node.op}"

    def compute(self, node, inputs):
        self.seen.append(tuple(inputs[0].shape))
        if node.op == "add":
            return inputs[0] + inputs[1]
        product = inputs[0] @ inputs[1]
        return product if len(inputs) < 3 or inputs[2] is None else product + inputs[2]


class AnyDoubled(devices.Device):
    """Device that doubles every sum, in C; ``entry`` is the calling convention."""

    name = "any_doubled"
    any_size = True
    patterns = (("add",),)
    entry = "packed"

    def supports(self, node):
        return None if node.op == "add" else f"any_doubled takes no {node.op}"

    def absent(self):
        return None

    def codegen(self, regions, context):
        head = "#include <tvm/runtime/c_backend_api.h>\n"
        return devices.CSource(head + "".join(map(self.function, regions)), self.entry)

    def function(self, region):
        return f"""
TVM_DLL int32_t {region.symbol}(TVMValue *args, int *type_codes, int num_args,
                                TVMValue *result, int *result_code, void *resource);
int32_t {region.symbol}(TVMValue *args, int *type_codes, int num_args, TVMValue *result,
                        int *result_code, void *resource) {{
  const DLTensor *a = args[0].v_handle, *b = args[num_args - 2].v_handle, *y;
  int64_t count = 1;
  y = args[num_args - 1].v_handle;
  for (int i = 0; i < y->ndim; ++i) count *= y->shape[i];
  for (int64_t i = 0; i < count; ++i) {{
    ((float *)y->data)[i] = 2 * (((float *)a->data)[i] + ((float *)b->data)[i]);
  }}
  (void)type_codes; (void)result; (void)result_code; (void)resource;
  return 0;
}}
"""


@pytest.fixture
def any_products():
    devices.register(AnyProducts())
    AnyProducts.seen.clear()
    yield
    devices.unregister("any_products")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_python_device_gets_the_sizes_of_each_run(executor, any_products, tmp_path):
    case = CASES["encoder"]
    model = case.make()
    library = tvmrt.compile(
        model, dims=case.dims, devices=["any_products"], executor=executor,
        require_device=["any_products:MatMul"],
    )  # fmt: skip
    network = loaded(library, tmp_path, executor)
    sizes = [case.most(), {"batch": 1, "seq": 1}, {"batch": 2, "seq": 17}, case.most()]
    check(network, model, case, sizes)
    assert {(3, 40, 32), (1, 1, 32), (2, 17, 32)} <= set(AnyProducts.seen)


def plugin(folder, name, *macros):
    path = folder / f"libtvmrt_device_{name}.so"
    flags = [*(f"-I{p}" for p in find_include_path()), f'-DNAME="{name}"', *macros]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *strict, *flags, str(SOURCE), "-o", str(path)], check=True)
    tvmrt.load_device_plugin(path)
    return ctypes.CDLL(str(path))


def test_c_device_gets_sizes_from_its_tensors(tmp_path):
    """A device built before dynamic shapes were supported still runs fixed shapes."""
    case = CASES["perceptron"]
    model = case.make()
    library = plugin(tmp_path, "any_size_now")
    library.elements_of_last_run.restype = ctypes.c_int64
    compiled = tvmrt.compile(
        model, dims=case.dims, devices=["any_size_now"], require_device=["any_size_now:Relu"]
    )
    network = loaded(compiled, tmp_path, "graph")
    for rows in (8, 1, 5):
        check(network, model, case, [{"batch": rows}])
        assert library.elements_of_last_run() == rows * 32
    plugin(tmp_path, "any_size_before", "-DBEFORE")
    fixed = tvmrt.compile(
        model, shapes={"x": (3, 16)}, devices=["any_size_before"],
        require_device=["any_size_before:Relu"],
    )  # fmt: skip
    folder = tmp_path / "fixed"
    folder.mkdir()
    check(loaded(fixed, folder, "graph"), model, case, [{"batch": 3}])


def test_device_without_dynamic_shapes_refuses_a_library(tmp_path):
    case = CASES["perceptron"]
    plugin(tmp_path, "any_size_later")
    compiled = tvmrt.compile(case.make(), dims=case.dims, devices=["any_size_later"])
    compiled.export_library(str(tmp_path / "net.so"))
    tvmrt.get_global_func("tvmrt.device.unregister")("any_size_later")
    folder = tmp_path / "older"
    folder.mkdir()
    plugin(folder, "any_size_later", "-DBEFORE")
    with pytest.raises(ValueError, match="'any_size_later' does not support dynamic extents"):
        tvmrt.runtime.load_module(str(tmp_path / "net.so"))


def test_extents_beyond_their_bounds_never_reach_a_device(any_products, tmp_path):
    """Call the region's function directly, without an executor."""
    d = Draft()
    y = d.node("Add", ["x", "z"])
    model = d.model({"x": (FLOAT, ["n", 4]), "z": (FLOAT, ["n", 4])}, {y: FLOAT})
    library = tvmrt.compile(model, dims={"n": (2, 6)}, devices=["any_products"])
    library.export_library(str(tmp_path / "net.so"))
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    run = module.get_function("tvmgen_default_any_products_main_0", query_imports=True)
    for rows, fits in ((2, True), (6, True), (1, False), (7, False)):
        x, z = (tvmrt.nd.array(np.full((rows, 4), i, np.float32)) for i in (1, 2))
        out = tvmrt.nd.array(np.zeros((rows, 4), np.float32))
        if fits:
            run(x, z, out)
            np.testing.assert_array_equal(out.numpy(), 3)
        else:
            with pytest.raises(ValueError, match="tensor 'x' comes with another shape"):
                run(x, z, out)


@pytest.mark.parametrize("entry", ["packed", "pointers"])
def test_c_source_gets_extents_from_tensors_only(entry, tmp_path, monkeypatch):
    monkeypatch.setattr(AnyDoubled, "entry", entry)
    d = Draft()
    y = d.node("Relu", [d.node("Add", ["x", "z"])])
    model = d.model({"x": (FLOAT, ["n", 4]), "z": (FLOAT, ["n", 4])}, {y: FLOAT})
    devices.register(AnyDoubled())
    try:
        if entry == "pointers":
            with pytest.raises(
                UnsupportedError, match=r"takes pointers.*\(n = 1..6\); generate C source"
            ):
                tvmrt.compile(model, dims={"n": 6}, devices=["any_doubled"])
            return
        library = tvmrt.compile(model, dims={"n": 6}, devices=["any_doubled"])
    finally:
        devices.unregister("any_doubled")
    network = loaded(library, tmp_path, "graph")
    rng = np.random.default_rng(1)
    for rows in (6, 2, 5):
        x, z = rng.normal(size=(2, rows, 4)).astype(np.float32)
        (found,) = results(network, {"x": x, "z": z})
        np.testing.assert_allclose(found, np.maximum(2 * (x + z), 0), rtol=1e-6)


def test_fixed_size_devices_leave_dynamic_nodes_to_the_cpu():
    check_left_to_the_cpu("ccompiler", "its dimensions are dynamic")


class Boards(devices.PythonDevice):
    """Device with C code for boards, and a run-time half for hosts."""

    name = "boards"

    def supports(self, node):
        return None if node.op == "neg" else f"boards takes no {node.op}"

    def refuses(self, context):
        return None

    def compute(self, node, inputs):
        return -inputs[0]

    def codegen(self, regions, context):
        if context.runtime != "crt":
            return devices.region_blob(regions, self.name)
        lines = ["#include <stdint.h>"]
        for region in regions:
            size = region.outputs[0].type.size
            body = f"for (int i = 0; i < {size}; ++i) y[i] = -x[i]; return 0;"
            lines.append(f"int32_t {region.symbol}(const float *x, float *y) {{ {body} }}")
        return devices.CSource("\n".join([*lines, ""]))


class Prepared(Boards):
    name = "of_any_size"

    def prepares_sizes(self):
        return True


def test_codegen_for_boards_keeps_dynamic_sizes_of_hosts(tmp_path):
    """Without prepares_sizes the reason names it; boards have C for fixed sizes only."""
    d = Draft()
    model = d.model({"x": (FLOAT, ["n", 4])}, {d.node("Neg", ["x"]): FLOAT})
    reasons = {}
    for device in (Boards, Prepared):
        devices.register(device)
        for target in ("native", "cortex-m4"):
            library = tvmrt.compile(model, dims={"n": 6}, devices=[device.name], target=target)
            (row,) = library.summary.nodes
            reasons[device.name, target] = row.reason if row.device == "cpu" else row.device
            if row.device != "cpu":
                network = loaded(library, tmp_path, "graph")
                for rows in (6, 2, 5):
                    x = np.ones((rows, 4), np.float32)
                    np.testing.assert_array_equal(results(network, {"x": x})[0], -x)
        fixed = tvmrt.compile(
            model, shapes={"x": (2, 4)}, devices=[device.name], target="cortex-m4"
        )
        assert [row.device for row in fixed.summary.nodes] == [device.name]
        devices.unregister(device.name)
    dynamic = "its dimensions are dynamic (n = 1..6)"
    assert "has a codegen but does not define prepares_sizes" in reasons["boards", "native"]
    assert reasons[Prepared.name, "native"] == Prepared.name
    assert dynamic in reasons["boards", "cortex-m4"]
    assert dynamic in reasons[Prepared.name, "cortex-m4"]
