"""Test the estimates of ``tvmrt inspect --board`` for boards that are not connected."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import boards
import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler.codegen.mcu_families import MCU_FAMILIES
from tvmrt.compiler.codegen.target import FIRMWARE
from tvmrt.error import CompileError
from tvmrt.plugins.cycles import board_estimate, core_timing, disassembly, mcu_parts
from tvmrt.plugins.cycles.estimate import block_cycles


def needs(target):
    tool = boards.BOARDS[target].missing_tool()
    return pytest.mark.skipif(tool is not None, reason=f"{tool} is not installed")


def estimate(capsys, *arguments):
    """Return the JSON of ``tvmrt inspect`` after checking its schema."""
    jsonschema = pytest.importorskip("jsonschema")
    capsys.readouterr()
    assert main(["inspect", *map(str, arguments), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["schema", "inspect-board"]) == 0
    jsonschema.validate(found, json.loads(capsys.readouterr().out))
    return found


def only(found):
    (network,) = found["networks"].values()
    return network


@pytest.fixture(scope="module")
def digits():
    """Return the folder of the digits networks."""
    return Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture(scope="module")
def inputs(digits):
    with np.load(digits / "digits_int8.npz") as data:
        return {name: data[name][:1] for name in data.files if not name.startswith("out:")}


@pytest.fixture(scope="module")
def digits_net(digits):
    def of(target):
        model = digits / "digits_int8.onnx"
        return tvmrt.compile(str(model), target=target, interface_api="c", unpacked_api=True)

    return of


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [pytest.param(t, marks=needs(t)) for t in ("cortex-m4", "riscv32")],
)
def test_instructions_equal_qemu(capsys, digits_net, tmp_path, target):
    library = digits_net(target)
    rng = np.random.default_rng(3)
    arrays = {t.name: rng.standard_normal(t.shape).astype(t.dtype) for t in library.summary.inputs}
    outcome = boards.run_network(boards.BOARDS[target], library, arrays, tmp_path / "b", True)
    np.savez(tmp_path / "in.npz", **arrays)
    found = estimate(
        capsys, tmp_path / "b/net.tar", "--board", target, "--inputs", tmp_path / "in.npz"
    )
    network = only(found)
    assert network["instructions"] == pytest.approx(outcome.instructions, rel=0.005)
    rows = network["layers"]
    assert [row["name"] for row in rows[:-1]] == [o.name for o in library.summary.operators]
    assert sum(row["instructions"] for row in rows) == network["instructions"]
    assert sum(row["cycles"] for row in rows) == network["cycles"] > network["instructions"]
    # no instruction of these cores multiplies more than two pairs
    for row, operator in zip(rows, library.summary.operators):
        assert row["instructions"] > operator.macs / 2
    ram = network["ram"]
    assert ram["arena_bytes"] == library.summary.arena_bytes
    assert ram["stack_bytes"] >= outcome.stack_bytes - 64
    assert ram["total_bytes"] == sum(n for name, n in ram.items() if name != "total_bytes")
    # the same library in an image of another program
    tool = boards.BOARDS[target].tool
    text = subprocess.run(
        [f"{tool}-nm", "-S", tmp_path / "b/image.elf"], check=True, capture_output=True, text=True
    ).stdout
    weights = re.findall(r"^\w+ (\w+) [rR] tvmgen_default_w_", text, re.MULTILINE)
    assert sum(int(n, 16) for n in weights) <= network["weights_bytes"] < network["flash_bytes"]


@pytest.mark.slow
@needs("cortex-m4")
def test_options_change_the_report(capsys, digits_net, tmp_path):
    digits_net("cortex-m4").export(str(tmp_path / "net.tar"))
    without = estimate(capsys, tmp_path / "net.tar", "--board", "nrf52", "--wait-states", 0)
    assert without["clock_hz"] == 64e6
    base = only(without)
    assert base["wait_cycles"] == 0
    assert base["seconds"] == pytest.approx(base["cycles"] / 64e6)
    assert base["joules"] == pytest.approx(
        base["cycles"] * mcu_parts.PARTS["nrf52"].picojoules * 1e-12
    )
    slow = ["--wait-states", 7, "--clock", 32, "--picojoules", 100, "--scale", 2]
    other = only(estimate(capsys, tmp_path / "net.tar", "--board", "nrf52", *slow))
    waits = other["wait_cycles"]
    assert waits > 0
    assert waits % 14 == 0
    assert other["instructions"] == base["instructions"]
    assert other["cycles"] == pytest.approx(2 * base["cycles"] + waits, abs=20)
    assert other["seconds"] == pytest.approx(other["cycles"] / 32e6)
    assert other["joules"] == pytest.approx(other["cycles"] * 100e-12)


@needs("cortex-m4")
def test_a_network_is_compiled_for_the_board(capsys, digits):
    assert main(["inspect", str(digits / "digits_int8.onnx"), "--board", "stm32h7"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^core +cortex-m7, derived, not published$", printed, re.MULTILINE)
    assert re.search(r"^clock, flash +ST RM0433, from memory$", printed, re.MULTILINE)
    assert re.search(r"^energy +unknown; set .* --picojoules", printed, re.MULTILINE)
    assert re.search(r"^RAM in all +[\d.,]+ (KiB|B): arena .*, stack ", printed, re.MULTILINE)
    assert re.search(r"^conv2 +[\d,]+ +[\d,]+ +[\d,]+ +[\d.]+ % +[\d.]+$", printed, re.MULTILINE)


@pytest.mark.slow
@needs("cortex-m4")
@pytest.mark.parametrize("lent", [False, True])
def test_weights_and_kernels_in_ram_wait_less(capsys, digits, tmp_path, lent):
    """The image's own pool and the program's pool get the weights before the run."""
    pool = 100_000 if lent else (100_000, ".bss.ram")
    library = tvmrt.compile(
        str(digits / "digits_int8.onnx"), target="cortex-m4f", interface_api="c",
        pools={"sram": pool}, place={"*_weights": "sram"},
    )  # fmt: skip
    library.export(str(tmp_path / "ram.tar"))
    board = ("--board", "stm32f3")
    flash = only(estimate(capsys, digits / "digits_int8.onnx", *board))
    kernels = only(estimate(capsys, digits / "digits_int8.onnx", *board, "--kernels-in-ram"))
    weights = only(estimate(capsys, tmp_path / "ram.tar", *board))
    both = only(estimate(capsys, tmp_path / "ram.tar", *board, "--kernels-in-ram"))
    assert both["wait_cycles"] < weights["wait_cycles"] < flash["wait_cycles"]
    assert both["wait_cycles"] < kernels["wait_cycles"] < flash["wait_cycles"]
    assert kernels["ram"]["static_bytes"] > flash["ram"]["static_bytes"]
    # the pool counts once, as the arena
    assert weights["ram"]["arena_bytes"] > flash["ram"]["arena_bytes"]
    assert weights["ram"]["static_bytes"] < flash["ram"]["static_bytes"] + 16
    # veneers of calls between memories
    assert kernels["instructions"] == pytest.approx(flash["instructions"], rel=0.02)


@pytest.mark.slow
@needs("cortex-m4")
def test_the_memory_of_an_image_is_no_variable(capsys, digits, tmp_path):
    """The workspace that two networks share counts as the arena of each, and not again."""
    files = [str(digits / f"digits_{kind}.onnx") for kind in ("int8", "f32")]
    archive = str(tmp_path / "both.tar")
    options = ("--target", "cortex-m4", "--interface-api", "c", "--module-name", "small,large")
    assert main(["compile", *files, "-o", archive, *options]) == 0
    found = estimate(capsys, archive, "--board", "stm32f4")
    for network in found["networks"].values():
        assert network["ram"]["static_bytes"] < 64 < network["ram"]["arena_bytes"]


def is_xtensa(target):
    """Return True if the target has no instruction timing."""
    return target.startswith("xtensa")


TIMED = {name for name, family in MCU_FAMILIES.items() if not is_xtensa(family.target)}


def test_every_family_names_the_manual_of_its_row():
    assert [name for name in TIMED if not mcu_parts.part_of(name).manual] == []


@pytest.mark.parametrize(
    ("joules", "text"), [(None, "unknown"), (2.5e-6, "2.5 uJ"), (0.0125, "12.5 mJ")]
)
def test_energy_has_a_unit_of_its_size(joules, text):
    assert board_estimate._energy(joules).startswith(text)


def refused(capsys, *arguments):
    capsys.readouterr()
    assert main(["inspect", *map(str, arguments)]) != 0
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@needs("cortex-m4")
def test_timing_compares_instructions_of_several_inputs(capsys, digits, digits_net, tmp_path):
    library = digits_net("cortex-m4")
    library.export(str(tmp_path / "net.tar"))
    found = only(estimate(capsys, tmp_path / "net.tar", "--board", "cortex-m4", "--timing"))
    timing = found["timing"]
    assert timing["same_instructions"] and not timing["layers"] and timing["inputs"] == 9
    assert timing["memcheck"] is None or timing["memcheck"]["branches"] == []
    assert found["cycles"] <= timing["worst_cycles"] < 1.2 * found["cycles"]
    # QEMU's own counts of a firmware with inputs that were not compared
    (info,) = library.summary.inputs
    ramp = np.linspace(-127, 127, int(np.prod(info.shape))).reshape(info.shape)
    counts = set()
    for i, values in enumerate((ramp, -ramp, ramp * 0 + 5)):
        arrays = {info.name: values.astype(info.dtype)}
        outcome = boards.run_network(
            boards.BOARDS["cortex-m4"], library, arrays, tmp_path / f"b{i}", True
        )
        counts.add(outcome.instructions)
    assert max(counts) - min(counts) <= 1  # a tick of the emulated timer
    # the cycles of this core depend on earlier instructions
    m55 = only(estimate(capsys, digits / "digits_int8.onnx", "--board", "cortex-m55", "--timing"))
    assert m55["timing"]["same_instructions"] and m55["timing"]["worst_cycles"] is None
    assert "earlier instructions" in m55["timing"]["reason"]


@pytest.mark.slow
@needs("cortex-m4")
def test_timing_names_layers_that_depend_on_the_input(capsys, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[64] x, bool[1] again) => (float[64] y) {
        half = Relu(x)
        zero = Constant<value = int64 {0}>()
        z = Gather<axis = 0>(again, zero)
        y = If(z)<
            then_branch = a () => (float[64] t) { t = Sqrt(half) },
            else_branch = b () => (float[64] t) { t = Identity(half) }>
    }"""
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    found = only(estimate(capsys, tmp_path / "net.onnx", "--board", "cortex-m4", "--timing"))
    timing = found["timing"]
    assert not timing["same_instructions"] and timing["worst_cycles"] is None
    assert all(row["fewest"] < row["most"] for row in timing["layers"]) and timing["layers"]
    loop = r"operator (\w+): function tvmgen_default_\1 has a loop whose count"
    assert re.match(loop, timing["reason"])
    assert main(["inspect", str(tmp_path / "net.onnx"), "--board", "cortex-m4", "--timing"]) == 0
    text = capsys.readouterr().out
    assert f"{timing['layers'][0]['name']} (" in text and "no bound" in text


