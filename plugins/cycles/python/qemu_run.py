"""Run a firmware network once in QEMU and count the executions of each basic block."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tvmrt.cli.archive import ArchiveNetwork
from tvmrt.compiler.sdk.codegen import Target, get_target, pool_symbol
from tvmrt.compiler.sdk.export import CFLAGS, Board, boards, object_commands
from tvmrt.compiler.sdk.program import MemoryPool
from tvmrt.error import CompileError
from tvmrt.libinfo import find_boards_path
from tvmrt.plugins.cycles import disassembly
from tvmrt.plugins.cycles.mcu_parts import Mcu

KERNEL_SECTION = ".RamFunc"  # which examples/firmware/boards/sections.ld places in RAM
SECONDS = 600  # time limit of one run in QEMU
# QEMU board for targets without a board; its core supports all instructions of the target.
_FALLBACK_BOARDS = {
    "cortex-m3": "cortex-m0plus", "cortex-m4f": "cortex-m4", "cortex-m4-nofp": "cortex-m4",
    "cortex-m23": "cortex-m55", "cortex-m33": "cortex-m55", "cortex-m85": "cortex-m55",
    "rv32imac": "riscv32", "rv32imafc": "riscv32",
}  # fmt: skip
_SYMBOL = re.compile(r"^([0-9a-f]{8}) .{7} (\S+)\t([0-9a-f]{8}) (?:\.hidden )?(\S+)$", re.MULTILINE)
_SECTION = re.compile(r"^\s*\d+ (\.\w+)\s+([0-9a-f]{8})", re.MULTILINE)
_VERSION = re.compile(r"version (\d+)")
_MARKERS = ("count_begin", "count_end", "count_fail")
_HARNESS_SYMBOLS = re.compile(
    r"(count_\w+|main|start|start_c|fault|trap|semihost|vectors|stage|board_exit|board_write|"
    r"__aeabi_read_tp|(in|out|pool|given)\d+|tvmrt_platform_cycles|tensors\.\d+)$"
)


def is_harness(name: str) -> bool:
    """Return whether a function belongs to the program that calls the network."""
    return _HARNESS_SYMBOLS.match(name) is not None


class RejectedInputsError(ValueError):
    """The network returned an error code for the inputs."""


@dataclass(frozen=True)
class Input:
    """Input tensor stored in the program's image."""

    name: str
    data: bytes


@dataclass
class CallCounts:
    """Work of one call of the network's main function; ``site`` is the return address."""

    site: int
    code_next: int
    code_jump: int
    data: int
    blocks: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Image:
    """Linked image. ``flash_bytes`` and ``static_bytes`` (variables besides the network's
    workspace) count only the network and the code it calls, without the surrounding program;
    ``ram`` is the address range of RAM."""

    path: Path
    flash_bytes: int
    static_bytes: int
    ram: tuple[int, int]


@dataclass
class CountedRun:
    """Calls in order; the first is the main function's own code."""

    calls: list[CallCounts]
    code: disassembly.Disassembly
    image: Image


def run(
    network: ArchiveNetwork,
    target: Target,
    part: Mcu,
    inputs: Sequence[Input],
    folder: Path,
    kernels_in_ram: bool = False,
) -> CountedRun:
    """Build the program, run it once in QEMU and read the counts.

    ``kernels_in_ram``: place the kernels' functions in the section ``KERNEL_SECTION``.

    Raises
    ------
    CompileError
        If a tool is missing or fails, or the network is too large for the QEMU board.
    ValueError
        If the network fails, or cannot be called by a generic program.
    """
    return next(counted_runs(network, target, part, [inputs], folder, kernels_in_ram))


def counted_runs(
    network: ArchiveNetwork,
    target: Target,
    part: Mcu,
    input_sets: Iterable[Sequence[Input]],
    folder: Path,
    kernels_in_ram: bool = False,
) -> Iterator[CountedRun]:
    """Yield ``run()`` for each set of inputs. The network is compiled once.

    Sets after the first one that the network rejects are left out.
    """
    board = board_tools(target.name)
    # lines of the C text; with variables, instructions for RISC-V would differ
    options = ["-gdwarf-4", "-fno-var-tracking"]
    options += [f'-DTVMRT_KERNEL_SECTION="{KERNEL_SECTION}"'] if kernels_in_ram else []
    usual = _compiler_command(network, board, options)
    objects = object_commands([*usual, *target.flags], network.sources, folder)
    for command in objects.values():
        _run_compiler(command, network, board)
    for i, inputs in enumerate(input_sets):
        path = _link(network, target, board, usual, [*map(str, objects)], inputs, folder)
        try:
            yield _count(network, board, path, inputs, part, folder)
        except RejectedInputsError:
            if i == 0:
                raise


