"""Test static libraries with an application that was written for another compiler."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from boards import BOARDS, MORE_BOARDS, link_image, run_image
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.cli import main
from tvmrt.custom import C, GraphBuilder, Kernel, Tensor
from tvmrt.error import CompileError, UnsupportedError

APPLICATION = Path(__file__).parent / "vendor_app.c"
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror"]
ALL_BOARDS = {**BOARDS, **MORE_BOARDS}
DIGITS = Path(__file__).parents[3] / "examples/digits/digits_int8.onnx"


def _network() -> tuple[onnx.ModelProto, np.ndarray]:
    """Return a classifier of three channels with float scores and int8 codes, and an input."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((1, 3, 32, 1)).astype(np.float32)
    weights = {
        "bias": rng.standard_normal((1, 3, 1, 1)).astype(np.float32),
        "w": rng.standard_normal((8, 3, 5, 1)).astype(np.float32),
        "d": rng.standard_normal((8, 6)).astype(np.float32),
        "q": rng.integers(-127, 128, (8, 8, 3, 1)).astype(np.int8),
        "s": np.float32(0.05), "z": np.int8(-3), "ws": np.float32(0.01), "wz": np.int8(0),
    }  # fmt: skip

    def node(op, inputs, output, **attrs):
        return helper.make_node(op, inputs.split(), [output], **attrs)

    nodes = [
        node("Add", "onnx::Add_0 bias", "a"), node("Conv", "a w", "c", strides=[2, 1]),
        node("Relu", "c", "r"), node("GlobalAveragePool", "r", "g"), node("Flatten", "g", "f"),
        node("MatMul", "f d", "m"), node("Softmax", "m", "scores"),
        node("QuantizeLinear", "r s z", "rq"), node("DequantizeLinear", "rq s z", "rd"),
        node("DequantizeLinear", "q ws wz", "wd"), node("Conv", "rd wd", "k"),
        node("QuantizeLinear", "k s z", "codes"),
    ]  # fmt: skip
    return model(nodes, {"onnx::Add_0": x}, ["scores", "codes"], weights), x


@pytest.fixture
def project(tmp_path):
    """A folder with the network, the application and its data; the expected outputs."""
    network, x = _network()
    onnx.save(network, tmp_path / "net.onnx")
    shutil.copy(APPLICATION, tmp_path)
    numbers = ", ".join(value.hex() + "f" for value in x.ravel().tolist())
    (tmp_path / "test_vector.h").write_text(
        f"static const float test_vector[{x.size}] = {{{numbers}}};\n"
    )
    session = onnxruntime.InferenceSession(network.SerializeToString())
    return tmp_path, session.run(None, {"onnx::Add_0": x})


def _compile(folder: Path, *options: str) -> Path:
    command = ["compile", str(folder / "net.onnx"), "-o", str(folder / "mod.a"), *options]
    assert main(command) == 0
    return folder / "mod.a"


def _check(printed: str, expected) -> None:
    scores, codes = expected
    lines = printed.split()
    bits = np.array([int(line, 16) for line in lines[: scores.size]], np.uint32)
    np.testing.assert_allclose(bits.view(np.float32), scores.ravel(), rtol=1e-4, atol=1e-6)
    found = np.array(lines[scores.size :], int)
    assert found.size == codes.size
    assert np.abs(found - codes.ravel()).max() <= 1
    assert (found == codes.ravel()).mean() > 0.98


@pytest.mark.slow
def test_application_of_another_compiler_runs_unchanged_on_a_host(project):
    folder, expected = project
    library = _compile(folder, "--target", "host")
    program = folder / "app"
    command = ["cc", *STRICT, folder / "vendor_app.c", library, "-lm", "-o", program]
    subprocess.run([*map(str, command)], check=True)
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    _check(done.stdout, expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["cortex-r5f", "cortex-r5f in Arm state", "cortex-m4", "riscv32"]
)
def test_application_of_another_compiler_runs_unchanged_on_a_board(project, target):
    folder, expected = project
    target, _, arm_state = target.partition(" ")
    board = ALL_BOARDS[target]
    if board.missing_tool():
        pytest.skip(f"{board.missing_tool()} is not installed")
    library = _compile(folder, "--target", target)
    flags = [flag for flag in board.flags if not (arm_state and flag == "-mthumb")]
    board = replace(board, flags=tuple(flags))
    image = link_image(board, [folder / "vendor_app.c"], [library], folder / "app.elf",
                       options=STRICT)  # fmt: skip
    _check(run_image(board, image, folder, timeout=60), expected)


@pytest.mark.slow
def test_header_has_the_declarations_of_tvm_and_compiles_as_c_plus_plus(project):
    folder, _ = project
    _compile(folder, "--target", "host")
    claims = [
        "TVMGEN_DEFAULT_ONNX__ADD_0_SIZE == 384",
        "TVMGEN_DEFAULT_OUTPUT0_SIZE == 24",
        "std::is_same<decltype(tvmgen_default_inputs::onnx__Add_0), void*>()",
        "std::is_same<decltype(tvmgen_default_outputs::output1), void*>()",
        "std::is_same<decltype(tvmgen_default_run),"
        " int32_t(tvmgen_default_inputs*, tvmgen_default_outputs*)>()",
    ]
    (folder / "check.cpp").write_text(
        '#include "tvmgen_default.h"\n#include <type_traits>\n'
        + "".join(f'static_assert({claim}, "");\n' for claim in claims)
    )
    command = ["g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", str(folder / "check.cpp")]
    subprocess.run(command, check=True)


