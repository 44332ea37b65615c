"""Records of networks on a board: cycles, digests of tensors, and ``tvmrt replay`` of a dump."""

from __future__ import annotations

import json
import struct
import subprocess

import numpy as np
import onnx
import pytest
from boards import BOARDS, build_library, count_text, link_image, run_image
from firmware_program import DIGITS, build
from onnx import TensorProto, helper
from onnx_graph import model

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler.codegen.firmware.trace import merged_axes
from tvmrt.compiler.ir.strided import Strided
from tvmrt.plugins.replay import dump as trace_dump

C = {"target": "cortex-m4", "interface_api": "c", "unpacked_api": True, "module_name": "net"}

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
STRICT_SMALL = "-Os -ffunction-sections -fdata-sections -Wall -Wextra -Werror -Wconversion"

MAIN = """\
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <tvmgen_net.h>

%(cycles)s
static uint64_t input[4096], output[4096];

int main(void) {
%(structs)s
  FILE *in = fopen("inputs.bin", "rb"), *out = fopen("dump.bin", "wb");
  if (in == NULL || out == NULL) return 1;
  while (fread(input, %(size)s, 1, in) == 1) {
%(call)s
  }
  if (fwrite(&tvmgen_net_trace, sizeof(tvmgen_net_trace), 1, out) != 1) return 3;
  return fclose(out) == 0 ? 0 : 4;
}
"""
STRUCTS = """\
  struct tvmgen_net_inputs inputs = {input};
  struct tvmgen_net_outputs outputs = {output};"""
RUN = "    if (tvmgen_net_run(&inputs, &outputs) != 0) return 2;"
STEP_THREE = """\
    struct tvmgen_net_step_state state;
    if (tvmgen_net_step_begin(&state, &inputs, &outputs) != 0) return 2;
    if (tvmgen_net_step(&state, 3) != TVMGEN_NET_STEP_MORE) return 2;"""


def dump_on_this_machine(
    network, images, folder, call=RUN, damage=None, sanitizers: tuple[str, ...] = (), **options
):
    """Return the dump after a run of each image; ``damage`` changes the sources before."""
    tvmrt.compile(network, **{**C, **options}).export(folder / "out")
    if damage:
        damage(folder / "out")
    cycles = "uint32_t tvmrt_platform_cycles(void);\nstatic uint32_t now;\n"
    cycles += "uint32_t tvmrt_platform_cycles(void) { return now += 7; }"
    structs = STRUCTS if options.get("interface_api", "c") == "c" else ""
    size = "TVMGEN_NET_X_SIZE" if options.get("dims") else "TVMGEN_NET_IMAGE_SIZE"
    texts = {"cycles": cycles, "call": call, "structs": structs, "size": size}
    (folder / "main.c").write_text(MAIN % texts)
    images.tofile(folder / "inputs.bin")
    sources = [folder / "main.c", *sorted((folder / "out").glob("*.c"))]
    program = build(folder, sources, [folder / "out"], sanitizers)
    subprocess.run([program], cwd=folder, check=True)
    return folder / "dump.bin"


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    with np.load(DIGITS / "digits_test.npz") as archive:
        return (archive["images"][:60].astype(np.float32) / 16).reshape(-1, 1, 1, 8, 8)


def replay(network, dump, *arguments: str, image=None, capsys=None) -> tuple[int, dict]:
    given = []
    if image is not None:
        np.savez(dump.parent / "in.npz", image=image)
        given = ["--inputs", str(dump.parent / "in.npz")]
    code = main(["replay", str(network), str(dump), "--json", *given, *arguments])
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else {"error": captured.err}


