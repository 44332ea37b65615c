"""Branches and addresses that depend on the inputs of a network, found by valgrind's memcheck.

The archive's C code is built for this machine and runs under memcheck. Before each operator, its
possible operands are marked as undefined: the network's inputs and all memory for intermediate
values. memcheck reports each conditional jump on an undefined value and each access at an undefined
address. Without reports, every input takes the same path through this build of the code. A value
that is loaded at an undefined address counts as defined until the operator ends.

Compilers turn a branch into a conditional move and back, so the build resembles that for the board:
options as for the board, no conditional moves if its processor has no conditional instructions, and
integer code instead of the floating-point unit that it lacks. Code for the board that this machine
lacks, in assembly or with vector instructions, is replaced by the kernels' C code.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tvmrt.cli.archive import ArchiveNetwork
from tvmrt.compiler.sdk.codegen import Target, pool_symbol
from tvmrt.compiler.sdk.export import CFLAGS, object_commands
from tvmrt.compiler.sdk.program import MemoryPool
from tvmrt.error import CompileError
from tvmrt.plugins.cycles import qemu_run, x86_branches
from tvmrt.plugins.cycles.estimate import MAIN

COMPILER = "gcc"
SECONDS = 600  # time limit of the run
# The compiler calls a function at the entry of each function of the network's own files.
_HOOKS = ("-finstrument-functions", "-finstrument-functions-exclude-file-list=include/tvm/runtime/")
# objdump names wrong files for headers in DWARF 5. A loop that becomes a formula or a copy would
# have no branch on its line.
_DEBUG = (
    "-fno-tree-scev-cprop",
    "-fno-tree-loop-distribute-patterns",
    "-gdwarf-4",
    "-fno-optimize-sibling-calls",
    "-fno-pie",
)
# kernels without the vectors that each x86-64 has
_WITHOUT_VECTORS = ("-U__SSE2__",)
# x86 without conditional moves and vectors
_WITHOUT_MOVES = ("-m32", "-march=i486")
_ERROR = re.compile(r"error:|undefined reference|cannot find")
_HEADER = "#include <valgrind/memcheck.h>"


@dataclass(frozen=True)
class Place:
    """Line of C whose branch or address depends on the inputs; ``layer``: the operator."""

    layer: str
    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.layer} ({self.function}, {self.file}:{self.line})"


@dataclass(frozen=True)
class Found:
    """Reports of a run. ``build``: the compiler with the options that shape branches; ``steady``:
    lines of that build whose branches do not depend on inputs."""

    build: str
    branches: tuple[Place, ...]
    addresses: tuple[Place, ...]
    steady: x86_branches.SteadyLines

    def as_dict(self) -> dict[str, Any]:
        return {
            "build": self.build,
            "branches": [vars(place) for place in self.branches],
            "addresses": [vars(place) for place in self.addresses],
        }


def check(
    network: ArchiveNetwork,
    target: Target,
    inputs: Sequence[qemu_run.Input],
    folder: Path,
) -> Found:
    """Run a network under memcheck, whose inputs have the given values and count as undefined.

    Raises
    ------
    CompileError
        If a tool is missing, or the code cannot be built for or run on this machine.
    ValueError
        If the network fails, or cannot be called by a generic program.
    """
    for tool in ("valgrind", COMPILER, "nm", "objcopy", "objdump"):
        if shutil.which(tool) is None:
            raise CompileError(f"{tool} is not installed")
    if network.loads_weights:
        raise CompileError("the network keeps weights in the memory of its intermediate values")
    place = folder / "memcheck"
    place.mkdir()
    macros = qemu_run.target_macros(network, target)
    shape = _shape_flags(macros)
    program = _build(network, macros, inputs, place)
    reports = place / "reports.xml"
    _run(network, program, reports)
    layers = {**_layers(network), **dict.fromkeys(qemu_run.main_functions(network), MAIN)}
    branches = _places(reports, "UninitCondition", layers)
    addresses = _places(reports, "UninitValue", layers)
    release = _output([COMPILER, "-dumpfullversion"]).strip()
    build = f"{COMPILER} {release} {' '.join([CFLAGS[0], *shape])}"
    return Found(build, branches, addresses, _steady_lines(network, program, reports, place))


def _steady_lines(
    network: ArchiveNetwork, program: Path, reports: Path, folder: Path
) -> x86_branches.SteadyLines:
    objects = object_commands((), network.sources, folder)
    text = _output(["nm", *map(str, objects)])
    functions = {*re.findall(r" [tTwW] (\S+)$", text, re.MULTILINE)}
    frames = (
        ElementTree.parse(reports)
        .getroot()
        .iterfind("error[kind='UninitCondition']/stack[1]/frame[1]/ip")
    )
    return x86_branches.steady_lines(
        _output(["objdump", "-dl", "--no-show-raw-insn", str(program)]),
        functions,
        [int(frame.text or "0", 16) for frame in frames],
    )


def _layers(network: ArchiveNetwork) -> dict[str, str]:
    """Return the names of the operators by their functions."""
    rows = network.memory["functions"].get("operator_functions", [])
    names = [row["function_name"] for row in rows]
    return {name: name.removeprefix(f"{network.prefix}_") for name in names}


def _shape_flags(macros: Collection[str]) -> list[str]:
    """Return options that make the code for this machine resemble that for a processor.

    ``macros``: those that the compiler for the processor defines.
    """
    has_floats = "__ARM_FP" in macros or "__riscv_flen" in macros
    has_selects = "__thumb2__" in macros or "__riscv_zbb" in macros
    flags = [*(_WITHOUT_VECTORS if has_selects else _WITHOUT_MOVES)]
    flags.append(f"-DTVMRT_MICRO_HAS_FPU={int(has_floats)}")
    return flags if has_floats else [*flags, "-DTVMRT_ORDER_BY_BITS"]


def _build(
    network: ArchiveNetwork,
    macros: Collection[str],
    inputs: Sequence[qemu_run.Input],
    folder: Path,
) -> Path:
    shape = _shape_flags(macros)
    includes = [f"-I{path}" for path in network.includes]
    usual = [COMPILER, "-std=gnu11", "-w", *_DEBUG, *CFLAGS, *shape, *includes]
    objects = object_commands([*usual, *_HOOKS], network.sources, folder)
    for source, command in zip(network.sources, objects.values()):
        _compile(command + _soft_floats(source, macros))
    main, program = folder / "memcheck_network.c", folder / "memcheck_network"
    symbols = {path: _global_symbols(path) for path in objects}
    operators = set(_layers(network))
    linked = [part for path in objects for part in _split(path, sorted(symbols[path] & operators))]
    text = _program_text(network, inputs, folder, set().union(*symbols.values()))
    main.write_text(text, encoding="utf-8")
    # static: otherwise memcheck needs debug information of the dynamic linker
    _compile(
        [*usual, "-static", "-Wl,--gc-sections", str(main), *map(str, linked), "-lm",
         "-o", str(program)]
    )  # fmt: skip
    return program


def _global_symbols(path: Path) -> set[str]:
    return set(re.findall(r" [A-TV-Z] (\w+)$", _output(["nm", str(path)]), re.MULTILINE))


def _split(path: Path, operators: Sequence[str]) -> Iterator[Path]:
    """Yield a copy of an object for each of its operators, or the object if it has only one.

    memcheck reports once what has the same four innermost calls. In a copy, the addresses of the
    kernels belong to one operator.
    """
    if len(operators) < 2:
        yield path
        return
    for i, name in enumerate(operators):
        copy = path.with_suffix(f".{i}.o")
        _output(["objcopy", f"--keep-global-symbol={name}", str(path), str(copy)])
        yield copy


def _soft_floats(source: Path, macros: Collection[str]) -> list[str]:
    """Return the option for the kernels' own floating point, which RISC-V boards without a unit use
    in networks with few floats."""
    if "__riscv" not in macros or "__riscv_flen" in macros:
        return []
    few = "define TVMRT_FEW_FLOATS" in source.read_text(encoding="utf-8")
    return ["-DTVMRT_SOFT_FLOAT=1"] if few else []


def _compile(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    errors = [line for line in done.stderr.splitlines() if _ERROR.search(line)]
    more = "; -m32 needs libraries of 32 bits, Debian's libc6-dev-i386" if "-m32" in command else ""
    reason = (errors or [done.stderr.strip()[-200:]])[0]
    raise CompileError(f"the C code cannot be built for this machine: {reason}{more}")


def _program_text(
    network: ArchiveNetwork,
    inputs: Sequence[qemu_run.Input],
    folder: Path,
    symbols: Collection[str],
) -> str:
    """Return a program that calls the network once. ``symbols``: functions and variables."""
    pools = {f"pool{i}": pool["used_bytes"] for i, pool in enumerate(network.lent_pools)}
    for pool in network.memory["pools"]:
        if pool["is_external"]:
            continue
        if not pool["used_bytes"]:
            continue  # no memory is defined for it
        ending = re.escape(pool_symbol(MemoryPool(pool["name"]), ""))
        owner = re.compile(rf"{re.escape(network.prefix)}.*{ending}(_[0-9a-f]{{8}})?$")
        names = [name for name in symbols if owner.match(name)]
        if len(names) != 1:
            raise CompileError(f"the memory of pool {pool['name']} has no known name")
        pools[names[0]] = pool["used_bytes"]
    operators = sorted(_layers(network).keys() & {*symbols})
    own = [name for name in pools if name in symbols]
    marks = [f"  VALGRIND_MAKE_MEM_UNDEFINED({name}, {size});" for name, size in pools.items()]
    marks += [f"  VALGRIND_MAKE_MEM_UNDEFINED(in{i}, {len(each.data)});"
              for i, each in enumerate(inputs)
              if not network.interface["workspace_io"]]  # fmt: skip
    hook = "__cyg_profile_func_"
    return "\n".join([
        qemu_run.program_text(network, inputs, folder), _HEADER,
        *(f"extern unsigned char {name}[];" for name in own),
        *(f"void {name}(void);" for name in operators),
        "static void (*const operators[])(void) = {", *(f"  {name}," for name in operators),
        "  0};", "static void mark(void) {", *marks, "}",
        f"void {hook}exit(void* f, void* from);",
        f"void {hook}exit(void* f, void* from) {{ (void)f, (void)from; }}",
        f"void {hook}enter(void* f, void* from);",
        f"void {hook}enter(void* f, void* from) {{",
        "  (void)from;",
        "  for (int i = 0; operators[i] != 0; i++) {",
        "    if ((void*)operators[i] == f) mark();",
        "  }", "}",
        "int main(void) {", "  count_inputs();", "  mark();", "  return count_run();", "}", "",
    ])  # fmt: skip


def _run(network: ArchiveNetwork, program: Path, reports: Path) -> None:
    command = ["valgrind", "-q", "--error-limit=no", "--num-callers=40", "--read-inline-info=yes",
               "--xml=yes", f"--xml-file={reports}", str(program)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise CompileError(f"{network.name} runs longer than {SECONDS} s in valgrind") from None
    if not reports.is_file():
        raise CompileError(f"valgrind failed: {done.stderr.decode(errors='replace')[-200:]}")
    if done.returncode != 0:
        raise CompileError(f"{network.name} ends with code {done.returncode} in valgrind")


def _places(reports: Path, kind: str, layers: Mapping[str, str]) -> tuple[Place, ...]:
    """Return the places of the reports of a kind in order, each once.

    ``layers``: names of the operators by their functions. Reports about code that the network does
    not call are left out.
    """
    try:
        root = ElementTree.parse(reports).getroot()
    except ElementTree.ParseError as problem:
        raise CompileError(f"valgrind was interrupted: {problem}") from None
    found = (
        _place(error, layers) for error in root.iter("error") if error.findtext("kind") == kind
    )
    return tuple(dict.fromkeys(place for place in found if place is not None))


def _place(error: ElementTree.Element, layers: Mapping[str, str]) -> Place | None:
    frames = list(error.iterfind("stack[1]/frame"))
    owners = _owners(frames, layers)
    layer = next(owners, None)
    if layer is None:
        return None
    inner = frames[0]
    return Place(
        layer,
        inner.findtext("fn") or "?",
        inner.findtext("file") or "?",
        int(inner.findtext("line") or 0),
    )


def _owners(frames: Iterable[ElementTree.Element], layers: Mapping[str, str]) -> Iterator[str]:
    for frame in frames:
        name = frame.findtext("fn") or ""
        if name in layers:
            yield layers[name]


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CompileError(f"{command[0]} failed: {done.stderr.strip()[-200:]}")
    return done.stdout
