"""Libraries that the ziglang package compiles, on emulated machines."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import networks_under_qemu
import numpy as np
import pytest

import tvmrt
from tvmrt import toolchains
from tvmrt.compiler.codegen.target import get_target

pytestmark = pytest.mark.slow
pytest.importorskip("ziglang")
ort = pytest.importorskip("onnxruntime")
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"


@pytest.mark.parametrize("target", networks_under_qemu.MACHINES)
def test_network_is_correct_on_the_target(machines, target, tmp_path):
    """The runtime of the server is compiled by GCC, the network by zig."""
    command = toolchains.zig(get_target(target).triple)
    level = networks_under_qemu.MACHINES[target]
    with machines.serve(target) as port:
        library = tvmrt.compile(DIGITS, target=target, levels=[level], cc=" ".join(command))
        library.export_library(tmp_path / "net.so")
        session = ort.InferenceSession(DIGITS)
        (wanted,) = session.get_inputs()
        image = np.random.default_rng(5).random(wanted.shape, np.float32)
        (found,) = networks_under_qemu.run(port, tmp_path / "net.so", {wanted.name: image})
    (expected,) = session.run(None, {wanted.name: image})
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.skipif(tvmrt.compiler.processor.machine() != "x86_64", reason="levels of x86-64")
def test_lowest_level_has_no_wider_vectors(tmp_path):
    """By default zig compiles for the processor of this machine."""
    library = tvmrt.compile(DIGITS, target="x86-64", levels=["v2"], cc=" ".join(toolchains.zig()))
    library.export_library(tmp_path / "net.so")
    first = (tmp_path / "net.so").read_bytes()
    code = subprocess.run(
        ["objdump", "-d", tmp_path / "net.so"], capture_output=True, text=True, check=True
    ).stdout
    assert "%xmm" in code
    assert not re.search(r"%[yz]mm\d", code)
    library.export_library(tmp_path / "net.so")
    assert (tmp_path / "net.so").read_bytes() == first, "no paths, no times"
    assert [path.name for path in tmp_path.iterdir()] == ["net.so"]
