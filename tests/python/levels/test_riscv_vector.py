"""Libraries with and without vector code for 32-bit ARM and RISC-V, on emulated processors."""

from __future__ import annotations

import re
import shutil
import subprocess
from types import SimpleNamespace

import networks_under_qemu
import numpy as np
import pytest
from dispatch_networks import quantised
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt import toolchains
from tvmrt.compiler.export import compiler_flags

# target: its levels, each with a processor; the multiply instruction of each inner int8 loop,
# and its number of multiplications
_RVV = "rv64,v=true,vext_spec=v1.0,vlen="
FAMILIES = {
    "armv7-linux": (
        {"cortex-a9,neon=off": "vfp", "cortex-a9": "neon"},
        ["arm-linux-gnueabihf-objdump"], {"vfp": ("(smlab+|mla)$", 1), "neon": ("vmull.s8$", 8)},
    ),
    "riscv64-linux": (
        {"rv64": "rv64", f"{_RVV}128": "rvv", f"{_RVV}512": "rvv"},
        ["llvm-objdump", "--mattr=+m,+a,+f,+d,+c,+v"],
        {"rv64": ("mulw?$", 1), "rvv": ("vmacc.vx$", 8)},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def small():
    """Return int8 layers with channel tails and some weights beyond int8, a float layer, and
    onnxruntime's results."""
    import onnxruntime

    rng = np.random.default_rng(3)
    q = rng.integers(0, 256, (1, 20, 7, 9)).astype(np.uint8)
    x = rng.standard_normal((1, 20, 7, 9)).astype(np.float32)
    weights = {
        "s": np.float32(0.02), "z": np.uint8(7),
        "w": (rng.standard_normal((30, 20, 3, 3)) * 0.2).astype(np.float32),
    }  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", "w"], ["floats"], pads=[1] * 4)]
    quantised(rng, nodes, weights, "dense", "q", 1, 20, 43)
    quantised(rng, nodes, weights, "groups", "q", 2, 20, 50)
    quantised(rng, nodes, weights, "depth", "q", 20, 20, 20)
    outputs = ["floats", "dense", "groups", "depth"]
    made, inputs = model(nodes, {"x": x, "q": q}, outputs, weights), {"x": x, "q": q}
    session = onnxruntime.InferenceSession(made.SerializeToString())
    return made, inputs, dict(zip(outputs, session.run(outputs, inputs)))


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, small, tmp_path_factory):
    """Compile a library for all levels of a family."""
    cpus, objdump, multiply = FAMILIES[request.param]
    path = tmp_path_factory.mktemp(request.param) / "net.so"
    made = tvmrt.compile(small[0], target=request.param)
    assert made.manifest["levels"] == list(dict.fromkeys(cpus.values()))
    try:
        made.export_library(path)
    except tvmrt.error.CompileError as problem:
        pytest.skip(str(problem))
    return SimpleNamespace(
        target=request.param, cpus=cpus, objdump=objdump, multiply=multiply, path=path
    )


def _run_there(machines, family, inputs, cpu, **variables):
    """Return the results of the processor's own level."""
    with machines.serve(family.target, cpu, **variables) as port:
        return networks_under_qemu.run(port, family.path, inputs)


@pytest.mark.slow
def test_levels_compute_the_network_on_their_processors(family, small, machines):
    """Int8 results equal onnxruntime's bitwise for every vector length."""
    _, inputs, expected = small
    for cpu in family.cpus:
        for found, (name, wanted) in zip(
            _run_there(machines, family, inputs, cpu), expected.items()
        ):
            if wanted.dtype == np.float32:
                np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5, err_msg=cpu)
            else:
                np.testing.assert_array_equal(found, wanted, err_msg=f"{name} on {cpu}")


@pytest.mark.slow
@pytest.mark.parametrize("target", FAMILIES)
def test_real_networks_are_correct_on_the_target(target, machines, models_dir, tmp_path):
    with machines.serve(target) as port:
        for network in networks_under_qemu.turns(target):
            networks_under_qemu.check(models_dir, network, target, port, tmp_path)