@pytest.mark.slow
@pytest.mark.parametrize(
    "board, kind",
    [
        ("cortex-m4", "f32"),
        ("cortex-m4", "int8"),
        ("cortex-m55", "int8"),
        ("riscv32", "int8"),
        pytest.param("cortex-m55", "f32", marks=pytest.mark.slow),
        pytest.param("riscv32", "f32", marks=pytest.mark.slow),
    ],
)
def test_board_record_matches_the_host(board, kind, images, tmp_path, capsys):
    machine, digits = BOARDS[board], DIGITS / f"digits_{kind}.onnx"
    options = {**C, "target": board, "profile": True, "record": True}
    tvmrt.compile(digits, **options).export(tmp_path / "net.tar")
    library = build_library(tmp_path / "net.tar", machine, tmp_path / "net", STRICT_SMALL)
    cycles = count_text(machine) + "uint32_t tvmrt_platform_cycles(void);\n"
    cycles += "uint32_t tvmrt_platform_cycles(void) { return count_now(); }"
    (tmp_path / "main.c").write_text(
        MAIN % {"cycles": cycles, "call": RUN, "structs": STRUCTS, "size": "TVMGEN_NET_IMAGE_SIZE"}
    )
    includes = [tmp_path / "net/codegen/host/include", tmp_path / "net/runtime/include"]
    image = link_image(
        machine, [tmp_path / "main.c"], [library], tmp_path / "image.elf", includes,
        ["-Wno-unused-function"],
    )  # fmt: skip
    images[:2].tofile(tmp_path / "inputs.bin")
    run_image(machine, image, tmp_path, counted=True)
    code, report = replay(digits, tmp_path / "dump.bin", image=images[1], capsys=capsys)
    assert code == 0, report
    operators = [r for r in report["records"] if r["operator"] is not None]
    assert len(operators) == len(tvmrt.compile(digits, **C).summary.operators)
    assert {r["verdict"] for r in report["records"]} <= {"same", "rounding"}
    if kind == "int8":
        assert all(r["verdict"] == "same" for r in report["records"])
    assert all(r["cycles"] > 0 for r in operators)


def test_the_first_operator_that_differs_is_named(images, tmp_path, capsys):
    def damage(folder):
        path = folder / "tvmgen_net_weights.c"
        head, mark, tail = path.read_text().partition("tvmgen_net_w_depthwise_bias[16]")
        start = tail.index("{") + 1
        path.write_text(head + mark + tail[:start] + " 100000," + tail[tail.index(",") + 1 :])

    network = DIGITS / "digits_int8.onnx"
    dump = dump_on_this_machine(network, images[:1], tmp_path, damage=damage, record=True)
    code, report = replay(network, dump, image=images[0], capsys=capsys)
    assert code == 1 and report["wrong"]
    assert "operator 3, depthwise (nodes " in report["finding"]
    assert "relu3" in report["finding"] and "is the first whose output differs" in report["finding"]


def test_different_inputs_and_different_arithmetic_are_distinguished(images, tmp_path, capsys):
    network = DIGITS / "digits_int8.onnx"
    dump = dump_on_this_machine(network, images[:1], tmp_path, record=True)
    code, report = replay(network, dump, image=images[1], capsys=capsys)
    assert code == 1
    assert report["finding"].startswith(
        "input image differs: the board's inputs are not those of --inputs"
    )


def test_unfinished_run_reports_its_operator(images, tmp_path, capsys):
    network = DIGITS / "digits_f32.onnx"
    dump = dump_on_this_machine(network, images[:1], tmp_path, STEP_THREE, record=True)
    code, report = replay(network, dump, image=images[0], capsys=capsys)
    assert code == 1
    assert (
        "operator 3, pointwise (nodes pointwise, relu4), is the first operator that did not"
        in report["finding"]
    )


@pytest.mark.slow
def test_runs_are_numbered_and_old_records_are_overwritten(images, tmp_path, capsys):
    network = DIGITS / "digits_f32.onnx"  # 7 operators: 8 records per run
    options = {"record": True, "trace_records": 20, "sanitizers": SANITIZERS}
    dump = dump_on_this_machine(network, images[:4], tmp_path, **options)
    assert [len(run) for run in trace_dump.load(dump).runs] == [4, 8, 8]
    for number, image in (("1", 1), ("2", 2), ("3", 3)):
        code, report = replay(network, dump, "--run", number, image=images[image], capsys=capsys)
        assert (code, report["run"]) == (0, int(number)), report
    code, report = replay(network, dump, "--run", "4", capsys=capsys)
    assert code == 2 and "contains 3 runs; run 4 does not exist" in report["error"]


POOLED_CALL = """\
    static uint64_t fast[88], slow[1 << 13];
    struct tvmgen_net_workspace_pools pools = {.fast = fast, .slow = slow};
    struct tvmgen_net_inputs mapped = tvmgen_net_map_inputs(&pools);
    memcpy(mapped.image, input, TVMGEN_NET_IMAGE_SIZE);
    struct tvmgen_net_step_state state;
    (void)inputs, (void)outputs, (void)output;
    if (tvmgen_net_step_begin(&state, &pools) != 0) return 2;
    while (tvmgen_net_step(&state, 1) == TVMGEN_NET_STEP_MORE) continue;"""