@pytest.mark.slow
@pytest.mark.parametrize("flags", ["", "-g"])
def test_equal_networks_give_equal_libraries(project, monkeypatch, flags):
    folder, _ = project
    monkeypatch.setenv("TVMRT_CFLAGS", flags)
    first = _compile(folder, "--target", "host").read_bytes()
    other = folder / "a longer name of a folder"
    other.mkdir()
    monkeypatch.setenv("TMPDIR", str(other))
    monkeypatch.setattr("tempfile.tempdir", None)
    shutil.copy(folder / "net.onnx", other)
    assert _compile(other, "--target", "host").read_bytes() == first
    assert str(folder).encode() not in first


@pytest.mark.slow
def test_two_networks_are_linked_into_one_program(tmp_path):
    for name in ("a", "b"):
        output = str(tmp_path / f"{name}.a")
        options = ["--target", "host", "--module-name", name]
        assert main(["compile", str(DIGITS), "-o", output, *options]) == 0
    (tmp_path / "main.c").write_text(
        '#include "tvmgen_a.h"\n#include "tvmgen_b.h"\n'
        "static float x[64], y[2][10];\n"
        "int main(void) {\n"
        "  struct tvmgen_a_inputs in_a = {x};\n  struct tvmgen_a_outputs out_a = {y[0]};\n"
        "  struct tvmgen_b_inputs in_b = {x};\n  struct tvmgen_b_outputs out_b = {y[1]};\n"
        "  if (tvmgen_a_run(&in_a, &out_a) || tvmgen_b_run(&in_b, &out_b)) return 1;\n"
        "  return y[0][3] != y[1][3];\n"
        "}\n"
    )
    parts = [tmp_path / name for name in ("main.c", "a.a", "b.a")]
    command = ["cc", *STRICT, *parts, "-lm", "-o", tmp_path / "app"]
    subprocess.run([*map(str, command)], check=True)
    subprocess.run([str(tmp_path / "app")], check=True)


@pytest.mark.slow
def test_library_has_the_functions_that_custom_operators_call(tmp_path):
    body = """
    static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
      (void)x, (void)s, (void)y, (void)t;
      TVMAPISetLastError("no luck today");
      return -1;
    }
    """
    tensors = {"inputs": [Tensor("x", "float32")], "outputs": [Tensor("y", "float32")]}
    g = GraphBuilder()
    g.output("y", g.add(Kernel("Fails", "d", **tensors, c=C(body, "f")), g.input("x", (4,))))
    library = tvmrt.compile(
        g, target="host", runtime="crt", executor="aot", unpacked_api=True, interface_api="c"
    )
    library.export(tmp_path / "mod.a")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "tvmgen_default.h"\n'
        "const char *TVMGetLastError(void);\nstatic float x[4], y[4];\n"
        "int main(void) {\n"
        "  struct tvmgen_default_inputs in = {x};\n  struct tvmgen_default_outputs out = {y};\n"
        "  if (tvmgen_default_run(&in, &out) == 0) return 1;\n"
        "  return puts(TVMGetLastError()) < 0;\n"
        "}\n"
    )
    command = ["cc", *STRICT, "main.c", "mod.a", "-lm", "-o", "app"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "app"], capture_output=True, text=True, check=True)
    assert done.stdout == "no luck today\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--executor", "graph"], "choose --executor aot for --interface-api c"),
        (["--interface-api", "packed"], "with --executor aot and --interface-api c, for example"),
        (["--profile"], "profile and record need a folder or a .tar, not a .a file"),
        (["--target", "host", "--cc", "false"], "C compiler false failed with code 1"),
    ],
    ids=["graph", "packed", "profile", "compiler"],
)
def test_wrong_combinations_are_errors_of_one_sentence(tmp_path, capsys, options, words):
    command = ["compile", str(DIGITS), "-o", str(tmp_path / "mod.a"), "--target", "cortex-m4"]
    assert main([*command, *options]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not [*tmp_path.iterdir()]


@pytest.mark.slow
def test_missing_tools_and_vendors_are_named(tmp_path, monkeypatch):
    options = {"target": "cortex-r5f", "interface_api": "c"}
    library = tvmrt.compile(DIGITS, **options)
    vendor = tvmrt.compile(DIGITS, **{**options, "target": "cortex-m4"}, devices=["cmsis-nn"])
    with pytest.raises(UnsupportedError, match="calls CMSIS-NN, which is not part of tvmrt"):
        vendor.export(tmp_path / "mod.a")
    packed = tvmrt.compile(DIGITS, target="cortex-r5f")
    with pytest.raises(ValueError, match=r'executor="aot" .*\.export\("mod.a"\)'):
        packed.export(tmp_path / "mod.a")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match="arm-none-eabi-gcc is not installed, which compiles"):
        library.export(tmp_path / "mod.a")
    assert not [*tmp_path.iterdir()]
