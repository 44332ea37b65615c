"""Several host networks in one C program and in one library."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from archives import unpack
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.libinfo import find_include_path, find_lib_path
from tvmrt.runtime.executor import AotModule

WIDTHS = {"one": (8, 16), "two": (12, 24)}
MAX_BATCH = {"one": 4, "two": 9}

PROGRAM = """
#include <stdio.h>
#include <tvm/runtime/c_packed_func.h>

#define NETWORK(name) \\
  int32_t tvmgen_##name##___tvm_main__(TVMValue *, int *, int, TVMValue *, int *, void *); \\
  int32_t tvmgen_##name##_get_dims(TVMValue *, int *, int, TVMValue *, int *, void *);
NETWORK(one)
NETWORK(two)

typedef int32_t packed(TVMValue *, int *, int, TVMValue *, int *, void *);

static int run(packed *network, packed *about, int64_t rows, int64_t in, int64_t out) {
  static float x[256], y[256];
  int64_t x_shape[] = {rows, in}, y_shape[] = {rows, out};
  DLTensor tensors[] = {
      {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = x_shape},
      {.data = y, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = y_shape},
  };
  TVMValue values[2], result;
  int codes[] = {kTVMDLTensorHandle, kTVMDLTensorHandle}, code;
  for (int i = 0; i < 2; ++i) values[i].v_handle = &tensors[i];
  for (int i = 0; i < rows * in; ++i) x[i] = (float)i / 8;
  if (about(NULL, NULL, 0, &result, &code, NULL) != 0 || code != kTVMOpaqueHandle) return 1;
  if (network(values, codes, 2, &result, &code, NULL) != 0) return 1;
  for (int i = 0; i < rows * out; ++i) printf("%.9g\\n", y[i]);
  return 0;
}

int main(void) {
  return run(tvmgen_one___tvm_main__, tvmgen_one_get_dims, 3, 8, 16) ||
         run(tvmgen_two___tvm_main__, tvmgen_two_get_dims, 7, 12, 24);
}
"""


def weight(name: str) -> np.ndarray:
    seed = list(WIDTHS).index(name)
    return np.random.default_rng(seed).normal(size=WIDTHS[name]).astype(np.float32)


def compiled(name: str, **options):
    """Return a compiled matmul with a dynamic batch."""
    wide_in, wide_out = WIDTHS[name]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", wide_in])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", wide_out])],
        [numpy_helper.from_array(weight(name), "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    dims = {"batch": (1, MAX_BATCH[name])}
    return tvmrt.compile(made, module_name=name, dims=dims, **options)


def rows_of(name: str, rows: int) -> np.ndarray:
    return (np.arange(rows * WIDTHS[name][0], dtype=np.float32) / 8).reshape(rows, -1)


def linked(tmp_path, kind, executor="aot"):
    """Return the objects of both networks, built from folders or archives."""
    objects = []
    for name in WIDTHS:
        library, folder = compiled(name, executor=executor), tmp_path / name
        if kind == "folder":
            library.export_sources(folder)
        else:
            library.export(tmp_path / f"{name}.tar")
            unpack(tmp_path / f"{name}.tar", folder)
            folder = folder / "codegen/host/src"
        sources = [path.name for path in folder.iterdir() if path.suffix in (".c", ".S")]
        includes = ["-I../include", f"-I{find_include_path()[0]}"]
        command = ["cc", "-c", "-fPIC", "-w", *includes, *sources]
        subprocess.run(command, check=True, cwd=folder)
        objects += map(str, folder.glob("*.o"))
    return objects


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_program_links_and_runs_both_networks(kind, tmp_path):
    (tmp_path / "main.c").write_text(PROGRAM)
    command = ["cc", "-std=c11", f"-I{find_include_path()[0]}", "main.c", "-o", "program"]
    command += [*linked(tmp_path, kind), find_lib_path("libtvm_backend.a")[0], "-lm", "-lpthread"]
    subprocess.run(command, check=True, cwd=tmp_path)
    text = subprocess.run([tmp_path / "program"], check=True, capture_output=True, text=True).stdout
    expected = [rows_of(name, rows) @ weight(name) for name, rows in (("one", 3), ("two", 7))]
    found = np.array([float(line) for line in text.splitlines()])
    np.testing.assert_allclose(
        found, np.concatenate([y.ravel() for y in expected]), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("kind", ["aot", "graph"])
def test_executors_load_their_own_network(kind, tmp_path):
    """Unprefixed names of the library belong to one network only."""
    objects = linked(tmp_path, "folder", kind)
    subprocess.run(["cc", "-shared", *objects, "-o", tmp_path / "both.so", "-lm"], check=True)
    library = tvmrt.runtime.load_module(tmp_path / "both.so")
    for name, top in MAX_BATCH.items():
        if kind == "aot":
            create = tvmrt.get_global_func("tvm.aot_executor.create")
            executor = AotModule(create(library, tvmrt.cpu(0), name))
        else:
            json = compiled(name).get_graph_json()
            executor = graph_executor.create(json, library, tvmrt.cpu(0))
        assert executor.get_dims()["dims"] == {"batch": [1, top]}
        executor.run(x=rows_of(name, top))
        found = executor.get_output(0).numpy()
        np.testing.assert_allclose(found, rows_of(name, top) @ weight(name), rtol=1e-5, atol=1e-5)