@pytest.mark.slow
@needs("cortex-m4")
def test_dynamic_sizes_are_estimated_at_their_maximum(capsys, tmp_path):
    text = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[n, 4] x) => (float[n, 4] y, int64[2, k] z) { y = Relu(x)  z = NonZero(y) }"""
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    sentence = refused(capsys, tmp_path / "net.onnx", "--board", "nrf52")
    assert "=1..N', then inspect the archive" in sentence
    found = {}
    for most in (4, 32):
        archive = tmp_path / f"{most}.tar"
        tvmrt.compile(
            str(tmp_path / "net.onnx"), board="nrf52", interface_api="c", dims={"n": (1, most)}
        ).export(str(archive))
        found[most] = only(estimate(capsys, archive, "--board", "nrf52"))["instructions"]
    assert found[32] > 4 * found[4]


def test_impossible_estimates_have_a_one_line_error(
    capsys, digits, digits_net, tmp_path, monkeypatch
):
    model, archive = digits / "digits_int8.onnx", tmp_path / "net.tar"
    digits_net("cortex-m4").export(str(archive))
    assert "did you mean nrf" in refused(capsys, model, "--board", "nrf25")
    for option in (
        ("--clock", 100),
        ("--kernels-in-ram",),
        ("--timing",),
    ):
        assert "are for --board" in refused(capsys, model, *option)
    text = refused(capsys, archive, "--board", "corstone300")
    assert "is for cortex-m4, and corstone300 has a cortex-m55" in text
    (tmp_path / "x.params").write_bytes(b"0")
    assert "takes an archive" in refused(capsys, tmp_path / "x.params", "--board", "nrf52")
    with tarfile.open(tmp_path / "other.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO())
    assert "is not an archive" in refused(capsys, tmp_path / "other.tar", "--board", "nrf52")
    np.savez(tmp_path / "bad.npz", missing=np.zeros(3))
    given = ("--board", "nrf52", "--inputs", tmp_path / "bad.npz")
    assert "has no input missing" in refused(capsys, archive, *given)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CompileError, match="gcc is not installed; inspect --board"):
        from tvmrt.plugins.cycles import qemu_run

        qemu_run.board_tools("cortex-m4")


def test_every_target_and_family_has_a_row():
    others = [name for name in FIRMWARE if is_xtensa(name) or name.startswith("cortex-r")]
    assert all(core_timing.core_of(name) for name in FIRMWARE if name not in others)
    assert mcu_parts.PARTS.keys() == TIMED
    with pytest.raises(ValueError, match="z80 has no published table of cycles"):
        core_timing.core_of("z80")


def test_board_with_an_unknown_core_is_refused_by_name(capsys, digits):
    for board, target in (("esp8266", "xtensa-lx106"), ("esp32", "xtensa-lx6")):
        said = refused(capsys, digits / "digits_int8.onnx", "--board", board)
        assert f"{target} has no published table of cycles" in said
        assert f"'tvmrt compile --target {target}' reports RAM, flash and stack" in said


def cycles(core, riscv, *lines):
    """Return the cycles of a block, given as objdump prints it."""
    text = "".join(f"   {4 * i:x}:\t{line}\n" for i, line in enumerate(lines))
    read = disassembly.read("00000000 <f>:\n" + text, riscv)
    return block_cycles(read.block(0, len(lines)), core_timing.CORES[core])


@pytest.mark.parametrize(
    ("core", "lines", "wanted"),
    [
        # manuals: a load takes 2 cycles, 1 after another load on M3 and M4
        ("cortex-m4", ["ldr\tr0, [r1, #0]", "ldr.w\tr2, [r1, #4]"], 3),
        ("cortex-m0plus", ["ldr\tr0, [r1, #0]", "ldr\tr2, [r1, #4]"], 4),
        ("cortex-m4", ["smlad\tr1, r3, r9, r1", "mla\tr0, r1, r2, r3", "smull\tr0, r1, r2, r3"], 4),
        ("cortex-m3", ["mla\tr0, r1, r2, r3"], 2),
        ("cortex-m4", ["push\t{r4, r5, r6, lr}", "pop\t{r4, r5, r6, pc}"], 5 + 7),
        ("cortex-m4", ["ldmia.w\tr9!, {r3-r6}", "bl\t10 <g>"], 5 + 3),
        ("cortex-m4", ["vfma.f32\ts0, s1, s2", "vadd.f32\ts0, s1, s2", "vdiv.f32\ts0, s1, s2"], 18),
        ("cortex-m33", ["mov\tr3, r0", "\t\t@ <UNDEFINED> instruction: 0xea539393", "nop"], 3),
        ("cortex-m4", ["bne.n\t0 <f>", "bic\tr0, r1", "blt.n\t0 <f>"], 3),
        ("cortex-m0plus", ["muls\tr0, r1", "bl\t0 <f>", "pop\t{r4, pc}"], 1 + 3 + 5),
        # the M7 issues independent adjacent instructions together
        ("cortex-m7", ["adds\tr0, r1, r2", "adds\tr3, r4, r5"], 1),
        ("cortex-m7", ["adds\tr0, r1, r2", "adds\tr3, r0, r5"], 2),
        ("cortex-m7", ["ldr\tr0, [r1]", "ldr\tr2, [r3]"], 2),
        # beats of vectors for two units overlap
        ("cortex-m55", ["vldrb.s8\tq0, [r0]", "vmlava.s8\tr2, q0, q1"], 3),
        ("cortex-m55", ["vadd.i32\tq0, q1, q2", "vadd.i32\tq3, q4, q5"], 4),
    ],
)
def test_cycles_of_arm_code(core, lines, wanted):
    assert cycles(core, False, *lines) == wanted


def test_cycles_of_riscv_code():
    lines = [
        "lw\ta0,0(a1)",
        "mul\ta0,a0,a2",
        "div\ta0,a0,a2",
        "jal\tra,10 <g>",
        "ret",
        "sw\ta0,0(a1)",
    ]
    assert cycles("riscv32", True, *lines) == 2 + 1 + 18 + 2 + 2 + 1


def test_vector_cycles_count_registers_of_a_group():
    lines = [
        "vsetvli\ta0,a1,e16,m4,ta,ma",
        "vle8.v\tv0,(a0)",  # two registers
        "vsext.vf2\tv4,v0",
        "vwmacc.vx\tv8,a0,v4",  # eight
        "vsetvli\tzero,zero,e32,m1,ta,ma",
        "vse32.v\tv8,(a0)",
        "vsse32.v\tv8,(a0),a1",
        "vsub.vv\tv8,v8,v9",
    ]
    assert cycles("rv32imac_zve32x", True, *lines) == 1 + 4 + 8 + 16 + 1 + 2 + 8 + 2
