"""Test the bound of the cycles of code whose branches depend on the input."""

from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from pathlib import Path

import boards
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvmrt.cli import main
from tvmrt.plugins.cycles import core_timing, disassembly, longest_path, loop_limits, worst_case
from tvmrt.plugins.cycles.call_graph import Program
from tvmrt.plugins.cycles.control_flow import Constants, UnknownFlowError

EXAMPLES = Path(__file__).parents[3] / "examples"
TAKEN = 10  # cycles of a taken branch, in the tests of single functions

# f squares r1 values, negative ones after a change of sign, and calls g.
CODE = """
00000000 <f>:
   0:\tmovs\tr2, #0
   2:\tldr\tr3, [r0, r2]
   4:\tcmp\tr3, #0
   6:\tbge.n\ta <f+0xa>
   8:\tnegs\tr3, r3
   a:\tmuls\tr3, r3
   c:\tstr\tr3, [r0, r2]
   e:\tadds\tr2, #4
  10:\tcmp\tr2, r1
  12:\tbne.n\t2 <f+0x2>
  14:\tbl\t20 <g>
  18:\tbx\tlr

00000020 <g>:
  20:\tcmp\tr0, #3
  22:\tbne.n\t2a <g+0xa>
  24:\tmuls\tr0, r0
  26:\tmuls\tr0, r0
  28:\tmuls\tr0, r0
  2a:\tbx\tlr
"""


def program(text, same, executed, taken, limits=None, words=None, riscv=False):
    """Return a program whose instructions take one cycle each."""
    counts = Counter(executed)
    return Program(
        disassembly.read(text, riscv),
        len,
        TAKEN,
        Constants(words or {}),
        counts,
        counts,
        taken,
        {at: counts[at] - taken.get(at, 0) for at in counts},
        lambda at, loops: at in same,
        lambda name, graph, blocks: (limits or {}).get(name),
        lambda block, name: 0,
        lambda name: False,
    )


def walk(code, decisions, rounds):
    """Return the cycles of f for the outcomes of the branches on inputs; its loop runs often."""
    decisions, cycles, at, back, left = iter(decisions), 0, 0, [], rounds
    while True:
        instruction = code.block(at, 1)[0]
        cycles += 1
        following = code.instructions[code.indices[at] + 1].address if at != 0x2A else None
        if instruction.kind == "call":
            back.append(following)
            at = instruction.target
        elif instruction.kind == "branch":
            if at == 0x12:
                left -= 1
                is_taken = left > 0
            else:
                is_taken = next(decisions)
            cycles += TAKEN * is_taken
            at = instruction.target if is_taken else following
        elif instruction.kind == "jump":
            if not back:
                return cycles
            at = back.pop()
        else:
            at = following


def test_bound_is_the_longest_of_all_paths():
    """The loop runs five times for each input, and all outcomes of the other branches are tried."""
    executed = dict.fromkeys(range(2, 0x14, 2), 5)
    executed.update({0: 1, 0x14: 1, 0x18: 1, 0x20: 1, 0x22: 1, 0x2A: 1})
    given = program(CODE, {0x12}, executed, {6: 3, 0x12: 4, 0x22: 1})
    every = (walk(given.code, each, 5) for each in itertools.product((False, True), repeat=6))
    found = longest_path.bound(given, "f")
    assert found.cycles == max(every)
    assert found.functions == ("f", "g")


def test_loop_that_depends_on_the_input_is_refused_by_name():
    executed = dict.fromkeys([*range(0, 0x16, 2), 0x18, *range(0x20, 0x2C, 2)], 1)
    with pytest.raises(UnknownFlowError, match=r"^f has a loop whose count depends on"):
        longest_path.bound(program(CODE, set(), executed, {}), "f")
    # a known algorithm has at most four iterations of ten instructions each
    found = longest_path.bound(program(CODE, set(), executed, {}, {"f": 4}), "f")
    assert found.cycles == 1 + 4 * (9 - 1 + TAKEN + TAKEN) + 2 + (3 + TAKEN)


def test_callee_counts_at_each_call_in_code_that_depends_on_the_input():
    text = """
00000000 <f>:
   0:\tcmp\tr0, #0
   2:\tbeq.n\t8 <f+0x8>
   4:\tbl\t20 <g>
   8:\tbx\tlr

00000020 <g>:
  20:\tmuls\tr0, r0
  22:\tbxeq\tlr
  24:\tmuls\tr0, r0
  26:\tbx\tlr
"""
    # no run went through the call
    executed = {0: 1, 2: 1, 8: 1}
    found = longest_path.bound(program(text, {2}, executed, {2: 1}), "f")
    assert found.cycles == 2 + TAKEN + 1
    found = longest_path.bound(program(text, set(), executed, {2: 1}), "f")
    assert found.cycles == 2 + 1 + max(2 + TAKEN, 4) + 1


