"""Generated C: no warnings, reproducible, named after layers."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.compiler.codegen import c_source
from tvmrt.compiler.codegen.builder import build_program
from tvmrt.compiler.codegen.c.naming import identifier
from tvmrt.compiler.codegen.c.writer import FunctionWriter
from tvmrt.compiler.codegen.c_source import generate, print_function, print_functions
from tvmrt.compiler.codegen.options import Options, SharedImage, WeightPlacement
from tvmrt.compiler.codegen.pool_options import with_io_in_pools
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.ir import DTYPES, Builder, Graph, TensorType, Value
from tvmrt.compiler.ir.program import ARENA, MemoryPool
from tvmrt.compiler.planner.plan import plan_program
from tvmrt.libinfo import find_include_path

ROOT = Path(__file__).parents[3]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-fsyntax-only"]


def sources_of(network, folder, **options):
    lib = tvmrt.compile(network, **options)
    lib.export_sources(folder)
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("target", ["native", "host", "cortex-m4"])
@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_compiles_without_a_warning(network, tmp_path, compiler, target, executor):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    params = "flash" if target == "cortex-m4" else "embed"
    lib = tvmrt.compile(network, executor=executor, target=target, params=params)
    lib.export_sources(tmp_path / "out")
    flags = lib.target.flags if target == "native" else ()
    for source in sorted((tmp_path / "out").glob("*.c")):
        includes = [f"-I{folder}" for folder in find_include_path()]
        done = subprocess.run(
            [compiler, *STRICT, "-O1", *flags, *includes, str(source)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{source.name}: {done.stderr}"


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_generated_code_is_reproducible(network, tmp_path, executor):
    first = sources_of(network, tmp_path / "a", executor=executor)
    second = sources_of(network, tmp_path / "b", executor=executor)
    assert first == second


def test_carries_the_names_of_layers(network, tmp_path):
    text = b"".join(sources_of(network, tmp_path / "out", executor="aot").values()).decode("latin1")
    for symbol in ("tvmgen_default_stem_conv", "tvmgen_default_head_dense"):
        assert f"int32_t {symbol}(" in text
    assert "block/silu" in text


def test_names_that_end_a_comment_are_escaped(network, tmp_path):
    evil = type(network)()
    evil.CopyFrom(network)
    evil.graph.node[0].name = 'a */ int x; /* "\\'
    evil.graph.name = "*/ #error"
    lib = tvmrt.compile(evil, executor="aot")
    lib.export_library(tmp_path / "net.so")


def test_module_name_is_in_every_symbol(network, tmp_path):
    files = sources_of(network, tmp_path / "out", executor="aot", module_name="kws")
    assert "tvmgen_kws_lib0.c" in files
    assert b"tvmgen_kws___tvm_main__" in files["tvmgen_kws_lib0.c"]


@pytest.mark.parametrize(
    "options, text",
    [
        pytest.param({"executor": "vm"}, 'executor="vm" is not known', id="executor"),
        pytest.param({"target": "z80"}, 'target="z80" is not known', id="target"),
        pytest.param({"params": "tape"}, 'params="tape" is not known', id="params"),
        pytest.param({"interface_api": "c"}, "packed functions only", id="interface"),
        pytest.param({"module_name": "a b"}, "not a C identifier", id="module-name"),
        pytest.param({"module_name": "a" * 101}, "101 characters is too long", id="long-name"),
    ],
)
def test_bad_options_are_refused_by_name(network, options, text):
    with pytest.raises(ValueError, match=text):
        tvmrt.compile(network, **options)


def test_large_broadcast_constant_is_not_expanded():
    graph = Graph("unfold")
    graph.inputs = [Value("x", TensorType((1 << 12,), DTYPES["float32"]))]
    builder = Builder(graph)
    row = builder.const(np.arange(1 << 12, dtype=np.float32))
    wide = builder.emit("expand", [row], shape=(1 << 13, 1 << 12))  # 128 MiB from 16 KiB
    total = builder.emit("reduce_sum", [wide], axes=(0,), keepdims=0)
    graph.outputs = [builder.emit("mul", [total, graph.inputs[0]])]
    graph.output_names = ["y"]
    target = get_target("host")
    program = build_program(graph, target)
    plan_program(program)
    sources = generate(program, target, Options(executor="aot"))
    assert len(sources.weights) == program.arena_bytes == 1 << 14


@pytest.mark.parametrize(
    ("start", "step", "printed"),
    [
        (0, 1, "= i;"),
        (2, 1, "= (int64_t)2 + i;"),
        (0, -3, "= (int64_t)i * -3;"),
        (2, -3, "= (int64_t)2 + (int64_t)i * -3;"),
    ],
)
def test_identity_operands_are_not_computed(start, step, printed):
    graph = Graph("count")
    graph.inputs = [Value("x", TensorType((4,), DTYPES["int64"]))]
    builder = Builder(graph)
    numbers = builder.emit("iota", [], count=4, start=start, step=step)
    graph.outputs = [builder.emit("add", [numbers, graph.inputs[0]])]
    graph.output_names = ["y"]
    program = build_program(graph, get_target("host"))
    plan_program(program)
    sources = generate(program, get_target("host"), Options(executor="aot"))
    assert any(printed in text for text in sources.files.values())


def wide_names():
    """Return layers with long names that differ only in the first words."""
    graph = Graph("names")
    b = Builder(graph)
    graph.inputs.append(Value("x", TensorType((2, 3), DTYPES["float32"])))
    y = graph.inputs[0]
    for block in ("first", "second"):
        name = f"the/{block}/block/of/a/network/with/layers/of/unusual/names/and/more/words/Relu"
        y = b.emit("reduce_sum", [y], f"{name}/Sum", axes=(0,), keepdims=True)
    graph.outputs = [y]
    graph.output_names = ["y"]
    return graph


def table_of_bytes():
    graph = Graph("bytes")
    b = Builder(graph)
    graph.inputs.append(Value("x", TensorType((2, 3), DTYPES["uint8"])))
    table = b.const(np.arange(256, dtype=np.uint8)[::-1].copy())
    graph.outputs = [b.emit("table", [graph.inputs[0], table], "undo", to="uint8")]
    graph.output_names = ["y"]
    return graph


def state_of(program):
    """Return the buffers and lowerings of a program, which planning and printing must keep."""
    buffers = [*program.inputs, *program.outputs]
    for step in program.steps:
        buffers += [access.buffer for access in step.accesses()]
    return [
        *((b.name, b.kind, b.size, b.pool, b.address) for b in buffers),
        *(dict(vars(step.lowering)) for step in program.steps),
    ]


def normalised_by_group():
    graph = Graph("norm")
    b = Builder(graph)
    graph.inputs.append(Value("x", TensorType((1, 8, 3, 5), DTYPES["float32"])))
    ones = b.const(np.ones(8, np.float32))
    attrs = {"groups": 2, "epsilon": 1e-5}
    graph.outputs = [b.emit("group_norm", [graph.inputs[0], ones, ones], "norm", **attrs)]
    graph.output_names = ["y"]
    return graph


def test_board_scratch_is_known_before_printing(monkeypatch):
    def printed(*_):
        raise AssertionError("a program is built without printing it")

    monkeypatch.setattr(FunctionWriter, "__init__", printed)
    steps = build_program(normalised_by_group(), get_target("cortex-m4")).steps
    (norm,) = (step for step in steps if step.group.root.op == "group_norm")
    assert norm.kernel_bytes == norm.scratch_bytes == norm.scratch.nbytes == 3 * 8 * 4
    hosted = build_program(normalised_by_group(), get_target("host")).steps
    assert all(step.scratch is None and step.kernel_bytes == 0 for step in hosted)


@pytest.mark.parametrize("make", [table_of_bytes, wide_names], ids=["table", "floats"])
@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_printing_does_not_change_the_program(make, target):
    machine = get_target(target)
    program = build_program(make(), machine)
    plan_program(program)
    before = state_of(program)
    names = [b.name for b in print_functions(program, machine, Options()).weight_buffers]
    resident = {name: (0, 64 * i) for i, name in enumerate(names)}
    sources = generate(program, machine, Options(executor="aot"), WeightPlacement(resident))
    assert len(sources.resident) == len(names) == (make is table_of_bytes)
    assert state_of(program) == before


def test_moving_inputs_and_outputs_to_pools_copies_the_program():
    program = build_program(wide_names(), get_target("cortex-m4"))
    before = state_of(program)
    moved = with_io_in_pools(program)
    assert state_of(program) == before
    io = [*moved.inputs, *moved.outputs]
    assert [b.name for b in io] == [b.name for b in [*program.inputs, *program.outputs]]
    assert all(b.kind == ARENA for b in io)
    touched = {access.buffer for step in moved.steps for access in step.accesses()}
    assert touched >= set(io)
    assert not touched & {*program.inputs, *program.outputs}


def test_planning_does_not_change_the_requested_pools():
    program = build_program(wide_names(), get_target("cortex-m4"))
    asked = [MemoryPool("fast", 1 << 10, reserved_bytes=32), MemoryPool("slow")]
    before = [dict(vars(pool)) for pool in asked]
    plan_program(program, asked)
    assert [vars(pool) for pool in asked] == before
    assert [pool.name for pool in program.pools] == ["fast", "slow"]
    assert program.pools[0].used_bytes > 32


def test_functions_are_printed_once_where_weights_are_placed(network, monkeypatch):
    printed = []

    def count(symbol, *arguments):
        printed.append(symbol)
        return print_function(symbol, *arguments)

    monkeypatch.setattr(c_source, "print_function", count)
    options = {"target": "cortex-m4", "pools": {"fast": (1 << 22, ".fast")}}
    library = tvmrt.compile(network, place={"*weights*": "fast"}, **options)
    assert library.sources.resident
    assert printed == [function.symbol for function in library.sources.functions]


def test_networks_share_weights_with_earlier_networks():
    first = SharedImage("tvmgen_image")
    target = get_target("cortex-m4")
    program = build_program(table_of_bytes(), target)
    plan_program(program)
    options = [Options(name, "aot", "flash", runtime="crt", image=first) for name in "ab"]
    sources = generate(program, target, options[0])
    second = first.after(sources)
    assert (first.weights, sources.shared) == ({}, {})
    again = generate(program, target, replace(options[1], image=second))
    assert set(again.shared.values()) == set(second.weights.values()) != set()
    assert second.after(again).weights == second.weights


def test_lines_and_symbols_are_short_and_comments_have_whole_names(tmp_path):
    target, options = get_target("cortex-m4"), Options(module_name="default", params="flash")
    program = build_program(wide_names(), target)
    plan_program(program)
    files = generate(program, target, options).files
    text = "\n".join(files.values())
    assert max(map(len, text.split("\n"))) <= 100
    words = set(re.findall(r"tvmgen_default_\w+_Sum\w*", text))
    assert len(words) == 4, words  # two operators with their packed functions
    assert max(map(len, words)) <= 48
    for block in ("first", "second"):
        assert f"reduce_sum: the/{block}/block/of" in text


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("features/block/Conv_12", "block_Conv_12"),
        ("GlobalAveragePool_v2_5", "AveragePool_v2_5"),
        ("globalaveragepooling_v2", "averagepooling_v2"),
        ("Conv_12", "Conv_12"),
    ],
)
def test_a_long_name_is_cut_between_words(name, expected):
    assert identifier(name, 18) == expected


@pytest.mark.parametrize(("name", "target"), [("int8", "cortex-m4"), ("f32", "riscv32")])
def test_generated_c_explains_itself(name, target):
    path = ROOT / "examples" / "digits" / f"digits_{name}.onnx"
    files = tvmrt.compile(path, target=target).sources.files
    text = "\n".join(each for file, each in files.items() if not file.endswith("_weights.c"))
    code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\])*"', "", text, flags=re.DOTALL)
    names = set(re.findall(r"\b[A-Za-z_]\w*", code))
    digests = re.compile(r"[a-z0-9]*(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{8}")
    assert not [word for name in names for word in name.split("_") if digests.fullmatch(word)]
    starts = re.findall(r"const (?:struct )?(?:tvmrt_|TVM)\w+ \w+ = \{\s*(\S)", code)
    assert starts and set(starts) == {"."}, "positional initialiser of a struct"
    operators = files["tvmgen_default_lib1.c"]
    steps = re.findall(r"/\*\n((?: \*.*\n)+) \*/\nint32_t tvmgen_", operators)
    assert len(steps) == len(re.findall(r"^int32_t tvmgen_", operators, re.MULTILINE)) > 3
    for step in steps:
        assert re.search(r"^ \* [a-z]\w*[^:]*: .+", step), step  # operator: nodes
        assert re.search(r"\w+\[.*\].*, the result$", step, re.MULTILINE), step
    product = next(step for step in steps if re.search(r"conv 3x3.*: ", step))
    assert ("int8 conv" in product) == (name == "int8") and "kernel: board/" in product
