"""Real networks partitioned over devices, against golden outputs; devices' conformance tests.

``tests/python/networks`` has the cases; the variable TVMRT_MODELS names the folder of networks.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from sample_devices import run_library

import tvmrt
from tvmrt import devices

sys.path.insert(0, str(Path(__file__).parents[1] / "networks"))
import golden_case as golden

pytestmark = pytest.mark.slow

BUILDS = sorted(Path(__file__).parents[3].glob("plugins/*/meson.build"))
DEVICES = [build.parent.name for build in BUILDS if "plugin_is_device = true" in build.read_text()]
SHIPPED = ("ccompiler", *DEVICES)
EVERYTHING = SHIPPED[::-1]
CASES = [(name,) for name in SHIPPED] + [EVERYTHING]
# alternately all devices together, or one of them alone
ALONE = golden.names()[1::2]
PAIRS = [
    *((network, EVERYTHING) for network in golden.names()[::2]),
    *((network, (SHIPPED[i % len(SHIPPED)],)) for i, network in enumerate(ALONE)),
]


def present(name: str) -> bool:
    """Return whether the device's compiler part and its runtime part, if any, are installed."""
    try:
        devices.get(name)
    except (ValueError, ImportError, OSError):
        return False
    if name == "ccompiler":
        return True
    found = tvmrt.get_global_func("tvmrt.device.find")(name)
    loader = f"runtime.module.loadbinary_{name}"
    return bool(found) or tvmrt.get_global_func(loader, allow_missing=True) is not None


def those_present(requested: tuple[str, ...]) -> list[str]:
    found = [name for name in requested if present(name)]
    if not found:
        pytest.skip(f"device {', '.join(requested)} is not built")
    return found


@pytest.mark.parametrize(
    ("network", "requested"), [pytest.param(n, w, id=f"{n}-{'+'.join(w)}") for n, w in PAIRS]
)
def test_golden_outputs(models_dir, tmp_path, network, requested):
    chosen = those_present(requested)
    library = tvmrt.compile(models_dir / f"{network}.onnx", devices=chosen)
    rows = library.summary.nodes
    assert {d for row in rows for d in row.device.split(", ")} <= {*chosen, "cpu", "none"}
    library.export(tmp_path / "net.so")
    inputs, outputs = golden.load(models_dir, network)
    found = run_library(tmp_path / "net.so", "graph", inputs)
    for (name, wanted_array), array in zip(outputs.items(), found):
        golden.check(name, array, wanted_array, golden.noise(models_dir, network))


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("requested", CASES, ids="+".join)
def test_digits_on_every_device(tmp_path, executor, requested):
    chosen = those_present(requested)
    folder = Path(__file__).parents[3] / "examples" / "digits"
    library = tvmrt.compile(folder / "digits_f32.onnx", executor=executor, devices=chosen)
    library.export(tmp_path / "net.so")
    whole = tvmrt.compile(folder / "digits_f32.onnx")
    whole.export(tmp_path / "whole.so")
    with np.load(folder / "digits_test.npz") as data:
        image = (data["images"][:1, None] / 16).astype(np.float32)
    (found,) = run_library(tmp_path / "net.so", executor, {"image": image})
    (wanted_array,) = run_library(tmp_path / "whole.so", "graph", {"image": image})
    np.testing.assert_allclose(found, wanted_array, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_device_passes_the_conformance_tests(name):
    kit = pytest.importorskip("tvmrt.conformance")
    those_present((name,))
    wrong = [finding for finding in kit.run_checks(name) if not finding.passed]
    assert not wrong