def _count(
    network: ArchiveNetwork,
    board: Board,
    path: Path,
    inputs: Sequence[Input],
    part: Mcu,
    folder: Path,
) -> CountedRun:
    dumper = f"{board.tool}-objdump"
    image = _read_image_sizes(path, run_command([dumper, "-ht", str(path)]), network, inputs)
    text = run_command([dumper, "-d", "--no-show-raw-insn", str(path)])
    read = disassembly.read(text, riscv="riscv" in board.tool)
    counts = _execute(network, board, image, read, part, folder)
    return CountedRun(_merge_register_saves(_parse_counts(counts.read_text()), read), read, image)


def board_tools(target: str) -> Board:
    """Return the QEMU board that runs a target's code; CompileError if a tool is missing."""
    base = get_target(target).base
    board = boards()[_FALLBACK_BOARDS.get(base, base)]
    for tool in (f"{board.tool}-gcc", board.emulator[0], "cc"):
        if shutil.which(tool) is None:
            raise CompileError(
                f"{tool} is not installed; inspect --board builds the network with "
                f"{board.tool}-gcc and counts instructions in {board.emulator[0]} with a "
                "plug-in that cc builds"
            )
    return board


def _read_image_sizes(
    path: Path, text: str, network: ArchiveNetwork, inputs: Sequence[Input]
) -> Image:
    """Read an image's sizes from the output of ``objdump -ht``."""
    sections = {name: int(size, 16) for name, size in _SECTION.findall(text)}
    flash = sum(sections.get(name, 0) for name in (".weights", ".text", ".data"))
    flash -= sum(len(each.data) for each in inputs)
    addresses: dict[str, int] = {}
    static = 0
    # of the network, or of an image of several, whose names end in a hash
    names = [pool_symbol(MemoryPool(pool["name"]), "") for pool in network.memory["pools"]]
    pools = re.compile(rf".*({'|'.join(map(re.escape, names))})(_[0-9a-f]{{8}})?$")
    for address, section, size, name in _SYMBOL.findall(text):
        addresses[name] = int(address, 16)
        is_harness = _HARNESS_SYMBOLS.match(name) is not None
        if section in (".text", ".data") and is_harness:
            flash -= int(size, 16)
        if (
            section in (".data", ".bss", ".noinit", ".tbss")
            and not is_harness
            and not (names and pools.match(name))
        ):
            static += int(size, 16)
    return Image(path, flash, static, (addresses["data_begin"], addresses["stack_top"]))


def _compiler_command(network: ArchiveNetwork, board: Board, options: Sequence[str]) -> list[str]:
    compiler = f"{board.tool}-gcc"
    found = run_command([compiler, "-print-file-name=picolibc.specs"]).strip()
    specs = ["--specs=picolibc.specs"] if "/" in found else []
    includes = [*network.includes, Path(find_boards_path()).parent]
    return [compiler, *specs, "-std=gnu11", *CFLAGS, *options, *(f"-I{path}" for path in includes)]


def target_macros(network: ArchiveNetwork, target: Target) -> set[str]:
    """Return the macros that the compiler of a target defines."""
    usual = _compiler_command(network, board_tools(target.name), ())
    text = run_command([*usual, *target.flags, "-dM", "-E", "-x", "c", "/dev/null"])
    return set(re.findall(r"^#define (\w+)", text, re.MULTILINE))


def library_functions(
    names: Iterable[str], network: ArchiveNetwork, target: Target, folder: Path
) -> list[str]:
    """Return the functions that neither the network's objects define nor the program that calls
    it, sorted. ``folder``: that of ``counted_runs``."""
    objects = map(str, object_commands((), network.sources, folder))
    text = run_command([f"{board_tools(target.name).tool}-nm", *objects])
    own = set(re.findall(r" [tTwW] (\S+)$", text, re.MULTILINE))
    return sorted(name for name in {*names} - own if not _HARNESS_SYMBOLS.match(name))


def _link(
    network: ArchiveNetwork,
    target: Target,
    board: Board,
    usual: Sequence[str],
    objects: Sequence[str],
    inputs: Sequence[Input],
    folder: Path,
) -> Path:
    """Link the network with a program that calls it for these inputs; return the image."""
    boards_folder = Path(find_boards_path())
    main = folder / "count_network.c"
    main.write_text(program_text(network, inputs, folder), encoding="utf-8")
    link_flags = board.flags if board.target == target.name else target.flags
    clock = [flag for flag in board.flags if flag.startswith("-D")]
    image = folder / "count.elf"
    sources = [*objects, main, boards_folder / "count.c", boards_folder / board.start]
    _run_compiler(
        [
            *usual, *link_flags, *clock, "-nostartfiles", f"-L{boards_folder}",
            "-T", f"{board.target}.ld",
            "-Wl,--gc-sections", *map(str, sources), "-lm", "-o", str(image),
        ],
        network, board,
    )  # fmt: skip
    return image