def test_tensors_in_pools_are_recorded(images, tmp_path, capsys):
    network = DIGITS / "digits_f32.onnx"
    options = {"pools": {"fast": 700, "slow": 1 << 16}, "workspace_io": True, "record": True}
    dump = dump_on_this_machine(network, images[:1], tmp_path, POOLED_CALL, **options)
    code, report = replay(network, dump, image=images[0], capsys=capsys)
    assert code == 0
    assert report["finding"] == "all 8 tensors are bit-identical to this machine's"


PACKED_CALL = """\
    DLTensor tensors[2] = {{.data = input}, {.data = output}};
    TVMValue args[2] = {{.v_handle = &tensors[0]}, {.v_handle = &tensors[1]}}, result;
    int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle}, code;
    if (tvmgen_net_run(args, codes, 2, &result, &code, NULL) != 0) return 2;"""


def test_networks_called_by_packed_functions_are_recorded(images, tmp_path, capsys):
    network = DIGITS / "digits_f32.onnx"
    options = {"interface_api": "packed", "record": True}
    dump = dump_on_this_machine(network, images[:1], tmp_path, PACKED_CALL, **options)
    code, report = replay(network, dump, image=images[0], capsys=capsys)
    assert code == 0, report
    assert report["finding"] == "all 8 tensors are bit-identical to this machine's"


def test_cycles_are_shown_by_name(images, tmp_path, capsys):
    network = DIGITS / "digits_f32.onnx"
    dump = dump_on_this_machine(network, images[:2], tmp_path, profile=True)
    code, report = replay(network, dump, capsys=capsys)
    assert code == 0 and report["runs"] == 1  # the ring buffer holds one run
    found = {r["name"]: r["cycles"] for r in report["records"]}
    names = ["conv1", "conv2", "depthwise", "pointwise", "pool", "dense", "softmax"]
    assert found == dict.fromkeys(names, 7)
    assert main(["replay", str(network), str(dump)]) == 0
    assert "49 cycles in operators" in capsys.readouterr().out
    code, report = replay(network, dump, image=images[1], capsys=capsys)
    assert code == 2 and "compile with --record to compare values" in report["error"]


VALUES = {
    "f32": np.array([1.5, -2.25, np.nan, 3e30], np.float32),
    "f64": np.array([1e-5, -7.125, 1e300], np.float64),
    "f16": np.array([0.5, -1.5, 6e-8], np.float16),
    "i8": np.array([-128, 127, 3], np.int8),
    "u8": np.array([0, 255, 3], np.uint8),
    "i16": np.array([-300, 300], np.int16),
    "u16": np.array([65535, 1], np.uint16),
    "i32": np.array([-(1 << 31), 5], np.int32),
    "i64": np.array([-(1 << 40), 5, (1 << 40) + 1], np.int64),
    "flag": np.array([True, False]),
}
LIMITS = {  # smallest and largest values as the layout of records defines them
    "f32": (-2.25, np.float32(3e30)), "f64": (-7.125, np.inf), "f16": (-1.5, 0.5),
    "i8": (-128, 127), "u8": (0, 255), "i16": (-300, 300), "u16": (1, 65535),
    "i32": (-(1 << 31), 5), "i64": (-(1 << 31), (1 << 31) - 1), "flag": (0, 1),
}  # fmt: skip


def hash_of(array: np.ndarray) -> int:
    """Compute the hash as the header describes it."""
    words = []
    for element in array.reshape(-1):
        if array.dtype.itemsize < 4 and array.dtype.kind == "i":
            words.append(int(element) & 0xFFFFFFFF)
        else:
            data = element.tobytes().ljust(4, b"\0")
            words += struct.unpack(f"<{len(data) // 4}I", data)
    found = 0x811C9DC5
    for word in words:
        found = ((found ^ word) * 0x9E3779B1) & 0xFFFFFFFF
        found ^= found >> 15
    return found


