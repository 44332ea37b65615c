"""One library for several x86-64 levels: results of each level, CPU dispatch, errors."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from dispatch_networks import quantised
from dispatch_runs import load_at
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.codegen.c.writer import Function, Parameter
from tvmrt.compiler.codegen.cpu_dispatch import LevelFunctions, declarations, head
from tvmrt.compiler.codegen.target import _AMX as AMX
from tvmrt.compiler.codegen.target import LEVELS, X86_LEVELS, default_target, get_target
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.libinfo import find_include_path
from tvmrt.runtime.executor import AotModule

pytestmark = pytest.mark.skipif(
    processor.machine() != "x86_64" or not processor.flags(), reason="levels are those of x86-64"
)

NEEDS = {
    "v2": "sse4_2", "v3": "avx2", "v4": "avx512vl", "v4vnni": "avx512_vnni", "v4vbmi": "avx512vbmi",
}  # fmt: skip
HERE = [name for name, flag in NEEDS.items() if flag in processor.flags()]
# features of a native library; other libraries need bf16 only for bf16 matmuls
NATIVE = "v4bf16" if "avx512_bf16" in processor.flags() and HERE[-1] == "v4vbmi" else HERE[-1]
# level of a library with int8 matmuls
WIDEST = "v4amx" if AMX <= processor.flags() and NATIVE == "v4bf16" else HERE[-1]


@pytest.fixture(scope="module")
def fat(network, tmp_path_factory) -> Path:
    """The library with all levels."""
    path = tmp_path_factory.mktemp("fat") / "net.so"
    tvmrt.compile(network[0], target="x86-64").export_library(path)
    return path


@pytest.mark.parametrize("level", [x for all_of in LEVELS.values() for x in all_of])
def test_level_header_lists_flags_unbroken(level):
    """Users copy the flags from there; lines must not break at their hyphens."""
    comment = head(level).split("*/")[0]
    assert set(level.flags) <= set(comment.split())


@pytest.mark.parametrize("level", NEEDS)
def test_every_level_computes_the_network(fat, network, level, monkeypatch, tmp_path):
    if level not in HERE:
        pytest.skip(f"this processor has no {level}")
    module = load_at(fat, level, monkeypatch, tmp_path / "net.so")
    assert module.level == level
    runner = GraphModule(module["default"](tvmrt.cpu(0)))
    _, inputs, expected = network
    runner.run(**inputs)
    for i, (name, wanted) in enumerate(expected.items()):
        found = runner.get_output(i).numpy()
        if wanted.dtype == np.float32:
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(found, wanted, err_msg=name)


def test_aot_network_with_external_weights_has_levels(monkeypatch, tmp_path):
    x = np.random.default_rng(1).integers(0, 256, (1, 8, 5, 6)).astype(np.uint8)
    nodes, weights = [], {"s": np.float32(0.02), "z": np.uint8(7)}
    quantised(np.random.default_rng(2), nodes, weights, "y", "x", 1, 8, 20)
    made, path = model(nodes, {"x": x}, ["y"], weights), tmp_path / "net.so"
    options = {"levels": ["v2", HERE[-1]], "executor": "aot", "params": "file"}
    tvmrt.compile(made, target="x86-64", **options).export_library(path)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    for level in dict.fromkeys(("v2", HERE[-1])):
        module = load_at(path, level, monkeypatch, tmp_path / f"{level}.so")
        runner = AotModule(module["default"](tvmrt.cpu(0)))
        runner.load_params(path.with_suffix(".params").read_bytes())
        runner.run(x=x)
        found = runner.get_output(0).numpy()
        np.testing.assert_array_equal(found, session.run(["y"], {"x": x})[0], err_msg=level)


def test_default_target_is_all_levels(tmp_path, monkeypatch):
    """Except for the crt runtime, C sources and a target set by an environment variable."""
    made = model([helper.make_node("Sqrt", ["x"], ["y"])], {"x": np.ones((1, 4), np.float32)},
                 ["y"], {})  # fmt: skip
    assert tvmrt.compile(made).manifest["levels"] == list(NEEDS)
    assert tvmrt.compile(made).target.name == "x86-64"
    assert tvmrt.compile(made, levels=["v3"]).manifest["levels"] == ["v3"]
    assert tvmrt.compile(made, runtime="crt").target.name == "native"
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    command = [sys.executable, "-m", "tvmrt", "compile", "net.onnx", "-o", "sources"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    # networks that run at once are compiled for this machine's level only
    assert tvmrt.load(made, cache=tmp_path / "cache").recompile().target.name == "native"
    assert tvmrt.load(made, cache=False, levels=["v2"]).recompile().target.name == "x86-64"
    assert not list((tmp_path / "sources").glob("*v3*.c"))
    monkeypatch.setenv("TVMRT_TARGET", "native")
    assert tvmrt.compile(made).target.name == "native"
    assert tvmrt.compile(made, levels=["v3"]).manifest["levels"] == ["v3"]
    monkeypatch.setenv("TVMRT_TARGET", "z80")
    with pytest.raises(ValueError, match="TVMRT_TARGET names the target z80, which is not known"):
        tvmrt.compile(made)


@pytest.mark.parametrize(
    ("machine", "flags", "target", "triple"),
    [
        ("x86_64", {"sse4_2", "popcnt", "cx16"}, "x86-64", ""),
        ("x86_64", {"sse3", "cx16"}, "native", ""),  # lacks even the baseline level
        ("aarch64", {"asimd"}, "aarch64-linux", ""),
        ("armv7l", {"neon"}, "armv7-linux", ""),
        ("riscv64", set(), "native", ""),
        ("aarch64", {"asimd"}, "riscv64-linux", "riscv64-linux-gnu"),
    ],
)
def test_family_is_compiled_with_the_native_compiler(machine, flags, target, triple, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: machine)
    monkeypatch.setattr(processor, "flags", lambda: frozenset(flags))
    if not triple:
        assert default_target() == target
    assert get_target(target).triple == triple


BODY = """
#if defined(__AVX512VBMI__)
enum { LEVEL = 5 };
#elif defined(__AVX512VNNI__)
enum { LEVEL = 4 };
#elif defined(__AVX512VL__)
enum { LEVEL = 3 };
#elif defined(__AVX2__)
enum { LEVEL = 2 };
#else
enum { LEVEL = 1 };
#endif
static int32_t level(const float *x, const tvmrt_shape *x_shape, float *y,
                     const tvmrt_shape *y_shape) {
  (void)y_shape;
  for (int64_t i = 0; i < x_shape->size; ++i) y[i] = x[i] + LEVEL;
  return 0;
}
"""


def test_bodies_of_custom_operators_are_compiled_for_every_level(monkeypatch, tmp_path):
    operator = tvmrt.custom.Kernel(
        "Level", domain="test", inputs=[tvmrt.custom.Tensor("x", "float32")],
        outputs=[tvmrt.custom.Tensor("y", "float32")], c=tvmrt.custom.C(BODY, "level"),
        reference=lambda x: x,
    )  # fmt: skip
    node = helper.make_node("Level", ["x"], ["y"], domain="test")
    made = model([node], {"x": np.ones(4, np.float32)}, ["y"], {})
    made.opset_import.append(helper.make_opsetid("test", 1))
    path = tmp_path / "net.so"
    tvmrt.compile(made, operators=[operator]).export_library(path)
    for number, level in enumerate(NEEDS, 1):
        if level in HERE:
            module = load_at(path, level, monkeypatch, tmp_path / f"{level}.so")
            runner = GraphModule(module["default"](tvmrt.cpu(0)))
            runner.run(x=np.zeros(4, np.float32))
            assert runner.get_output(0).numpy().tolist() == [number] * 4


def test_weights_are_stored_once(network):
    """Except for biases and int8 depthwise weights, which are packed per instruction set."""
    native = tvmrt.compile(network[0], target="x86-64", levels=["v4vbmi"]).summary.weights_bytes
    assert tvmrt.compile(network[0], target="x86-64").summary.weights_bytes < 1.15 * native


def test_levels_with_equal_int8_instructions_share_functions():
    """With float outputs: v4 uses v3's int8 functions, v4vbmi those of v4vnni."""
    x = np.zeros((5, 30), np.uint8)
    weights = {
        "w": np.ones((30, 40), np.int8), "s": np.float32(0.02), "z": np.uint8(7), "wz": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("QLinearMatMul", ["x", "s", "z", "w", "s", "wz", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["f"]),
        helper.make_node("Relu", ["f"], ["y"]),
    ]
    levels = tvmrt.compile(model(nodes, {"x": x}, ["y"], weights), target="x86-64").sources.levels
    assert "_rows" in levels.functions_printed_for("v4vnni")[0].text
    assert {name: len(levels.functions_printed_for(name)) for name in levels.names} == {
        "v2": 1, "v3": 1, "v4": 0, "v4vnni": 1, "v4vbmi": 0, "v4amx": 0,
    }  # fmt: skip


@pytest.mark.parametrize(("weights", "own"), [("int4", 1), ("int8", 0)])
def test_int4_weights_have_an_int8_matmul_function(weights, own):
    """v4vnni multiplies int4 as integers, and int8 weights as v4 does."""
    x = np.zeros((1, 256), np.float32)
    weights_by_name = {"w": np.ones((256, 256), np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    library = tvmrt.compile(
        model(nodes, {"x": x}, ["y"], weights_by_name), target="x86-64", weights=weights
    )
    levels = library.sources.levels
    assert {name: len(levels.functions_printed_for(name)) for name in levels.names} == {
        "v2": 1, "v3": 1, "v4": 1, "v4vnni": own, "v4vbmi": 0,
    }  # fmt: skip


def test_level_struct_members_fit_the_line_length():
    """Members are indented; parameters may have any length."""
    for length in range(1, 40):
        parameters = [Parameter(name * length, None) for name in "abcdef"]
        function = Function("tvmgen_default_f", None, parameters, "")
        levels = LevelFunctions(["v2"], {"v2": {"tvmgen_default_f": function}})
        assert max(map(len, declarations("tvmgen_default", levels))) <= 100


def test_the_widest_level_of_the_processor_is_taken(fat, monkeypatch, tmp_path):
    assert load_at(fat, "", monkeypatch, tmp_path / "net.so").level == WIDEST


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> dict[str, Path]:
    """Compile libraries with the code of some levels."""
    x = np.ones((1, 20, 9, 11), np.float32)
    w = {"w": np.random.default_rng(0).standard_normal((20, 20, 3, 3)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("Sqrt", ["c"], ["y"])]
    made, folder = model(nodes, {"x": x}, ["y"], w), tmp_path_factory.mktemp("small")
    for levels in (["v2"], ["v3", "v2"], ["v4"]):
        name = folder / f"{'_'.join(levels)}.so"
        tvmrt.compile(made, target="x86-64", levels=levels).export_library(name)
    for target in ("native", "host"):
        tvmrt.compile(made, target=target).export_library(folder / f"{target}.so")
    return {path.stem: path for path in folder.glob("*.so")}


def test_missing_forced_level_is_rejected(small, monkeypatch, tmp_path):
    with pytest.raises(tvmrt.error.TVMError, match="demands v4, which is not there: this library "
                       r"has code for v2, v3, and this processor .* has v2"):  # fmt: skip
        load_at(small["v3_v2"], "v4", monkeypatch, tmp_path / "net.so")
    assert load_at(small["v3_v2"], "v2", monkeypatch, tmp_path / "other.so").level == "v2"


def test_inspect_lists_the_levels(small):
    command = [sys.executable, "-m", "tvmrt", "inspect", str(small["v3_v2"])]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search(r"^levels +v2, v3$", text, re.M)
    text = subprocess.run([*command, "--json"], check=True, capture_output=True, text=True).stdout
    assert json.loads(text)["levels"] == ["v2", "v3"]


@pytest.mark.parametrize(("target", "needs"), [("native", NATIVE), ("host", "any x86_64")])
def test_inspect_shows_requirements_of_a_single_level_library(small, target, needs):
    command = [sys.executable, "-m", "tvmrt", "inspect", str(small[target])]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert re.search(rf"^needs_processor +{needs}$", text, re.M)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"target": "x86-64", "levels": ["v5"]},
            'target="x86-64" has no level v5; choose from v2, v3',
        ),
        ({"target": "native", "levels": ["v3"]}, 'target="native" has no levels'),
        ({"board": "stm32f4", "levels": ["v3"]}, 'board="stm32f4" has a single processor'),
        (
            {"target": "x86-64", "runtime": "crt"},
            'ISA levels need .*; choose target="host" for runtime="crt", or runtime="host" for',
        ),
    ],
)
def test_targets_without_levels_are_rejected(network, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        tvmrt.compile(network[0], **options)


WIDE = re.compile(r"%[yz]mm\d|%k[1-7]\b|\sv(?:mov|add|mul|xor|p|broad|fma)\w+\s")


@pytest.mark.skipif(shutil.which("objdump") is None, reason="objdump is not installed")
def test_baseline_code_has_no_wider_instructions(small):
    def wide(name: str, *symbols: str) -> int:
        command = ["objdump", "-d", "--no-show-raw-insn", *symbols, str(small[name])]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        assert text.count("\n") > 10
        return len(WIDE.findall(text))

    assert wide("v2") == 0
    assert wide("v3_v2") > 50
    assert wide("v3_v2", "--disassemble=tvmgen_default_c_packed") == 0  # the common entry


RUN = """
import sys, numpy, tvmrt
from tvmrt.contrib.graph_executor import GraphModule
for name in sys.argv[2:]:
    try:
        tvmrt.runtime.load_module(name)
    except tvmrt.error.TVMError as error:
        print(error)
module = tvmrt.runtime.load_module(sys.argv[1])
runner = GraphModule(module["default"](tvmrt.cpu(0)))
runner.run(x=numpy.ones((1, 20, 9, 11), numpy.float32))
print(module.level, float(numpy.nansum(runner.get_output(0).numpy())))
"""


@pytest.mark.skipif(shutil.which("qemu-x86_64") is None, reason="qemu-x86_64 is not installed")
@pytest.mark.parametrize(
    ("cpu", "level"), [("Nehalem", "v2"), pytest.param("Haswell", "v3", marks=pytest.mark.slow)]
)
def test_emulated_processors_select_their_level(small, cpu, level, monkeypatch, tmp_path):
    command = ["qemu-x86_64", "-cpu", cpu, sys.executable, "-c", RUN]
    # numpy's OpenBLAS would use the kernels that the environment selects
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS_")}
    done = subprocess.run(
        [*command, *(str(small[name]) for name in ("v3_v2", "v4", "native", "host"))],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    *refusals, last = done.stdout.strip().splitlines()
    too_wide = ["v4"] + ([] if NATIVE == level else [NATIVE])  # target host runs on any x86-64
    assert len(refusals) == len(too_wide)
    for needed, refusal in zip(too_wide, refusals):
        assert re.match(
            rf"this library has code for {needed}, and this processor .* has (v2, )?{level}; ",
            refusal,
        )
    assert last.split()[0] == level
    runner = GraphModule(load_at(small["v3_v2"], "v2", monkeypatch, tmp_path / "net.so")["default"](
        tvmrt.cpu(0)))  # fmt: skip
    runner.run(x=np.ones((1, 20, 9, 11), np.float32))
    here = float(np.nansum(runner.get_output(0).numpy()))
    assert float(last.split()[1]) == pytest.approx(here, rel=1e-5)


DETECTION = """
#include <stdint.h>
#include <tvm/runtime/kernels/cpu_dispatch.h>
int level_of(uint32_t l1, uint32_t l7b, uint32_t l7c, uint32_t l71a, uint32_t ext,
             uint64_t xcr0, uint32_t l7d) {
  const char* const names[] = {"v2", "v3", "v4", "v4vnni", "v4vbmi", "v4bf16", "v4amx"};
  const tvmrt_x86 x86 = {l1, l7b, l7c, ext, xcr0, l71a, l7d, ""};
  tvmrt_processor processor;
  char text[512];
  tvmrt_x86_processor(&x86, &processor);
  return tvmrt_choose_level(&processor, names, 7, NULL, text, sizeof(text));
}
int has_avx_vnni(uint32_t l1, uint32_t l7b, uint32_t ext, uint64_t xcr0, uint32_t l71) {
  const tvmrt_x86 x86 = {l1, l7b, 0, ext, xcr0, l71, 0, ""};
  tvmrt_processor processor;
  tvmrt_x86_processor(&x86, &processor);
  return tvmrt_processor_has_level(&processor, "v3vnni");
}
int arm_levels(uint64_t hwcap, uint64_t hwcap2) {
  tvmrt_processor processor;
  tvmrt_arm_processor(hwcap, hwcap2, &processor);
  return processor.count;
}
int vector_levels(uint64_t arm, uint64_t riscv) {
  tvmrt_processor one, other;
  tvmrt_arm32_processor(arm, &one);
  tvmrt_riscv_processor(riscv, &other);
  return 10 * one.count + other.count;
}
"""


def test_levels_are_detected_from_cpuid_registers(tmp_path):
    """As CPUID and XGETBV give them: leaf 1 ECX, leaf 7 EBX and ECX, leaf 7.1 EAX, extended ECX,
    XCR0, leaf 7 EDX."""
    import ctypes

    (tmp_path / "level.c").write_text(DETECTION)
    includes = [f"-I{folder}" for folder in tvmrt.libinfo.find_include_path()]
    command = ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *includes]
    command += ["level.c", "-o", "level.so"]
    subprocess.run(command, check=True, cwd=tmp_path)
    level_of = ctypes.CDLL(str(tmp_path / "level.so")).level_of
    level_of.argtypes = [*[ctypes.c_uint32] * 5, ctypes.c_uint64, ctypes.c_uint32]
    sapphire, haswell = 0xFFFA3203, 0x7FFAFBFF
    assert level_of(0x0098E3FD, 0, 0, 0, 0x1, 0, 0) == 0  # Nehalem: no OSXSAVE
    assert level_of(haswell, 0x3A9, 0, 0, 0x21, 7, 0) == 1
    assert level_of(haswell, 0x3A9, 0, 0, 0x21, 3, 0) == 0  # the system does not save ymm
    assert level_of(haswell, 0x3A9 & ~0x100, 0, 0, 0x21, 7, 0) == 0  # BMI2 is hidden
    assert level_of(sapphire, 0xF1BF07AB, 0x00405FC6, 0x30, 0x121, 0xE7, 0) == 5
    assert level_of(sapphire, 0xF1BF07AB, 0x00405FC6, 0x10, 0x121, 0xE7, 0) == 4  # no BF16
    assert level_of(sapphire, 0xF1BF07AB, 0x00405FC6 & ~0x2, 0x30, 0x121, 0xE7, 0) == 3  # no VBMI
    assert level_of(sapphire, 0xF1BF07AB, 0x00405FC6 & ~0x800, 0x30, 0x121, 0xE7, 0) == 2
    assert level_of(sapphire, 0xF1BF07AB, 0x00405FC6, 0x30, 0x121, 0x07, 0) == 1  # no zmm either
    assert level_of(0x1, 0, 0, 0, 0, 0, 0) == -1
    # AMX, by leaf 7 EDX: present, without bfloat16, and with unsaved registers
    first = (sapphire, 0xF1BF07AB, 0x00405FC6, 0x30, 0x121)
    assert [level_of(*first, 0x600E7, edx) for edx in (0x03D14410, 0x03914410)] == [6, 5]
    assert level_of(*first, 0xE7, 0x03D14410) == 5
    # AVX-VNNI, by leaf 7.1 EAX: hidden, present, and on a system that does not save ymm
    has_avx_vnni = ctypes.CDLL(str(tmp_path / "level.so")).has_avx_vnni
    has_avx_vnni.argtypes = [*[ctypes.c_uint32] * 3, ctypes.c_uint64, ctypes.c_uint32]
    assert has_avx_vnni(haswell, 0x239C27EB, 0x121, 0x7, 0x00400800) == 0
    assert has_avx_vnni(haswell, 0x239C27EB, 0x121, 0x7, 0x00400810) == 1
    assert has_avx_vnni(haswell, 0x239C27EB, 0x121, 0x3, 0x00400810) == 0
    # AArch64, by AT_HWCAP and AT_HWCAP2 of Cortex-A53, Neoverse N1, a processor with all features
    arm_levels = ctypes.CDLL(str(tmp_path / "level.so")).arm_levels
    arm_levels.argtypes = [ctypes.c_uint64] * 2
    hwcaps = [(0x8FB, 0), (0x119FFB, 0), (0x119FFB, 0x2000), (0x119FFB, 0x6000)]
    assert [arm_levels(*each) for each in hwcaps] == [1, 2, 3, 4]
    assert arm_levels(0x8FB, 0x6000) == 1  # no int8 dot product
    assert arm_levels(0x119FFB, 0x4000) == 2  # BF16 without I8MM
    # by AT_HWCAP of a Tegra 2 and a Cortex-A9, of a SiFive U74 and a SpacemiT X60
    vector_levels = ctypes.CDLL(str(tmp_path / "level.so")).vector_levels
    vector_levels.argtypes = [ctypes.c_uint64] * 2
    assert vector_levels(0xE8D7 & ~0x1000, 0x112D) == 11
    assert vector_levels(0x1FB0D7, 0x20112D) == 22


def test_level_table_matches_the_header():
    text = next(
        Path(folder, "tvm/runtime/kernels/cpu_dispatch.h").read_text()
        for folder in tvmrt.libinfo.find_include_path()
        if Path(folder, "tvm/runtime/kernels/cpu_dispatch.h").exists()
    )
    assert re.findall(r'^ +\{"(\w+)", 0x', text, re.M) == [level.name for level in X86_LEVELS]


@pytest.mark.parametrize("target", ["native", None], ids=["one", "all"])
def test_linked_networks_state_their_requirements(target, tmp_path):
    """Their sources are linked together; GCC needs no flags for those of levels."""
    x = np.ones((1, 4), np.float32)
    made = model([helper.make_node("Sqrt", ["x"], ["y"])], {"x": x}, ["y"], {})
    include, sources = f"-I{find_include_path()[0]}", {}
    for name in ("one", "two"):
        tvmrt.compile(made, module_name=name, target=target).export_sources(tmp_path / name)
        files = [*(tmp_path / name).glob("*_lib*.c"), *(tmp_path / name).glob("*_levels.c")]
        sources[name] = [str(path) for path in files]
        command = ["gcc", "-c", "-fPIC", include, *sources[name]]
        subprocess.run(command, check=True, cwd=tmp_path)
    objects = [str(path) for path in tmp_path.glob("*.o")]
    command = ["gcc", "-shared", *objects, "-o", str(tmp_path / "both.so"), "-lm"]
    subprocess.run(command, check=True)
    assert len(objects) == (4 if target else 12)
    assert tvmrt.runtime.load_module(tmp_path / "both.so").type_key == "library"
