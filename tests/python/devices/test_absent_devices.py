"""Devices without a run-time half on this machine: lists say so, rules that require them fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from onnx import parser

import tvmrt
from tvmrt.devices import CSource, Device, get
from tvmrt.error import UnsupportedError

TVMRT = [sys.executable, "-m", "tvmrt"]
NEEDS_DNNL = ["--device", "dnnl", "--require-device", "dnnl"]


class Gate(Device):
    """A compile-time half alone."""

    name = "gate_without_half"

    def supports(self, node):
        return None if node.op == "relu" else "only relu"


class GateInC(Gate):
    """The network brings all that it needs."""

    def codegen(self, regions, context):
        return CSource("", "packed")


def rectified():
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    return parser.parse_model(header + "g (float[3] x) => (float[3] y) { y = Relu(x) }")


@pytest.fixture
def no_dnnl(tmp_path):
    """Variables with which dnnl's plug-in cannot be loaded, whether or not it was built."""
    (tmp_path / "libtvmrt_device_dnnl.so").write_text("no shared object")
    return {**os.environ, "TVMRT_DEVICE_PATH": str(tmp_path)}


def tvmrt_command(environment, *words):
    return subprocess.run(
        [*TVMRT, *map(str, words)], env=environment, capture_output=True, text=True, check=False
    )


def test_list_tells_which_devices_are_absent_and_why(no_dnnl):
    done = tvmrt_command(no_dnnl, "device", "list", "--json")
    rows = {row["name"]: row for row in json.loads(done.stdout)["devices"]}
    assert "cannot load the plug-in" in rows["dnnl"]["absent"]
    assert "libtvmrt_device_dnnl.so" in rows["dnnl"]["absent"]
    assert rows["dnnl"]["text"].startswith("oneDNN")
    assert rows["cpu"]["absent"] is rows["ccompiler"]["absent"] is None
    table = tvmrt_command(no_dnnl, "device", "list").stdout.splitlines()
    (row,) = (line for line in table if line.startswith("dnnl "))
    assert "absent: " in row
    assert "absent: " not in next(line for line in table if line.startswith("ccompiler "))


def test_command_requires_no_absent_device(no_dnnl, tmp_path):
    model, library = tmp_path / "net.onnx", tmp_path / "net.so"
    model.write_bytes(rectified().SerializeToString())
    done = tvmrt_command(no_dnnl, "compile", model, "-o", library, *NEEDS_DNNL)
    assert done.returncode == 2
    assert "require-device dnnl: device dnnl is absent on this machine: " in done.stderr
    assert "cannot load the plug-in" in done.stderr
    assert not library.exists()


def test_required_device_without_a_plugin_is_refused():
    options = {"devices": [Gate()], "require_device": ["gate_without_half:Relu"]}
    words = r"gate_without_half is absent .*put libtvmrt_device_gate_without_half\.so into a folder"
    with pytest.raises(UnsupportedError, match=words):
        tvmrt.compile(rectified(), **options)
    assert len(tvmrt.compile(rectified(), target="host", **options).summary.regions) == 1
    assert len(tvmrt.compile(rectified(), devices=[Gate()]).summary.regions) == 1


def test_device_whose_code_is_c_is_never_absent():
    assert GateInC().absent() is None
    assert get("cpu").absent() is None
    assert get("ccompiler").absent() is None


def test_kind_of_modules_is_asked_for_beside_devices():
    """examplejson brings no device but a kind of modules."""
    find = tvmrt.get_global_func("tvmrt.device.find")
    assert not find("examplejson")
    loader = tvmrt.get_global_func("runtime.module.loadbinary_examplejson", allow_missing=True)
    assert (get("examplejson").absent() is None) == (loader is not None)


def test_aot_executor_refuses_a_device_that_the_library_was_not_compiled_for(tmp_path):
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[3] x) => (float[3] y) { y = Neg(x) }'
    )
    tvmrt.compile(model, executor="aot").export_library(tmp_path / "n.so")
    library = tvmrt.runtime.load_module(tmp_path / "n.so")
    with pytest.raises(ValueError, match="was compiled for the CPU's memory"):
        library["default"](tvmrt.device("opencl", 0))
    assert library["default"](tvmrt.cpu(0)).type_key == "AotExecutor"