@pytest.mark.slow
def test_jump_through_a_table_has_the_targets_of_its_words():
    text = """
00000000 <f>:
   0:\tldr\tr3, [r2, r3]
   2:\tmov\tpc, r3
   4:\tbx\tlr
   6:\tmuls\tr0, r0
   8:\tmuls\tr0, r0
   a:\tbx\tlr
"""
    executed = {0: 1, 2: 1, 4: 1}
    found = longest_path.bound(program(text, set(), executed, {}, words={64: 4, 68: 7}), "f")
    assert found.cycles == 2 + 3
    with pytest.raises(UnknownFlowError, match=r"^f jumps through a pointer$"):
        longest_path.bound(program(text, set(), executed, {}), "f")


@pytest.mark.slow
def test_jump_through_a_table_of_distances():
    text = """
00000000 <f>:
   0:\tauipc\ta4,0x1
   4:\tadd\ta4,a4,252 # 100 <table>
   8:\tlw\ta5,0(a5)
   c:\tadd\ta5,a5,a4
  10:\tjr\ta5
  14:\tret
  18:\tmul\ta0,a0,a0
  1c:\tret
"""
    executed = dict.fromkeys(range(0, 0x18, 4), 1)
    table = {0x100: 0x14 - 0x100 + 2**32, 0x104: 0x18 - 0x100 + 2**32, 0x108: 0x1C}
    found = longest_path.bound(program(text, set(), executed, {}, None, table, riscv=True), "f")
    assert found.cycles == 5 + 2
    with pytest.raises(UnknownFlowError, match=r"^f jumps through a pointer$"):
        longest_path.bound(program(text, set(), executed, {}, riscv=True), "f")


@pytest.mark.slow
def test_veneer_goes_to_the_function_that_it_names():
    text = """
00000000 <f>:
   0:\tbl\t20 <____aeabi_idiv_veneer>
   4:\tbx\tlr

00000020 <____aeabi_idiv_veneer>:
  20:\tldr\tr0, [pc, #4]
  22:\tmov\tip, r0
  24:\tbx\tip
  26:\tnop

00000040 <__divsi3>:
  40:\tmuls\tr0, r0
  42:\tbx\tlr
"""
    executed = dict.fromkeys((0, 4, 0x20, 0x22, 0x24, 0x40, 0x42), 1)
    found = longest_path.bound(program(text, set(), executed, {}, None, {0x28: 0x41}), "f")
    assert found.cycles == 2 + 3 + 2


def test_loops_of_library_functions_handle_several_digits_in_an_iteration():
    text = """
00000000 <__divsi3>:
   0:\tlsls\tr3, r1, #1
   2:\tadcs\tr2, r2
   4:\tadcs\tr2, r2
   6:\tbcs.n\t0 <__divsi3>
   8:\tbx\tlr
"""
    given = program(text, set(), {0: 1, 2: 1, 4: 1, 6: 1, 8: 1}, {})
    limited = longest_path.bound(
        Program(**{**vars(given), "most_rounds": loop_limits.most_rounds}), "__divsi3"
    )
    assert limited.cycles == 32 / 2 * (4 + TAKEN) + 1


def needs(target):
    tool = boards.BOARDS[target.replace("-m3", "-m0plus")].missing_tool()  # runs M3 code
    return pytest.mark.skipif(tool is not None, reason=f"{tool} is not installed")


