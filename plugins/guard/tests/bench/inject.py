"""Inject bit flips into guarded networks; print the detection rate, false alarms and costs.

    python plugins/guard/tests/bench/inject.py NET.onnx [NET.onnx ...] [--guard idle]
        [--flips 10000] [--runs 1000] [--seed 1] [--sections host crt cortex-m4 riscv32]
        [--cost cortex-m4] [--json]

Flips are injected into the network's C on this machine: half of them into the weights before a run,
half into the workspace between two operators; all into one of them if the network lacks the other.
Then at most --flips bits of each kind of constants in .rodata and .data are flipped (sections.py):
in the C for a Cortex-M4 on this machine (host) or in QEMU (cortex-m4), in the C for a RISC-V in
QEMU (riscv32), or in the C for hosts (crt).
``--cost`` counts instructions in QEMU with and without the guard (the cycles plug-in). Equal seeds
give equal flips.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import sections

import tvmrt
from tvmrt.libinfo import find_include_path

HERE = Path(__file__).parent
BUILDS = ("plain", "guarded")
HOSTS = {"target": "host", "runtime": "crt", "executor": "aot"}
MACHINES = {
    "host": (sections.HOST, {}),
    "crt": (sections.HOST, HOSTS),
    "cortex-m4": (sections.CORTEX_M4, {}),
    "riscv32": (sections.RISCV32, {}),
}


@dataclass(frozen=True)
class Injection:
    """Counts of flips in ``weights`` or ``tensors``: all, those that change the answer, and of
    these the detected ones; ``silent``: wrong answers or crashes of the guarded network."""

    place: str
    injected: int
    changed: int
    detected: int
    silent: int

    @property
    def rate(self) -> float:
        """Fraction of the changed answers that were detected."""
        return self.detected / self.changed if self.changed else 1.0


@dataclass(frozen=True)
class Result:
    """Result of one network; ``differ``: outputs of runs without flips that the guard changed."""

    injections: list[Injection]
    runs: int
    false_alarms: int
    differ: int


def build(network: Path, folder: Path, guard: str, target: str = "cortex-m4") -> Path:
    """Build the harness with both builds of a network; return the program."""
    libraries = {}
    for name in BUILDS:
        more = {"guard": guard} if name == "guarded" else {}
        libraries[name] = tvmrt.compile(
            str(network), target=target, interface_api="c", module_name=name, **more
        )
        libraries[name].export_sources(folder)
    (folder / "networks.h").write_text(_networks_h(libraries, guard))
    program = folder / "harness"
    flags = [f"-I{path}" for path in (folder, *find_include_path())]
    sources = [HERE / "harness.c", *sorted(folder.glob("tvmgen_*.c"))]
    command = ["cc", "-O2", "-w", *flags, *map(str, sources), "-lm", "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"the harness of {network} cannot be built: {done.stderr[-2000:]}")
    return program


def run(program: Path, seed: int, flips: int, runs: int) -> Result:
    """Run the harness."""
    command = [str(program), str(seed), str(flips), str(runs)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *rows, last = [line.split() for line in done.stdout.splitlines()]
    return Result([Injection(row[0], *map(int, row[1:])) for row in rows], *map(int, last[1:]))


def _networks_h(libraries: dict, guard: str) -> str:
    """Return the parts of the harness that depend on the network."""
    program, sources = libraries["plain"].program, libraries["plain"].sources
    symbols = {
        name: [library.sources.symbol_of(b) for b in library.sources.weight_buffers]
        for name, library in libraries.items()
    }
    sizes = [b.nbytes for b in sources.weight_buffers]
    inputs = [t.nbytes for t in program.input_types]
    outputs = [t.nbytes for t in program.output_types]
    extern = [f"extern unsigned char {s}[];" for each in symbols.values() for s in each]
    rows = [
        f"    {{{size}, {{{plain}, {guarded}}}}},"
        for size, plain, guarded in zip(sizes, symbols["plain"], symbols["guarded"])
    ]
    workspaces = [f"tvmgen_{name}_workspace" for name in BUILDS if program.arena_bytes]
    lines = [
        *(f'#include "tvmgen_{name}.h"' for name in BUILDS),
        f"enum {{ STEPS = {len(program.steps)}, WEIGHTS = {len(sizes)}, STEP_MORE = 1,",
        f"       WEIGHT_BYTES = {sum(sizes)}, WORKSPACE_BYTES = {program.arena_bytes},",
        f"       OUTPUT_BYTES = {sum(outputs)} }};",
        *extern,
        *(f"extern unsigned char {workspace}[];" for workspace in workspaces),
        f"static unsigned char *const workspaces[2] = {{{', '.join(workspaces) or 'NULL'}}};",
        "static const struct {",
        "  uint32_t size;",
        "  unsigned char *data[2];",
        "} weights[] = {",
        *(rows or ["    {0, {NULL, NULL}},"]),
        "};",
        "static uint32_t draw(uint32_t end);",
        *(f"static _Alignas(16) unsigned char input{i}[{n}];" for i, n in enumerate(inputs)),
        *_fill(program),
    ]
    for name in BUILDS:
        lines += _calls(name, len(inputs), outputs)
    lines += [
        "static int32_t begin(int build, unsigned char *to) {",
        "  return build == 0 ? begin_plain(to) : begin_guarded(to);",
        "}",
        "static int32_t step(int build) {",
        "  return build == 0 ? tvmgen_plain_step(&plain_state, 1)",
        "                    : tvmgen_guarded_step(&guarded_state, 1);",
        "}",
        *_idle(guard),
    ]
    return "\n".join([*lines, ""])


def _fill(program) -> list[str]:
    """Return the function that draws inputs: floats from 0 to 1, or any bytes."""
    lines = ["static void fill_inputs(void) {"]
    for i, kind in enumerate(program.input_types):
        if str(kind.dtype) == "float32":
            lines.append(
                f"  for (int i = 0; i < {kind.nbytes // 4}; ++i) "
                f"((float *)input{i})[i] = (float)draw(1 << 20) / (1 << 20);"
            )
        else:
            lines.append(
                f"  for (int i = 0; i < {kind.nbytes}; ++i) input{i}[i] = (unsigned char)draw(256);"
            )
    return [*lines, "}"]


def _calls(name: str, inputs: int, outputs: list[int]) -> list[str]:
    """Return the function that begins a run in steps; outputs follow each other in memory."""
    offsets = [sum(outputs[:i]) for i in range(len(outputs))]
    given = ", ".join(f"input{i}" for i in range(inputs))
    taken = ", ".join(f"results_{name} + {offset}" for offset in offsets)
    return [
        f"static struct tvmgen_{name}_step_state {name}_state;",
        f"static int32_t begin_{name}(unsigned char *results_{name}) {{",
        f"  struct tvmgen_{name}_inputs inputs = {{{given}}};",
        f"  struct tvmgen_{name}_outputs outputs = {{{taken}}};",
        f"  return tvmgen_{name}_step_begin(&{name}_state, &inputs, &outputs);",
        "}",
    ]


def _idle(guard: str) -> list[str]:
    """Return the check of all weights between runs, and its reset after a detected flip."""
    if guard != "idle":
        return ["static int32_t idle(void) { return 0; }", "static void reset_idle(void) {}"]
    return [
        "extern uint32_t tvmgen_guarded_guard_next;",
        "static int32_t idle(void) {",
        "  return tvmgen_guarded_guard_idle(TVMGEN_GUARDED_GUARD_BYTES + 32 * WEIGHTS);",
        "}",
        "static void reset_idle(void) { tvmgen_guarded_guard_next = 0; }",
    ]


def cost(network: Path, folder: Path, board: str, guard: str | None) -> dict[str, int]:
    """Return instructions of one run in QEMU, and bytes of RAM of the library."""
    more = ["--guard", guard] if guard else []
    archive = folder / f"cost_{guard}.tar"
    tvmrt_command = [str(Path(sys.executable).with_name("tvmrt"))]
    subprocess.run(
        [*tvmrt_command, "compile", str(network), "-o", str(archive), "--target", board,
         "--interface-api", "c", *more],
        check=True, capture_output=True,
    )  # fmt: skip
    done = subprocess.run(
        [*tvmrt_command, "inspect", str(archive), "--board", board, "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)["networks"].values()
    return {
        "instructions": row["instructions"],
        "RAM": row["ram"]["total_bytes"],
        "flash": row["flash_bytes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", type=Path)
    parser.add_argument("--guard", choices=("run", "idle"), default="run")
    parser.add_argument("--flips", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sections", nargs="*", choices=MACHINES, default=["host"])
    parser.add_argument("--cost", metavar="TARGET")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    for network in given.networks:
        with tempfile.TemporaryDirectory(prefix="tvmrt-guard-") as folder:
            program = build(network, Path(folder), given.guard)
            result = run(program, given.seed, given.flips, given.runs)
            row = {"network": network.name, "guard": given.guard, **asdict(result)}
            row["sections"] = {
                name: flip_sections(network, Path(folder) / name, given.guard, name, given)
                for name in given.sections
            }
            if given.cost:
                row["cost"] = [
                    cost(network, Path(folder), given.cost, each) for each in (None, given.guard)
                ]
        print(json.dumps(row) if given.json else _text(row, result))


def flip_sections(
    network: Path, folder: Path, guard: str, machine: str, given: argparse.Namespace
) -> dict[str, dict[str, int]]:
    """Return the counts of flips in the sections of a network's objects, by kind and result."""
    folder.mkdir()
    on, options = MACHINES[machine]
    built = sections.build(str(network), folder, guard, on, **options)
    flips = sections.draw(built, given.flips, given.seed)
    counts = sections.table(flips, sections.run(built, flips))
    return {kind: dict(count) for kind, count in counts.items()}


def _text(row: dict, result: Result) -> str:
    lines = [f"{row['network']}, guard={row['guard']}"]
    for each in result.injections:
        if not each.injected:
            lines.append(f"  {each.place}: no flips")
            continue
        lines.append(
            f"  {each.place}: {each.injected} flips, {each.changed} change the answer, "
            f"{each.detected} of these detected ({each.rate:.2%}), {each.silent} wrong answers"
        )
    lines.append(f"  {result.runs} runs without flips: {result.false_alarms} false alarms")
    for machine, counts in row["sections"].items():
        lines += [f"  flips in sections, {machine}:", sections.table_text(counts)]
    if "cost" in row:
        before, after = row["cost"]
        for what in before:
            more = after[what] / before[what] - 1
            lines.append(f"  {what}: {before[what]:,} -> {after[what]:,} ({more:+.2%})")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
