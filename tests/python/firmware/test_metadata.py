"""Metadata of firmware networks: tensors, pools, and bytes of every function."""

from __future__ import annotations

import ctypes
import dataclasses
import json

import pytest
from archives import unpack
from firmware_call import build_shared
from firmware_program import DIGITS

import tvmrt
from tvmrt.runtime import Device
from tvmrt.runtime.metadata import read

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


def ask(shared, prefix: str, interface: str, classic: bool) -> int:
    """Return the address of the network's metadata struct."""
    if interface == "c":
        function = getattr(shared, f"{prefix}_{'metadata' if classic else 'model_metadata'}")
        function.restype = ctypes.c_void_p
        return function()
    name = "get_c_metadata" if classic else "get_model_metadata"
    value, code = ctypes.c_void_p(), ctypes.c_int()
    function = getattr(shared, f"{prefix}_{name}")
    assert function(None, None, 0, ctypes.byref(value), ctypes.byref(code), None) == 0
    assert code.value == 3  # kTVMOpaqueHandle
    return value.value


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
    classic = Metadata.from_address(ask(shared, "tvmgen_net", interface, True))
    assert (classic.version, classic.mod_name) == (1, b"tvmgen_net")
    found = [classic.inputs[i].fields() for i in range(classic.num_inputs)]
    assert found == [("image", (1, 1, 8, 8), (2, 32, 1))]
    found = [classic.outputs[i].fields() for i in range(classic.num_outputs)]
    assert found == [("output0", (1, 10), (2, 32, 1))]
    found = [classic.pools[i].fields() for i in range(classic.num_pools)]
    names = ["global_workspace_0_var"] if pools is None else ["dtcm_0_var", "sram_1_var"]
    sizes = [pool.used_bytes for pool in summary.pools]
    assert found == [(n, (size,), (1, 8, 1)) for n, size in zip(names, sizes)]
    model = read(ask(shared, "tvmgen_net", interface, False))
    assert (model.version, model.module_name) == (1, "net")
    main, *rows = model.functions
    assert main.function_name == "tvmgen_net___tvm_main__"
    assert (main.num_inputs, main.num_outputs) == (1, 1)
    assert main.workspace_size_bytes == summary.arena_bytes == sum(sizes)
    assert main.io_size_bytes == 256 + 40
    weights = sum(buffer.nbytes for buffer in library.sources.weight_buffers)
    assert main.constant_size_bytes == weights
    found = [(r.function_name, r.workspace_size_bytes, r.constant_size_bytes) for r in rows]
    assert found == [(o.symbol, o.scratch_bytes, o.weights_bytes) for o in summary.operators]
    assert all(row.num_inputs and row.num_outputs for row in rows)
    library.export(tmp_path / "net.tar")
    content = json.loads(
        (unpack(tmp_path / "net.tar", tmp_path / "mlf") / "metadata.json").read_text()
    )
    assert as_json(model) == content["modules"]["net"]["model_metadata"]


def as_json(model) -> dict:
    """Return metadata as the Model Library Format stores it."""

    def plain(value):
        if isinstance(value, Device):
            return {"device_type": value.device_type, "device_id": value.device_id}
        return str(value)

    fields = dataclasses.asdict(model)
    return json.loads(json.dumps(fields, default=plain))