def _run_compiler(command: Sequence[str], network: ArchiveNetwork, board: Board) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    details = [line for line in done.stderr.splitlines() if "overflowed" in line or "RAM:" in line]
    details = details or [line for line in done.stderr.splitlines() if "error" in line]
    reason = "; ".join(details[:3]).strip() or done.stderr.strip()[-500:]
    raise CompileError(f"the image of {network.name} for {board.target} fails: {reason}")


def program_text(network: ArchiveNetwork, inputs: Sequence[Input], folder: Path) -> str:
    """Return C code that fills the inputs and calls the network once, through its interface."""
    interface, prefix = network.interface, network.prefix
    if interface["device_hooks"]:
        raise ValueError(
            f"{network.name} calls code of devices; compile the network without --device"
        )
    is_packed = interface["api"] == "packed"
    if is_packed and (interface["dims"] or interface["counts"]):
        raise ValueError(f"{network.name} has dynamic sizes; compile it with --interface-api c")
    lines = [f'#include "{prefix.lower()}.h"', "#include <stddef.h>", "#include <string.h>", ""]
    if interface["cycle_counter"]:
        lines += ["uint32_t tvmrt_platform_cycles(void);",
                  "uint32_t tvmrt_platform_cycles(void) { return 0; }"]  # fmt: skip
    for i, each in enumerate(inputs):
        lines += _stored(f"given{i}", each.data, folder)
    pools = {f"pool{i}": pool["used_bytes"] for i, pool in enumerate(network.lent_pools)}
    ins = {} if interface["workspace_io"] else {f"in{i}": len(x.data) for i, x in enumerate(inputs)}
    rows = network.main["outputs"].values()
    outs = {} if interface["workspace_io"] else {f"out{i}": x["size"] for i, x in enumerate(rows)}
    for name, size in (*ins.items(), *outs.items(), *pools.items()):
        lines.append(f"static _Alignas(16) unsigned char {name}[{max(size, 1)}];")
    structs = {"workspace_pools": [*pools]} if pools and not is_packed else {}
    fills = _structs(prefix, structs)
    arguments = ", ".join(f"&{name}" for name in structs)
    if network.weights is not None:
        lines += _stored("weights0", network.weights, folder)
        fills.append(f"  {prefix}_set_weights(weights0, {len(network.weights)});")
    if network.loads_weights:
        fills.append(f"  {prefix}_load({arguments});")
    if interface["workspace_io"]:
        fills.append(f"  struct {prefix.lower()}_inputs inputs = {prefix}_map_inputs({arguments});")
    for i, each in enumerate(inputs):
        place = f"((void **)&inputs)[{i}]" if interface["workspace_io"] else f"in{i}"
        fills.append(f"  memcpy({place}, given{i}, {len(each.data)});")
    if is_packed:
        body = _packed_call(prefix, [*ins, *outs, *pools])
    else:
        tensors = {"inputs": [*ins], "outputs": [*outs]} if not interface["workspace_io"] else {}
        sizes = {"dims": interface["dims"], "counts": [0] * len(interface["counts"])}
        structs = {**tensors, **structs, **{name: row for name, row in sizes.items() if row}}
        passed = ", ".join(f"&{name}" for name in structs)
        body = [*_structs(prefix, structs), f"  return {prefix}_run({passed});"]
    return "\n".join([
        *lines, "void count_inputs(void);", "void count_inputs(void) {", *fills, "}",
        "int count_run(void);", "int count_run(void) {", *body, "}", "",
    ])  # fmt: skip


def _stored(symbol: str, data: bytes, folder: Path) -> list[str]:
    """Return C lines that define a constant array of bytes."""
    path = folder / f"{symbol}.bin"
    path.write_bytes(data)
    return [
        f'__asm(".section .rodata.tvm.{symbol},\\"a\\"\\n.balign 16\\n.global {symbol}\\n{symbol}:'
        f'\\n.incbin \\"{path}\\"\\n.text\\n");',
        f"extern const char {symbol}[];",
    ]


def _structs(prefix: str, structs: Mapping[str, Sequence[object]]) -> list[str]:
    """Return C lines that define structs; their members are numbers, or names of arrays."""
    return [
        f"  struct {prefix.lower()}_{name} {name} = {{"
        f"{', '.join(f'(void *){n}' if isinstance(n, str) else str(n) for n in members)}}};"
        for name, members in structs.items()
    ]