def test_digests_of_every_type_match_the_layout(tmp_path):
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in VALUES]
    network = model(nodes, VALUES, [f"{name}_out" for name in VALUES])
    tvmrt.compile(network, **C, record=True).export(tmp_path / "out")
    fields = [f"  .{name} = &at[{16 * i}]," for i, name in enumerate(VALUES)]
    outputs = [f"  .output{i} = &results[{16 * i}]," for i in range(len(VALUES))]
    text = ["#include <stdio.h>", "#include <tvmgen_net.h>", "static double at[320], results[320];",
            "int main(void) {", "  struct tvmgen_net_inputs in = {", *fields, "  };",
            "  struct tvmgen_net_outputs out = {", *outputs, "  };",
            "  if (fread(at, sizeof(at), 1, stdin) != 1) return 1;",
            "  if (tvmgen_net_run(&in, &out) != 0) return 2;",
            "  return fwrite(&tvmgen_net_trace, sizeof(tvmgen_net_trace), 1, stdout) != 1;",
            "}\n"]  # fmt: skip
    (tmp_path / "main.c").write_text("\n".join(text))
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    program = build(tmp_path, sources, [tmp_path / "out"], SANITIZERS)
    memory = b"".join(array.tobytes().ljust(128, b"\0") for array in VALUES.values())
    done = subprocess.run(
        [program], input=memory.ljust(2560, b"\0"), capture_output=True, check=True
    )
    (records,) = trace_dump.parse(done.stdout, "dump").runs
    inputs = records[: len(VALUES)]
    for record, (name, array) in zip(inputs, VALUES.items()):
        low, high = (trace_dump.value_of(b, array.dtype.kind) for b in (record.low, record.high))
        assert (low, high) == LIMITS[name], name
        assert record.hash == hash_of(array), name


@pytest.mark.parametrize(
    "at, expected",
    [
        pytest.param(Strided((2, 3, 4), (12, 4, 1)), ((24, 1),), id="dense"),
        pytest.param(Strided((1, 8, 5, 6), (240, 1, 48, 8)), ((240, 1),), id="channels-last"),
        pytest.param(Strided((2, 3, 4), (24, 8, 1), 4), ((4, 1), (6, 8)), id="slice"),
        pytest.param(Strided((3, 4), (16, 2)), ((4, 2), (3, 16)), id="gaps"),
        pytest.param(Strided((), ()), (), id="scalar"),
        pytest.param(Strided((2, 0), (0, 1)), ((0, 1),), id="empty"),
    ],
)
def test_contiguous_axes_are_merged(at, expected):
    assert merged_axes(at) == expected


def test_recording_code_is_opt_in(tmp_path):
    tvmrt.compile(DIGITS / "digits_f32.onnx", **C).export(tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        assert "trace" not in path.name
        assert "trace" not in path.read_text() and "platform" not in path.read_text()


@pytest.mark.parametrize(
    "options, match",
    [
        pytest.param({"target": "native", "record": True}, "of the crt runtime", id="host"),
        pytest.param(
            {"target": "cortex-m4", "profile": True, "unpacked_api": False},
            'profile and record need executor="aot" with unpacked_api',
            id="packed",
        ),
        pytest.param({**C, "trace_records": 5}, "choose one of them", id="nothing"),
        pytest.param({**C, "record": True, "trace_records": 0}, "at least 1", id="no-records"),
        pytest.param({**C, "record": True, "trace_records": 1 << 25}, "choose 1 to", id="many"),
    ],
)
def test_options_that_contradict_are_refused(options, match):
    with pytest.raises(ValueError, match=match):
        tvmrt.compile(DIGITS / "digits_f32.onnx", **options)


OPEN_SIZE_CALL = """\
    struct tvmgen_net_dims dims = {2};
    if (tvmgen_net_run(&inputs, &outputs, &dims) != 0) return 2;"""


def test_a_network_with_dimensions_is_read_with_the_same_ones(tmp_path, capsys):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(network, tmp_path / "net.onnx")
    options = {"dims": {"n": 4}, "profile": True}
    dump = dump_on_this_machine(
        network, np.zeros(64, np.float32), tmp_path, OPEN_SIZE_CALL, **options
    )
    code, report = replay(tmp_path / "net.onnx", dump, "--dim", "n<=4", capsys=capsys)
    assert code == 0, report
    assert [r["cycles"] for r in report["records"]] == [7]
    code, report = replay(tmp_path / "net.onnx", dump, "--shape", "x=4", capsys=capsys)
    assert code == 2 and "the dump is not of" in report["error"]
