"""Plug-ins loaded by path: their device is unregistered, and registered again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.compiler.devices.skeleton import write_skeleton
from tvmrt.libinfo import find_include_path

find = tvmrt.get_global_func("tvmrt.device.find")
unregister = tvmrt.get_global_func("tvmrt.device.unregister")


@pytest.fixture
def plugin(tmp_path, request):
    """Return a plug-in with a device name of the test, unregistered at the end."""
    name = request.node.name.replace("test_", "").partition("[")[0]
    source = write_skeleton(name, tmp_path)[0]
    path = tmp_path / f"libtvmrt_device_{name}.so"
    include = [f"-I{folder}" for folder in find_include_path()]
    subprocess.run(["cc", "-shared", "-fPIC", *include, source, "-o", path], check=True)
    tvmrt.load_device_plugin(path)
    yield name, path
    if name in tvmrt.runtime.list_devices():
        unregister(name)


def relu(name: str, folder: Path) -> Path:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "net.so"
    tvmrt.compile(model, devices=[name], require_device=[name]).export_library(str(path))
    return path


def run(path: Path) -> list[float]:
    module = tvmrt.runtime.load_module(str(path))
    executor = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    executor.run(x=np.array([-1, 2], np.float32))
    return executor.get_output(0).numpy().tolist()


def test_reloaded_plugin_registers_its_device(plugin, tmp_path):
    name, path = plugin
    library = relu(name, tmp_path)
    unregister(name)
    assert name not in tvmrt.runtime.list_devices()
    tvmrt.load_device_plugin(path)
    assert name in tvmrt.runtime.list_devices()
    tvmrt.load_device_plugin(path)  # without an effect
    assert run(library) == [0, 2]


def test_plugin_is_reloaded_on_demand(plugin, tmp_path):
    name, _ = plugin
    library = relu(name, tmp_path)
    unregister(name)
    assert run(library) == [0, 2]
    unregister(name)
    assert find(name) == 1


def test_replaced_plugin_file_is_reported(plugin, tmp_path):
    """The new file is another plug-in, and its device is used from then on."""
    name, path = plugin
    source = tmp_path / name / f"{name}.c"
    source.write_text(source.read_text().replace('"relu", NULL', '"abs", NULL'))
    include = [f"-I{folder}" for folder in find_include_path()]
    path.unlink()
    subprocess.run(["cc", "-shared", "-fPIC", *include, source, "-o", path], check=True)
    unregister(name)
    tvmrt.load_device_plugin(path)
    describe = f"device.{name}.describe"
    assert '"abs"' in str(tvmrt.get_global_func(describe)())
    unregister(name)
    assert find(name) == 1
    assert '"abs"' in str(tvmrt.get_global_func(describe)())
