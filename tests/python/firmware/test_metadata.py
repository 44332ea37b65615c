"""Metadata of firmware networks: tensors, pools, and bytes of every function."""

from __future__ import annotations

import ctypes

import pytest
from firmware_call import build_shared
from firmware_program import DIGITS

import tvmrt

TWO = {"dtcm": 700, "sram": (1 << 20, ".bss.sram")}
INTERFACES = [
    pytest.param({"interface_api": "c", "unpacked_api": True}, id="c"),
    pytest.param({"unpacked_api": True}, id="packed-unpacked"),
    pytest.param({}, id="packed-packed"),
]


class DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class TensorInfo(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_int64), ("dtype", DataType),
    )  # fmt: skip

    def fields(self) -> tuple:
        dtype = (self.dtype.code, self.dtype.bits, self.dtype.lanes)
        return self.name.decode(), tuple(self.shape[: self.rank]), dtype


class Metadata(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64),
        ("inputs", ctypes.POINTER(TensorInfo)), ("num_inputs", ctypes.c_int64),
        ("outputs", ctypes.POINTER(TensorInfo)), ("num_outputs", ctypes.c_int64),
        ("pools", ctypes.POINTER(TensorInfo)), ("num_pools", ctypes.c_int64),
        ("constants", ctypes.c_void_p), ("num_constants", ctypes.c_int64),
        ("mod_name", ctypes.c_char_p),
    )  # fmt: skip


class FunctionInfo(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("params", ctypes.c_void_p),
        ("num_inputs", ctypes.c_int64), ("num_outputs", ctypes.c_int64),
        ("workspace", ctypes.c_int64), ("io", ctypes.c_int64), ("constants", ctypes.c_int64),
    )  # fmt: skip


class ModelMetadata(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_int64), ("functions", ctypes.POINTER(FunctionInfo)),
        ("num_functions", ctypes.c_int64), ("module_name", ctypes.c_char_p),
    )  # fmt: skip


def ask(shared, prefix: str, interface: str, classic: bool, struct):
    """Return the metadata struct of the network."""
    if interface == "c":
        function = getattr(shared, f"{prefix}_{'metadata' if classic else 'model_metadata'}")
        function.restype = ctypes.POINTER(struct)
        return function().contents
    name = "get_c_metadata" if classic else "get_model_metadata"
    value, code = ctypes.c_void_p(), ctypes.c_int()
    function = getattr(shared, f"{prefix}_{name}")
    assert function(None, None, 0, ctypes.byref(value), ctypes.byref(code), None) == 0
    assert code.value == 3  # kTVMOpaqueHandle
    return ctypes.cast(value, ctypes.POINTER(struct)).contents


@pytest.mark.everyday(3)
@pytest.mark.parametrize("pools", [None, TWO], ids=["one-pool", "two-pools"])
@pytest.mark.parametrize("options", INTERFACES)
def test_metadata_has_tensors_and_sizes(tmp_path, options, pools):
    library = tvmrt.compile(
        DIGITS / "digits_int8.onnx", target="cortex-m4", module_name="net", pools=pools, **options
    )
    library.export(tmp_path / "out")
    shared = build_shared(tmp_path / "out")
    interface, summary = options.get("interface_api", "packed"), library.summary
    classic = ask(shared, "tvmgen_net", interface, True, Metadata)
    assert (classic.version, classic.mod_name) == (1, b"tvmgen_net")
    found = [classic.inputs[i].fields() for i in range(classic.num_inputs)]
    assert found == [("image", (1, 1, 8, 8), (2, 32, 1))]
    found = [classic.outputs[i].fields() for i in range(classic.num_outputs)]
    assert found == [("output0", (1, 10), (2, 32, 1))]
    found = [classic.pools[i].fields() for i in range(classic.num_pools)]
    names = ["global_workspace_0_var"] if pools is None else ["dtcm_0_var", "sram_1_var"]
    sizes = [pool.used_bytes for pool in summary.pools]
    assert found == [(n, (size,), (1, 8, 1)) for n, size in zip(names, sizes)]
    model = ask(shared, "tvmgen_net", interface, False, ModelMetadata)
    assert (model.version, model.module_name) == (1, b"net")
    main = model.functions[0]
    assert main.name == b"tvmgen_net___tvm_main__"
    assert (main.num_inputs, main.num_outputs) == (1, 1)
    assert main.workspace == summary.arena_bytes == sum(sizes)
    assert main.io == 256 + 40
    weights = sum(buffer.nbytes for buffer in library.sources.weight_buffers)
    assert main.constants == weights
    rows = [model.functions[i] for i in range(1, model.num_functions)]
    assert [row.name.decode() for row in rows] == [o.symbol for o in summary.operators]
    assert [row.workspace for row in rows] == [o.scratch_bytes for o in summary.operators]
    assert [row.constants for row in rows] == [o.weights_bytes for o in summary.operators]
