"""Networks with regions, saved and loaded: library, archive, pickle, folder; in other processes."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap
from importlib import metadata

import numpy as np
import onnx_graph
import pytest
from device_plugin import built
from onnx import helper
from sample_devices import SampleDevice
from test_regions import FEEDS, diamond, golden

import tvmrt
from tvmrt import devices
from tvmrt.compiler.devices.skeleton import write_skeleton
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.error import UnsupportedError

INPUT = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def rectified():
    nodes = [
        helper.make_node("Neg", ["x"], ["n"], name="negate"),
        helper.make_node("Relu", ["n"], ["y"], name="rectify"),
    ]
    return onnx_graph.model(nodes, {"x": INPUT}, ["y"])


def run(module, feeds) -> list[np.ndarray]:
    executor = GraphModule(module["default"](tvmrt.cpu(0)))
    executor.run(**feeds)
    return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Load a C device as a plug-in in this process."""
    source, *_ = write_skeleton("saved_gate", tmp_path_factory.mktemp("device"))
    path = built(source)
    tvmrt.load_device_plugin(path)
    return path


@pytest.fixture(scope="module")
def library(plugin):
    return tvmrt.compile(rectified(), devices=["saved_gate"], require_device=["saved_gate:Relu"])


@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_library_and_archive_load_with_their_modules(library, tmp_path, suffix):
    path = tmp_path / f"net{suffix}"
    library.export(path)
    (found,) = run(tvmrt.runtime.load_module(str(path)), {"x": INPUT})
    np.testing.assert_array_equal(found, np.maximum(-INPUT, 0))


@pytest.mark.parametrize("device", [SampleDevice(), "ccompiler"], ids=["pointers", "packed"])
def test_archive_loads_with_c_source_of_devices(tmp_path, device):
    tvmrt.compile(diamond(), devices=[device]).export(tmp_path / "net.tar")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.tar"))
    name = device if isinstance(device, str) else device.name
    function = module[f"tvmgen_default_{name}_first_packed"]
    results = [tvmrt.nd.empty((4, 5)) for _ in range(2)]
    function(*(tvmrt.nd.array(array) for array in FEEDS.values()), *results)
    for found, expected in zip(results, reversed(golden())):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


def test_module_is_pickled(library, tmp_path):
    library.export(tmp_path / "net.so")
    module = pickle.loads(pickle.dumps(tvmrt.runtime.load_module(str(tmp_path / "net.so"))))
    (tmp_path / "net.so").unlink()
    (found,) = run(module, {"x": INPUT})
    np.testing.assert_array_equal(found, np.maximum(-INPUT, 0))


LOADER = """
    import sys
    import numpy as np
    import tvmrt
    from tvmrt.contrib.graph_executor import GraphModule
    {before}
    module = tvmrt.runtime.load_module(sys.argv[1])
    executor = GraphModule(module["default"](tvmrt.cpu(0)))
    executor.run(x=np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4))
    print(executor.get_output(0).numpy().sum())
"""