def _packed_call(prefix: str, names: Sequence[str]) -> list[str]:
    return [
        f"  static DLTensor tensors[{len(names)}];",
        f"  TVMValue args[{len(names)}], value;",
        f"  int codes[{len(names)}], code = 0;",
        *(f"  tensors[{i}].data = {name};" for i, name in enumerate(names)),
        f"  for (int i = 0; i < {len(names)}; ++i) {{",
        "    args[i].v_handle = &tensors[i];",
        "    codes[i] = kTVMDLTensorHandle;",
        "  }",
        f"  return {prefix}_run(args, codes, {len(names)}, &value, &code, NULL);",
    ]


def main_functions(network: ArchiveNetwork) -> list[str]:
    """Return the C functions that call the operators."""
    return [f"{network.prefix}{name}" for name in ("_run", "___main__", "___tvm_main__")]


def _execute(
    network: ArchiveNetwork,
    board: Board,
    image: Image,
    read: disassembly.Disassembly,
    part: Mcu,
    folder: Path,
) -> Path:
    plugin, out = folder / "count_blocks.so", folder / "counts.txt"
    release = _VERSION.search(run_command([board.emulator[0], "--version"]))
    api = 1 if release is None or int(release[1]) < 9 else 2
    source = Path(find_boards_path(), "count_blocks.c")
    run_command(["cc", "-O2", "-shared", "-fPIC", f"-DAPI={api}", str(source), "-o", str(plugin)])
    marks = [f"{mark.removeprefix('count_')}={read.span(mark)[0]:x}" for mark in _MARKERS]
    settings = ["ram={:x}-{:x}".format(*image.ram), f"line={part.line:x}"]
    settings += [f"code={part.code_cache:x}", f"data={part.data_cache:x}", f"out={out}"]
    for name in main_functions(network):
        if name in read.functions.values():
            settings.append("main={:x}-{:x}".format(*read.span(name)))
    command = [
        *board.emulator, "-display", "none", "-monitor", "none", "-serial", "none",
        "-plugin", ",".join([str(plugin), *marks, *settings]), "-kernel", str(image.path),
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"{network.name} runs longer than {SECONDS} s in {board.emulator[0]}"
        ) from None
    if done.returncode == 3:
        raise RejectedInputsError(
            f"{network.name} fails in {board.emulator[0]} for these inputs; set --inputs"
        )
    if done.returncode != 0 or not out.is_file():
        reason = done.stderr.strip()[-300:] or f"exit code {done.returncode}"
        raise CompileError(f"{board.emulator[0]} cannot count instructions: {reason}")
    return out


def _parse_counts(text: str) -> list[CallCounts]:
    calls: list[CallCounts] = []
    for line in text.splitlines():
        kind, *fields = line.split()
        if kind == "call":
            calls.append(CallCounts(int(fields[0], 16), *map(int, fields[1:])))
        else:
            call, address, *counts = fields
            calls[int(call)].blocks.append((int(address, 16), *map(int, counts)))
    return calls


def _merge_register_saves(
    calls: list[CallCounts], read: disassembly.Disassembly
) -> list[CallCounts]:
    """Merge calls in which main saves its registers (``-msave-restore``) into main's own counts;
    return the other calls."""
    main, kept = calls[0], calls[:1]
    for call in calls[1:]:
        if read.calls.get(call.site, "").startswith("__riscv_save"):
            main.code_next += call.code_next
            main.code_jump += call.code_jump
            main.data += call.data
            main.blocks += call.blocks
        else:
            kept.append(call)
    return kept


def run_command(command: Sequence[str]) -> str:
    """Return the standard output of a command; CompileError if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        raise CompileError(f"{command[0]} cannot be run: {problem}") from problem
    if done.returncode != 0:
        raise CompileError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def checked_inputs(
    network: ArchiveNetwork, given: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]
) -> list[Input]:
    """Return the bytes of a network's inputs: ``given`` by name, otherwise from ``others``.

    Raises ValueError for an input of a wrong type or size, or an unknown name.
    """
    result = []
    expected = network.main["inputs"]
    for name in given.keys() - expected.keys():
        raise ValueError(
            f"{network.name} has no input {name}; its inputs are {', '.join(expected)}"
        )
    for name, row in expected.items():
        array = np.ascontiguousarray(given[name] if name in given else others[name])
        if str(array.dtype) != row["dtype"] or array.nbytes != row["size"]:
            raise ValueError(
                f"input {name} is {array.dtype} of {array.nbytes} bytes; {network.name} takes "
                f"{row['dtype']} of {row['size']}"
            )
        result.append(Input(name, array.tobytes()))
    return result
