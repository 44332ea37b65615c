"""Guarded networks detect bit flips and keep their results; unsupported networks are refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import boards
import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.error import UnsupportedError
from tvmrt.libinfo import find_include_path

PLUGIN = Path(__file__).parents[1]
DIGITS = PLUGIN.parents[1] / "examples" / "digits"
sys.path.insert(0, str(PLUGIN / "tests" / "bench"))
import inject  # noqa: E402

WEIGHTS_DAMAGED, TENSOR_DAMAGED = 0x1108, 0x1109
BOARDS = ("cortex-m4", "cortex-m55", "cortex-m0plus", "riscv32")


@pytest.fixture(scope="module")
def onnx():
    return pytest.importorskip("onnx")


@pytest.mark.parametrize("guard", ["run", "idle"])
@pytest.mark.parametrize("kind", ["int8", "f32"])
@pytest.mark.slow
def test_flips_that_change_the_answer_are_detected_without_false_alarms(guard, kind, tmp_path):
    program = inject.build(DIGITS / f"digits_{kind}.onnx", tmp_path, guard)
    result = inject.run(program, seed=3, flips=1500, runs=1500)
    for each in result.injections:
        assert each.injected == 750
        assert each.changed > 20
        assert each.detected == each.changed
        assert each.silent == 0
    assert (result.false_alarms, result.differ) == (0, 0)


def branches(onnx):
    """Return a network with a residual, a concatenation, an early output and a reshape."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    random = np.random.default_rng(5)

    def constant(name, *shape):
        data = random.standard_normal(shape).astype(np.float32)
        return onnx.numpy_helper.from_array(data, name)

    pads = [1, 1, 1, 1]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=pads),
        helper.make_node("Conv", ["a", "w2"], ["b"], pads=pads),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Conv", ["c", "w3"], ["d"], pads=pads),
        helper.make_node("Conv", ["c", "w4"], ["early"]),
        helper.make_node("Concat", ["c", "d"], ["e"], axis=1),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("MatMul", ["h", "w5"], ["y"]),
    ]
    weights = [constant("w1", 4, 3, 3, 3), constant("w2", 4, 4, 3, 3), constant("w3", 6, 4, 3, 3),
               constant("w4", 2, 4, 1, 1), constant("w5", 10, 5)]  # fmt: skip
    graph = helper.make_graph(
        nodes, "branches",
        [helper.make_tensor_value_info("x", kind, [1, 3, 7, 9])],
        [helper.make_tensor_value_info("early", kind, [1, 2, 7, 9]),
         helper.make_tensor_value_info("y", kind, [1, 5])], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.slow
def test_tensors_with_several_readers_and_writers_are_covered(onnx, tmp_path):
    onnx.save(branches(onnx), tmp_path / "net.onnx")
    program = inject.build(tmp_path / "net.onnx", tmp_path, "run")
    result = inject.run(program, seed=1, flips=4000, runs=500)
    for each in result.injections:
        assert each.changed > 100
        assert (each.detected, each.silent) == (each.changed, 0)
    assert (result.false_alarms, result.differ) == (0, 0)


def dense_layers(onnx, kind: str, widths: tuple[int, ...]):
    """Return a network of dense layers between tensors of a type, whose weights are uint8 with a
    zero point in every other layer."""
    helper, types = onnx.helper, onnx.TensorProto
    random = np.random.default_rng(9)
    zero = {"int8": -7, "uint8": 117}[kind]
    constants = {"s": np.float32(0.02), "z": np.array(zero, kind), "bs": np.float32(0.0001),
                 "ws": np.float32(0.005), "wz": np.uint8(101), "wz_signed": np.int8(0)}  # fmt: skip
    nodes, tensor = [], "x"
    for i, (k, n) in enumerate(zip(widths, widths[1:])):
        signed = i % 2 == 0
        zeros, dtype = ("wz_signed", np.int8) if signed else ("wz", np.uint8)
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        constants[f"w{i}"] = random.integers(low, high, (k, n), dtype, endpoint=True)
        constants[f"b{i}"] = random.integers(-3000, 3000, n).astype(np.int32)
        last = i == len(widths) - 2
        nodes += [
            helper.make_node("DequantizeLinear", [tensor, "s", "z"], [f"x{i}"]),
            helper.make_node("DequantizeLinear", [f"w{i}", "ws", zeros], [f"wf{i}"]),
            helper.make_node("DequantizeLinear", [f"b{i}", "bs"], [f"bf{i}"]),
            helper.make_node("Gemm", [f"x{i}", f"wf{i}", f"bf{i}"], [f"g{i}"]),
            helper.make_node("QuantizeLinear", [f"g{i}", "s", "z"], ["y" if last else f"q{i}"]),
        ]
        tensor = f"q{i}"
    value = getattr(types, kind.upper())
    graph = helper.make_graph(
        nodes, "dense",
        [helper.make_tensor_value_info("x", value, [1, widths[0]])],
        [helper.make_tensor_value_info("y", value, [1, widths[-1]])],
        [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", BOARDS)
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.slow
def test_products_of_dense_layers_detect_flips_of_weights(onnx, kind, target, tmp_path):
    onnx.save(dense_layers(onnx, kind, (37, 129, 24, 24, 40, 17, 5)), tmp_path / "net.onnx")
    program = inject.build(tmp_path / "net.onnx", tmp_path, "run", target)
    text = (tmp_path / "tvmgen_guarded_lib0.c").read_text()
    assert len(re.findall(r"_guard_expect\(", text)) == 5  # all but the layer of five channels
    assert len(re.findall(r"_guard_sum\(0,\s*\w+_weights,", text)) == 1
    result = inject.run(program, seed=5, flips=4000, runs=500)
    for each in result.injections:
        assert each.changed > 100
        assert (each.detected, each.silent) == (each.changed, 0)
    assert (result.false_alarms, result.differ) == (0, 0)


@pytest.mark.parametrize(
    ("operators", "places"),
    [(["Relu"], []), (["MatMul"], ["weights"]), (["Relu", "Softmax"], ["tensors"])],
)
@pytest.mark.slow
def test_flips_are_counted_in_the_memory_that_a_network_has(onnx, operators, places, tmp_path):
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    tensors = [helper.make_tensor_value_info(name, kind, [1, 8]) for name in "xy"]
    weights = np.random.default_rng(7).standard_normal((8, 8)).astype(np.float32)
    names = ["x", *"ab"[: len(operators) - 1], "y"]
    nodes = [
        helper.make_node(each, [names[i], *(["w"] if each == "MatMul" else [])], [names[i + 1]])
        for i, each in enumerate(operators)
    ]
    constants = [onnx.numpy_helper.from_array(weights, "w")] if "MatMul" in operators else []
    graph = helper.make_graph(nodes, "small", tensors[:1], tensors[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "small.onnx")
    command = [
        sys.executable,
        PLUGIN / "tests" / "bench" / "inject.py",
        tmp_path / "small.onnx",
        "--json",
    ]
    done = subprocess.run(
        [*command, "--flips", "300", "--runs", "50"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert [each["place"] for each in row["injections"] if each["injected"]] == places
    for each in row["injections"]:
        assert each["injected"] in (0, 300)
        assert each["detected"] == each["changed"]
        assert each["changed"] > 50 or not each["injected"]
    assert (row["runs"], row["false_alarms"], row["differ"]) == (50, 0, 0)


@pytest.mark.slow
def test_guarded_dense_layers_fit_into_a_single_file(onnx, tmp_path):
    options = {"target": "cortex-m4", "interface_api": "c", "guard": "run"}
    tvmrt.compile(dense_layers(onnx, "int8", (24, 24)), **options).export(tmp_path / "net.c")
    flags = ["-Wall", "-Wextra", "-Werror", "-c", "-o", str(tmp_path / "net.o")]
    subprocess.run(["cc", *flags, str(tmp_path / "net.c")], check=True)


@pytest.mark.parametrize("kind", ["dense", "float", "16x8"])
@pytest.mark.slow
def test_the_guard_costs_at_most_a_tenth(onnx, kind, tmp_path):
    tool = boards.BOARDS["cortex-m4"].missing_tool()
    if tool is not None:
        pytest.skip(f"{tool} is not installed")
    network = tmp_path / "net.onnx"
    if kind == "dense":
        onnx.save(dense_layers(onnx, "int8", (256, 128, 128, 128)), network)
    else:
        tflite = PLUGIN.parents[1] / "tests" / "data" / "tflite" / "convolutional_int16.tflite"
        network = {"float": DIGITS / "digits_f32.onnx", "16x8": tflite}[kind]
    plain, guarded = (inject.cost(network, tmp_path, "cortex-m4", guard) for guard in (None, "run"))
    assert guarded["instructions"] <= 1.1 * plain["instructions"]
    assert guarded["RAM"] <= 1.02 * plain["RAM"]


PROGRAM = """\
#include <stdio.h>
#include <tvmgen_default.h>
static float image[64], output[10];
extern unsigned char %(weights)s[], tvmgen_default_workspace[];
int main(void) {
  struct tvmgen_default_inputs inputs = {image};
  struct tvmgen_default_outputs outputs = {output};
  struct tvmgen_default_step_state state;
  int code = 0;
  printf("%%d ", (int)tvmgen_default_run(&inputs, &outputs));
  tvmgen_default_step_begin(&state, &inputs, &outputs);
  tvmgen_default_step(&state, 2);
  for (int i = 0; i < %(arena)d; ++i) tvmgen_default_workspace[i] ^= 8;
  do code = (int)tvmgen_default_step(&state, 1); while (code == 1);
  printf("%%d ", code);
  %(weights)s[%(last)d] ^= 16;
  for (int i = 0; i < %(calls)d; ++i) code = (int)tvmgen_default_%(check)s;
  printf("%%d ", code);
  printf("%%d\\n", (int)tvmgen_default_run(&inputs, &outputs));
  return 0;
}
"""


def run_program(folder: Path, guard: str, **options) -> list[int]:
    """Return the codes of a run, of a run with changed tensors, of checks after a flip in the last
    byte of the largest weights, and of a run after it."""
    library = tvmrt.compile(
        str(DIGITS / "digits_int8.onnx"),
        target="riscv32",
        interface_api="c",
        guard=guard,
        **options,
    )
    library.export_sources(folder)
    largest = max(library.sources.weight_buffers, key=lambda buffer: buffer.nbytes)
    check = "guard_idle(32)" if guard == "idle" else "run(&inputs, &outputs)"
    values = {
        "weights": library.sources.symbol_of(largest), "last": largest.nbytes - 1, "check": check,
        "arena": library.program.arena_bytes,
        "calls": 1 + library.sources.flash_bytes // 32 if guard == "idle" else 1,
    }  # fmt: skip
    (folder / "main.c").write_text(PROGRAM % values)
    return run_with_weights_in_ram(folder, "-O1")


def run_with_weights_in_ram(folder: Path, *flags: str) -> list[int]:
    """Return the numbers that a program with the network of a folder prints."""
    for path in (folder / "tvmgen_default_weights.c", folder / "tvmgen_default_ops.h"):
        text = path.read_text().replace('section(".rodata.tvm"), ', "")
        path.write_text(text.replace("extern const ", "extern ").replace("\nconst ", "\n"))
    includes = [f"-I{path}" for path in (folder, *find_include_path())]
    command = ["cc", *flags, "-Wall", "-Wextra", *includes, *map(str, folder.glob("*.c")), "-lm"]
    done = subprocess.run(
        [*command, "-o", str(folder / "program")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "guard" not in done.stderr, done.stderr
    found = subprocess.run([folder / "program"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return [int(word) for word in found.stdout.split()]


FLIP_ALL = """\
#include <stdio.h>
#include <string.h>
#include <tvmgen_default.h>
%(externs)s
static const struct { unsigned char *data; int size; } weights[] = {%(rows)s};
static _Alignas(16) unsigned char x[%(x)d], right[%(y)d], y[%(y)d];
int main(void) {
  struct tvmgen_default_inputs inputs = {x};
  struct tvmgen_default_outputs outputs = {right};
  int wrong = 0, detected = 0;
  for (int i = 0; i < (int)sizeof(x); ++i) x[i] = (unsigned char)(i %% 2 * 119);
  if (tvmgen_default_run(&inputs, &outputs) != 0) return 1;
  outputs.output = y;
  for (int i = 0; i < (int)(sizeof(weights) / sizeof(weights[0])); ++i) {
    for (int at = 3; at < weights[i].size; at += 4) { /* the highest byte of a bias or multiplier */
      for (int bit = 0x80; bit > 2; bit /= 2) {
        weights[i].data[at] ^= (unsigned char)bit;
        const int code = (int)tvmgen_default_run(&inputs, &outputs);
        weights[i].data[at] ^= (unsigned char)bit;
        detected += code == 0x1108;
        wrong += code == 0 && memcmp(y, right, sizeof(y)) != 0;
      }
    }
  }
  printf("%%d %%d\\n", wrong, detected);
  return 0;
}
"""


def gather(onnx):
    """Return a network whose indices are constants."""
    helper, types = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Relu", ["x"], ["t"]),
        helper.make_node("Gather", ["t", "at"], ["g"], axis=1),
        helper.make_node("Exp", ["g"], ["y"]),
    ]
    indices = np.random.default_rng(2).integers(0, 64, 200)
    graph = helper.make_graph(
        nodes, "gather",
        [helper.make_tensor_value_info("x", types.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", types.FLOAT, [1, 200])],
        [onnx.numpy_helper.from_array(indices, "at")],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def trees(onnx):
    """Return 16 decision trees of 15 nodes, each in the order of its levels."""
    helper, types = onnx.helper, onnx.TensorProto
    random, many = np.random.default_rng(6), 16
    node = np.tile(np.arange(15), many)
    tree = np.repeat(np.arange(many), 15)
    inner = node < 7
    forest = helper.make_node(
        "TreeEnsembleRegressor", ["t"], ["y"], domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=tree, nodes_nodeids=node,
        nodes_modes=["BRANCH_LEQ" if each else "LEAF" for each in inner],
        nodes_featureids=random.integers(0, 8, len(node)) * inner,
        nodes_values=random.uniform(0, 2, len(node)) * inner,
        nodes_truenodeids=(2 * node + 1) * inner, nodes_falsenodeids=(2 * node + 2) * inner,
        target_treeids=tree[~inner], target_nodeids=node[~inner],
        target_ids=np.zeros(8 * many, int), target_weights=random.standard_normal(8 * many),
    )  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["t"]), forest], "trees",
        [helper.make_tensor_value_info("x", types.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", types.FLOAT, [1, 1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("guard", ["run", "idle"])
@pytest.mark.parametrize("network", [gather, trees])
@pytest.mark.slow
def test_flips_of_indices_are_detected_before_they_lead_out_of_a_tensor(
    onnx, network, guard, tmp_path
):
    onnx.save(network(onnx), tmp_path / "net.onnx")
    result = inject.run(inject.build(tmp_path / "net.onnx", tmp_path, guard), 3, 1500, 100)
    for each in result.injections:
        assert each.changed > 20
        assert (each.detected, each.silent) == (each.changed, 0)
    assert (result.false_alarms, result.differ) == (0, 0)


def convolution(onnx):
    """Return a convolution that the kernels of boards do not have."""
    helper, types = onnx.helper, onnx.TensorProto
    random = np.random.default_rng(4)
    constants = {"s": np.float32(0.02), "z": np.int8(-3), "bs": np.float32(0.0002),
                 "ws": np.float32(0.01), "wz": np.int8(0),
                 "w": random.integers(-127, 127, (5, 3, 2, 2, 2), np.int8),
                 "b": random.integers(-3000, 3000, 5, np.int32)}  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"]),
        helper.make_node("DequantizeLinear", ["b", "bs"], ["bf"]),
        helper.make_node("Conv", ["xf", "wf", "bf"], ["c"]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "convolution",
        [helper.make_tensor_value_info("x", types.INT8, [1, 3, 4, 4, 4])],
        [helper.make_tensor_value_info("y", types.INT8, [1, 5, 3, 3, 3])],
        [onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("kind", "target", "soft"),
    [
        *((k, t, s) for k in ("digits", "dense") for t in BOARDS for s in (0, 1)),
        ("gather", "cortex-m4", 0),
        ("trees", "cortex-m4", 0),
        ("convolution", "cortex-m4", 0),
    ],
)
@pytest.mark.slow
def test_changed_weights_and_biases_cause_no_undefined_behaviour(
    onnx, kind, target, soft, tmp_path
):
    if kind == "digits":
        network = str(DIGITS / "digits_int8.onnx")
    elif kind == "dense":  # weights with zero points
        network = dense_layers(onnx, "uint8", (9, 24, 17, 3))
    else:
        network = {"gather": gather, "trees": trees, "convolution": convolution}[kind](onnx)
    library = tvmrt.compile(network, target=target, interface_api="c", guard="run")
    library.export_sources(tmp_path)
    buffers = {library.sources.symbol_of(b): b.nbytes for b in library.sources.weight_buffers}
    (x,), (y,) = library.program.input_types, library.program.output_types
    values = {
        "externs": "\n".join(f"extern unsigned char {symbol}[];" for symbol in buffers),
        "rows": ", ".join(f"{{{symbol}, {size}}}" for symbol, size in buffers.items()),
        "x": x.nbytes, "y": y.nbytes,
    }  # fmt: skip
    (tmp_path / "main.c").write_text(FLIP_ALL % values)
    checks = ["-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize-recover=all"]
    has_fpu = f"-DTVMRT_MICRO_HAS_FPU={1 - soft}"
    wrong, detected = run_with_weights_in_ram(tmp_path, "-O1", "-g", *checks, has_fpu)
    assert wrong == 0
    assert detected > 100


@pytest.mark.parametrize("guard", ["run", "idle"])
def test_programs_get_the_documented_codes_and_no_answer(guard, tmp_path):
    codes = run_program(tmp_path, guard)
    assert codes == [0, TENSOR_DAMAGED, WEIGHTS_DAMAGED, WEIGHTS_DAMAGED]


def test_plain_networks_are_unchanged(tmp_path):
    network = str(DIGITS / "digits_int8.onnx")
    for name in ("a", "b"):
        tvmrt.compile(network, target="cortex-m4", interface_api="c").export_sources(
            tmp_path / name
        )
    assert not list((tmp_path / "a").glob("*guard*"))
    assert "guard_sum" not in (tmp_path / "a" / "tvmgen_default_lib0.c").read_text()


def test_uses_that_are_not_supported_are_refused(onnx, tmp_path, capsys):
    network = str(DIGITS / "digits_f32.onnx")
    board = {"target": "cortex-m4", "interface_api": "c"}
    with pytest.raises(ValueError, match='interface_api="c"'):
        tvmrt.compile(network, target="cortex-m4", guard="run")
    with pytest.raises(ValueError, match='params="flash"'):
        tvmrt.compile(network, **board, params="file", guard="run")
    with pytest.raises(ValueError, match="tables of a recording; record without it"):
        tvmrt.compile(network, **board, record=True, guard="run")
    arguments = ["compile", network, "-o", str(tmp_path / "x.so"), "--guard", "run"]
    assert main(arguments) == 2
    assert "--guard needs --runtime crt" in capsys.readouterr().err
    arguments = ["compile", network, "-o", str(tmp_path / "x.elf"), "--target", "cortex-m4"]
    assert main([*arguments, "--guard", "run"]) == 2
    assert "(.elf) have another interface, so choose no guard" in capsys.readouterr().err
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    tensors = [helper.make_tensor_value_info(name, kind, ["n", 4]) for name in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", *map(list, zip(tensors))
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedError, match="dynamic sizes"):
        tvmrt.compile(model, dims={"n": (1, 8)}, guard="run", **board)