def other_process(path, before="", **environment):
    program = textwrap.dedent(LOADER).format(before=before)
    return subprocess.run(
        [sys.executable, "-c", program, path],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


def test_other_process_finds_the_plugin_by_its_folder(library, plugin, tmp_path):
    library.export(tmp_path / "net.so")
    done = other_process(tmp_path / "net.so", TVMRT_DEVICE_PATH=str(plugin.parent))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(np.maximum(-INPUT, 0).sum())


def test_other_process_loads_the_plugin_by_its_path(library, plugin, tmp_path):
    library.export(tmp_path / "net.so")
    done = other_process(tmp_path / "net.so", f"tvmrt.load_device_plugin({str(plugin)!r})")
    assert done.returncode == 0, done.stderr


def installed(folder, module, source):
    """Write an installed package whose entry point ``module:offered`` is the device."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[tvmrt.devices]\nsaved_gate = {module}:offered\n")
    return str(folder)


PYTHON_GATE = """
import numpy as np
from tvmrt import devices

class offered(devices.PythonDevice):
    name = "saved_gate"

    def compute(self, node, inputs):
        return np.maximum(inputs[0], 0)
"""


@pytest.mark.parametrize("kind", ["plug-in", "python"])
def test_other_process_finds_the_device_of_an_installed_package(library, plugin, tmp_path, kind):
    library.export(tmp_path / "net.so")
    source = f"offered = {str(plugin)!r}" if kind == "plug-in" else PYTHON_GATE
    done = other_process(tmp_path / "net.so", PYTHONPATH=installed(tmp_path, "gates", source))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(np.maximum(-INPUT, 0).sum())


def test_device_loaded_by_path_has_precedence(plugin, tmp_path):
    other = built(write_skeleton("saved_gate", tmp_path)[0])
    path = installed(tmp_path, "gates", f"offered = {str(other)!r}")
    program = f"""
        import tvmrt
        tvmrt.load_device_plugin({str(plugin)!r})
        print(tvmrt.devices.get("saved_gate").name)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "saved_gate\n"


def test_broken_device_package_is_reported(library, tmp_path):
    library.export(tmp_path / "net.so")
    source = "raise ImportError('the driver of the gate is missing')"
    done = other_process(tmp_path / "net.so", PYTHONPATH=installed(tmp_path, "gates", source))
    assert done.returncode != 0
    assert "the driver of the gate is missing" in done.stderr


def test_missing_device_names_itself_and_the_remedy(library, tmp_path):
    library.export(tmp_path / "net.so")
    done = other_process(tmp_path / "net.so")
    assert done.returncode != 0
    assert "device 'saved_gate'" in done.stderr
    assert "libtvmrt_device_saved_gate.so" in done.stderr


def test_missing_device_falls_back_to_the_cpu(plugin, tmp_path):
    library = tvmrt.compile(rectified(), devices=["saved_gate"], device_fallback=True)
    assert library.summary.regions
    library.export(tmp_path / "net.so")
    done = other_process(tmp_path / "net.so")
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(np.maximum(-INPUT, 0).sum())


def test_entry_point_of_a_package_is_found(monkeypatch):
    class Point:
        name, group = "from_a_package", "tvmrt.devices"

        @staticmethod
        def load():
            return SampleDevice("from_a_package")

    found = metadata.entry_points

    class Points(list):
        def select(self, group):
            return [Point] if group == Point.group else found().select(group=group)

    monkeypatch.setattr(metadata, "entry_points", Points)
    assert "from_a_package" in devices.names()
    try:
        library = tvmrt.compile(diamond(), devices=["from_a_package"])
        assert library.summary.regions
    finally:
        devices.unregister("from_a_package")


HALVES = """
from tvmrt.devices import Device
from tvmrt.plugin import Plugin

PLUGIN = Plugin(name="halves", summary="A device.", devices={{"halves": "halves_of:Halves"}})
plugin_path = {path!r}


class Halves(Device):
    name = "halves"

    def supports(self, node):
        return None if node.op == "relu" else "only relu"
"""
OFFERS = (
    "[tvmrt.plugins]\nhalves = halves_of:PLUGIN\n[tvmrt.devices]\nhalves = halves_of:plugin_path\n"
)
USE_HALVES = """
import tvmrt
from tvmrt import devices

assert type(devices.get("halves")).__name__ == "Halves"
assert devices.get("halves").absent() is None
assert tvmrt.get_global_func("tvmrt.device.find")("halves")
"""


def test_device_parts_may_come_from_plugin_and_entry_point(tmp_path):
    """An installed package provides the plug-in with the C part of its device."""
    source, *_ = write_skeleton("halves", tmp_path)
    (tmp_path / "halves_of.py").write_text(HALVES.format(path=str(built(source))))
    package = tmp_path / "halves_of-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: halves-of\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(OFFERS)
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-c", USE_HALVES], check=True, env=environment)


def test_boards_have_no_modules(plugin):
    with pytest.raises(UnsupportedError, match="runtimes with an operating system"):
        tvmrt.compile(
            rectified(), target="cortex-m4", devices=["saved_gate"], require_device=["saved_gate"]
        )


@pytest.mark.parametrize(
    "options",
    [
        {"interface_api": "c", "unpacked_api": True},
        {"interface_api": "packed", "unpacked_api": True},
        {"interface_api": "packed"},
    ],
    ids=["c", "unpacked", "packed"],
)
@pytest.mark.parametrize("device", [SampleDevice(), "ccompiler"], ids=["pointers", "packed-entry"])
def test_firmware_includes_c_source(tmp_path, device, options):
    library = tvmrt.compile(
        diamond(), target="host", runtime="crt", executor="aot", devices=[device], **options
    )
    library.export(tmp_path / "net")
    include = tvmrt.libinfo.find_include_path()[0]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{include}", "-fsyntax-only"]
    sources = sorted((tmp_path / "net").glob("*.c"))
    assert any("_device_" in path.name for path in sources)
    subprocess.run(["cc", *flags, *sources], check=True)


FIRMWARE_MAIN = """
#include <stdio.h>
#include "tvmgen_default.h"

int main(void) {
  static float a[20], b[20], c[20], w[20], t[20];
  struct tvmgen_default_inputs inputs = {a, b, c};
  struct tvmgen_default_outputs outputs = {w, t};
  if (fread(a, 80, 1, stdin) + fread(b, 80, 1, stdin) + fread(c, 80, 1, stdin) != 3) return 1;
  if (tvmgen_default_run(&inputs, &outputs) != 0) return 2;
  return fwrite(w, 80, 1, stdout) + fwrite(t, 80, 1, stdout) == 2 ? 0 : 3;
}
"""


def test_firmware_calls_the_devices_functions(tmp_path):
    library = tvmrt.compile(
        diamond(),
        target="host",
        runtime="crt",
        interface_api="c",
        unpacked_api=True,
        executor="aot",
        devices=[SampleDevice()],
    )
    library.export(tmp_path / "net")
    (tmp_path / "main.c").write_text(FIRMWARE_MAIN)
    include = tvmrt.libinfo.find_include_path()[0]
    backend = tvmrt.libinfo.find_lib_path("libtvm_backend.a")[0]
    sources = [tmp_path / "main.c", *sorted((tmp_path / "net").glob("*.c"))]
    command = ["cc", "-O1", f"-I{include}", f"-I{tmp_path / 'net'}", *sources, backend, "-lm"]
    subprocess.run([*command, "-o", tmp_path / "program"], check=True)
    data = b"".join(FEEDS[name].tobytes() for name in "abc")
    printed = subprocess.run([tmp_path / "program"], input=data, capture_output=True, check=True)
    found = np.frombuffer(printed.stdout, np.float32).reshape(2, 4, 5)
    np.testing.assert_allclose(found, golden(), rtol=1e-5)