@pytest.mark.slow
def test_vector_level_is_rejected_without_vectors(family, small, machines):
    """This proves that the processor without vectors ran the other level."""
    (plain, baseline), (_, vectors) = list(family.cpus.items())[:2]
    with pytest.raises(tvmrt.error.TVMError, match=(
        f"TVMRT_LEVEL demands {vectors}, which the processor lacks: this library has code for "
        f"{baseline}, {vectors}, and this processor has {baseline}; "
    )):  # fmt: skip
        _run_there(machines, family, small[1], plain, TVMRT_LEVEL=vectors)


def test_loading_on_the_host_names_both_machines(family):
    name = {"armv7-linux": "32-bit ARM", "riscv64-linux": "riscv64"}[family.target]
    with pytest.raises(OSError, match=f"it is for {name}, this machine is .*; compile it for"):
        tvmrt.runtime.load_module(family.path)


def _loops(objdump: list[str], path) -> list[list[str]]:
    """Return the instruction names of each innermost loop."""
    command = [*objdump, "-d", "--no-show-raw-insn", str(path)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = re.findall(r"^ +([0-9a-f]+):\s+(\S+)[ \t]*(.*)$", text, re.M)
    at = {int(address, 16): i for i, (address, _, _) in enumerate(rows)}
    loops, jumps = [], []
    for i, (_, name, operands) in enumerate(rows):
        to = re.search(r"(?:0x)?([0-9a-f]+)(?: <[^>]*>)?$", operands)
        begin = at.get(int(to[1], 16), i) if name[0] in "bj" and to else i
        if begin < i and i - begin < 300:
            jumps.append((begin, i))
    for begin, end in jumps:
        if not any(begin <= b and e < end for b, e in jumps):
            loops.append([name for _, name, _ in rows[begin : end + 1]])
    return loops


def test_vectors_take_a_fraction_of_the_instructions(family):
    """Count instructions per multiplication in the inner loops of int8 layers."""
    if shutil.which(family.objdump[0]) is None:
        pytest.skip(f"{family.objdump[0]} is not installed")
    loops, fewest = _loops(family.objdump, family.path), {}
    for level, (name, products) in family.multiply.items():
        counts = [(len(loop), sum(bool(re.match(name, n)) for n in loop)) for loop in loops]
        fewest[level] = min(n / (m * products) for n, m in counts if m >= 4)
    plain, vectors = fewest.values()
    assert vectors < 0.25 * plain


def test_native_level_uses_clang_if_gcc_is_too_old(monkeypatch):
    monkeypatch.setattr(
        compiler_flags, "_accepts_flags", lambda command, truth: command[0] == "clang"
    )
    monkeypatch.setattr(compiler_flags.shutil, "which", lambda name: f"/usr/bin/{name}")
    flags = ("-mamx-tile", "-mamx-bf16")
    assert compiler_flags.compiler_for_level(["gcc"], "", flags) == ["clang", *flags]


def test_unsupported_level_uses_another_compiler(monkeypatch):
    flags = ("-march=rv64gcv",)
    monkeypatch.setattr(
        compiler_flags, "_accepts_flags", lambda command, truth: command[0] == "clang"
    )
    monkeypatch.setattr(compiler_flags.shutil, "which", lambda name: f"/usr/bin/{name}")
    found = compiler_flags.compiler_for_level(["riscv64-linux-gnu-gcc"], "riscv64-linux-gnu", flags)
    assert found[:2] == ["clang", "--target=riscv64-linux-gnu"]
    monkeypatch.setattr(compiler_flags.shutil, "which", lambda name: None)
    monkeypatch.setattr(toolchains, "zig_package", lambda: "ziglang")
    found = compiler_flags.compiler_for_level(["riscv64-linux-gnu-gcc"], "riscv64-linux-gnu", flags)
    assert found[1:4] == ["-m", "ziglang", "cc"]
    assert found[found.index("-target") + 1] == "riscv64-linux-gnu"
    assert found[-1] == "-mcpu=baseline_rv64+v"
    monkeypatch.setattr(toolchains, "zig_package", lambda: None)
    sentence = (
        "C compiler riscv64-linux-gnu-gcc does not support -march=rv64gcv, and neither "
        "clang nor the ziglang package is installed; install one, for example with: pip install"
    )
    with pytest.raises(tvmrt.error.CompileError, match=re.escape(sentence)):
        compiler_flags.compiler_for_level(["riscv64-linux-gnu-gcc"], "riscv64-linux-gnu", flags)