def extreme_inputs(infos, rng):
    """Yield inputs unlike those that --timing compares: ramps, saturating and special values."""
    for kind in ("ramp", "sparse", "small", "special", *["random"] * 6):
        made = {}
        for name, row in infos.items():
            dtype = np.dtype(row["dtype"])
            n = row["size"] // dtype.itemsize
            if dtype.kind == "f":
                special = np.resize([np.nan, np.inf, -np.inf, 1e-40, -1e-45, 3e38, 0.5, -0.0], n)
                values = {
                    "ramp": np.linspace(-3, 3, n), "sparse": np.eye(1, n, n // 2)[0] * 1e9,
                    "small": rng.standard_normal(n) * 1e-39, "special": special,
                    "random": rng.standard_normal(n) * 10.0 ** rng.integers(-4, 4),
                }[kind]  # fmt: skip
            else:
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
                values = {
                    "ramp": np.linspace(low, high, n), "sparse": np.eye(1, n, n // 2)[0] * high,
                    "small": rng.integers(0, 2, n), "special": rng.choice([low, high], n),
                    "random": rng.integers(low, high, n),
                }[kind]  # fmt: skip
            with np.errstate(over="ignore"):
                made[name] = np.asarray(values).astype(dtype)
        yield made


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize(
    ("target", "floats"),  # the bound relative to the largest count of a network with soft floats
    [
        pytest.param(target, floats, marks=needs(target))
        for target, floats in (("cortex-m0plus", 1.5), ("cortex-m3", 1.7), ("riscv32", 3.2))
    ],
)
@pytest.mark.parametrize("path", ["digits/digits_int8.onnx", "keras/digits_int8.tflite"])
def test_no_input_exceeds_the_bound(capsys, tmp_path, target, floats, path):
    from tvmrt.plugins.cycles import board_estimate, qemu_run
    from tvmrt.plugins.cycles.estimate import estimate_layers

    assert main(["inspect", str(EXAMPLES / path), "--board", target, "--timing", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["networks"].values()
    if (report["timing"]["unchecked"] or "").find("-m32") >= 0:
        pytest.skip("gcc has no 32-bit libraries")
    bound = report["timing"]["worst_cycles"]
    assert bound is not None, report["timing"]["reason"]
    options = board_estimate.BoardOptions(target, None, None, None, 1.0, None)
    machine, part = board_estimate._board(options)
    archive = board_estimate._compile_network(EXAMPLES / path, options, tmp_path)
    (network,) = board_estimate._networks(archive, machine, options, tmp_path / "net")
    core = worst_case.worst_core(core_timing.core_of(machine.name))
    infos = network.main["inputs"]
    sets = (
        qemu_run.checked_inputs(network, made, {})
        for made in extreme_inputs(infos, np.random.default_rng(5))
    )
    runs = qemu_run.counted_runs(network, machine, part, sets, tmp_path)
    cycles = [sum(row.cycles for row in estimate_layers(network, run, core, part)) for run in runs]
    assert len(cycles) == 10
    most = floats if path.endswith(".onnx") else 1.2
    assert max(cycles) <= bound <= most * max(cycles)


def single_node(path, kind, inputs, result, **attributes):
    """Write a network of one node; ``inputs`` and ``result``: element types and shapes."""
    names = [f"x{i}" for i in range(len(inputs))]
    infos = [helper.make_tensor_value_info(n, *each) for n, each in zip(names, inputs)]
    node = helper.make_node(kind, names, ["y"], "node", **attributes)
    output = helper.make_tensor_value_info("y", *result)
    graph = helper.make_graph([node], "g", infos, [output])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


def timing_of(path, board, capsys, *more):
    assert main(["inspect", str(path), "--board", board, "--timing", "--json", *more]) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"].values()
    if (network["timing"]["unchecked"] or "").find("-m32") >= 0:
        pytest.skip("gcc has no 32-bit libraries")
    return network


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize(
    ("target", "kind", "dtype", "longest"),
    [
        pytest.param(target, kind, dtype, longest, marks=needs(target))
        for target, kind, dtype, longest in (
            # a quotient of 63 digits, and one by 0
            ("cortex-m0plus", "Div", "int64", ([2**63 - 1] * 2, [1, 0])),
            # digits of a quotient after the normalisation of two subnormal numbers
            ("cortex-m3", "Div", "double", ([5e-324, 1.0], [1.5e-323, 3.0])),
            ("cortex-m0plus", "Sqrt", "float", ([1e-45, 3.0],)),
        )
    ],
)
def test_divisions_and_roots_of_the_compilers_library_have_a_bound(
    tmp_path, capsys, target, kind, dtype, longest
):
    path, inputs = tmp_path / "net.onnx", tmp_path / "in.npz"
    element = getattr(TensorProto, dtype.upper())
    single_node(path, kind, [(element, [2])] * len(longest), (element, [2]))
    numpy_type = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    np.savez(inputs, **{f"x{i}": np.array(x, numpy_type) for i, x in enumerate(longest)})
    network = timing_of(path, target, capsys, "--inputs", str(inputs))
    assert network["timing"]["reason"] is None
    assert network["cycles"] <= network["timing"]["worst_cycles"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("target", [pytest.param("riscv32", marks=needs("riscv32"))])
def test_loop_without_a_limit_is_reported_with_its_operator(tmp_path, capsys, target):
    path = tmp_path / "net.onnx"
    single_node(path, "ArgMax", [(TensorProto.FLOAT, [1, 10])], (TensorProto.INT64, [1, 1]), axis=1)
    timing = timing_of(path, target, capsys)["timing"]
    assert timing["worst_cycles"] is None
    assert timing["memcheck"]["branches"], "a network without memory of its own is checked too"
    reason = timing["reason"]
    assert reason.startswith("operator node: function ") and "\n" not in reason
    assert "has no known limit" in reason and "--inputs" in reason
