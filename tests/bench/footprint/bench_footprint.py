"""Measure the firmware libraries: bytes by part and target, and instructions on a Cortex-M4.

A part is a small program of this folder. "own" are the bytes that come from the libraries' object
files after the linker has dropped what is not called, read-only data in text; "image" the
difference to an empty program with the same start-up code and C library; "needs" the functions of
a C library that are called. Flags: -Os, no FPU, function sections, picolibc. Instructions are
counted by QEMU (-icount), where the same programs run.

``--check`` compares with limits.json and exits 1 where a number has grown, ``--update`` writes that
file.

    python tests/bench/footprint/bench_footprint.py [--target cortex-m4 ...] [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python" / "support"))
import boards  # noqa: E402

LIMITS = HERE / "limits.json"
CLOCK_ERROR = 3  # instructions: the board's clock ticks less often than it executes
LIBRARIES = {"backend": ROOT / "src_backend", "firmware": ROOT / "src_runtime" / "firmware"}
SOFT = {
    "cortex-m0plus": ("-mcpu=cortex-m0plus", "-mthumb"),
    "cortex-m4": ("-mcpu=cortex-m4", "-mthumb"),
    "cortex-m7": ("-mcpu=cortex-m7", "-mthumb"),
    "cortex-m55": ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=soft"),
    "riscv32": ("-march=rv32imc", "-mabi=ilp32"),
}
COUNTED = "cortex-m4"
PARTS = {
    "workspace": "workspace calls and a stack allocator",
    "lent": "workspace calls in caller-provided memory",
    "registry": "globals, modules, packed calls",
    "graph": "graph executor, JSON, params",
    "graph_module": "graph executor as a module",
    "aot_executor": "executor of networks compiled ahead",
}
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wpedantic")
FLAGS = ("-Os", "-std=c99", "-ffunction-sections", "-fdata-sections")
# A contribution of an object of our libraries to the image, as the linker's map states it.
PIECE = re.compile(
    r"^ \.(\w+)[^\s]*\s+0x[0-9a-f]+\s+0x([0-9a-f]+)\s+\S*libtvm_(?:backend|firmware)\.a\(",
    re.MULTILINE,
)


def board_of(target: str) -> boards.Board:
    """Return the board of a target, without floating point registers."""
    return replace(boards.BOARDS[target], flags=SOFT[target], slow_flash=None)


def build_libraries(board: boards.Board, folder: Path) -> list[Path]:
    """Compile both libraries freestanding and without warnings; return firmware, then backend."""
    archives = []
    for name, sources in LIBRARIES.items():
        objects = []
        for source in sorted(sources.rglob("*.c")):
            objects.append(folder / f"{name}_{source.stem}.o")
            command = [board.compiler, *board.flags, *FLAGS, *WARNINGS, "-ffreestanding"]
            paths = [f"-I{ROOT}/include", "-c", str(source), "-o", str(objects[-1])]
            subprocess.run([*command, *paths], check=True)
        archives.insert(0, folder / f"libtvm_{name}.a")
        command = [f"{board.tool}-ar", "rcs", str(archives[0]), *map(str, objects)]
        subprocess.run(command, check=True)
    return archives


def sources_of(part: str) -> list[Path]:
    return [HERE / f"{part}.c"] + ([HERE / "image.c"] if part in WITH_IMAGE else [])


WITH_IMAGE = ("registry", "graph", "graph_module", "aot_executor")
EXIT = "void _exit(int code);\nvoid _exit(int code) { (void)code; for (;;) {} }\n"


def image_sizes(board: boards.Board, image: Path) -> tuple[int, int, int]:
    command = [f"{board.tool}-size", str(image)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    code, data, bss = map(int, text.splitlines()[1].split()[:3])
    return code, data, bss


def own_sizes(map_text: str) -> dict[str, int]:
    """Return the bytes from our libraries by kind; weak functions that a program replaces are
    excluded."""
    sizes = {"text": 0, "data": 0, "bss": 0}
    kept = map_text.split("Linker script and memory map", 1)[1]
    # long section names have their own line
    kinds = {"rodata": "text", "srodata": "text", "sbss": "bss", "sdata": "data"}
    for section, size in PIECE.findall(re.sub(r"\n\s{10,}0x", "  0x", kept)):
        kind = kinds.get(section, section)
        if kind in sizes:
            sizes[kind] += int(size, 16)
    return sizes


def undefined(board: boards.Board, part: str, archives: list[Path], folder: Path) -> list[str]:
    """Return the symbols that a part calls and neither the part nor the compiler defines."""
    done = subprocess.run(
        [board.compiler, *board.flags, *FLAGS, "-ffreestanding", "-nostdlib", "-Wl,--gc-sections",
         "-Wl,-e,main", "-Wl,--warn-unresolved-symbols", f"-I{ROOT}/include",
         *map(str, sources_of(part)), *map(str, archives), "-lgcc", "-o", str(folder / "bare.elf")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return sorted(set(re.findall(r"undefined reference to `(\w+)'", done.stderr)))


def measure_part(board: boards.Board, part: str, archives: list[Path], folder: Path) -> dict:
    """Return own bytes and image bytes of a part, and the C library's functions in it."""
    (folder / "exit.c").write_text(EXIT)
    (folder / "empty.c").write_text("int main(void) { return 0; }\n")
    start = ("minimal", "dummyhost")
    map_file = folder / f"{part}.map"
    options = [f"-Wl,-Map={map_file}", "-std=c99"]
    includes = [ROOT / "include", HERE]
    exit_c = folder / "exit.c"
    image = boards.link_image(
        board, [*sources_of(part), exit_c], archives, folder / f"{part}.elf", includes, options,
        start,
    )  # fmt: skip
    empty = boards.link_image(board, [folder / "empty.c", exit_c], [], folder / "empty.elf",
                              start=start)  # fmt: skip
    sizes = own_sizes(map_file.read_text())
    sizes["image"] = image_sizes(board, image)[0] - image_sizes(board, empty)[0]
    return {**sizes, "needs": undefined(board, part, archives, folder)}


def measure_network(board: boards.Board, archives: list[Path], folder: Path) -> dict:
    """Measure an ahead-of-time network with the C interface."""
    import tvmrt

    model = ROOT / "examples" / "digits" / "digits_f32.onnx"
    library = tvmrt.compile(
        model, target=COUNTED, interface_api="c", unpacked_api=True, module_name="net"
    )
    library.export(folder / "net")
    (folder / "aot.c").write_text(
        "#include <tvmgen_net.h>\nint main(void) {\n  struct tvmgen_net_inputs in = {0};\n"
        "  struct tvmgen_net_outputs out = {0};\n  return tvmgen_net_run(&in, &out);\n}\n"
    )
    (folder / "exit.c").write_text(EXIT)
    sources = [folder / "aot.c", folder / "exit.c", *sorted((folder / "net").glob("*.c"))]
    map_file = folder / "aot.map"
    boards.link_image(
        board, sources, archives, folder / "aot.elf", [ROOT / "include", folder / "net"],
        [f"-Wl,-Map={map_file}"], ("minimal", "dummyhost"),
    )  # fmt: skip
    return own_sizes(map_file.read_text())


def count(board: boards.Board, archives: list[Path], folder: Path) -> dict[str, int]:
    """Return the counts that the programs report when they run."""
    (folder / "count.h").write_text(boards.count_text(board))
    rows: dict[str, int] = {}
    for part in PARTS:
        image = boards.link_image(
            board, sources_of(part), archives, folder / f"{part}_run.elf",
            [ROOT / "include", HERE, folder], ["-DCOUNTED", "-std=c99"],
        )  # fmt: skip
        text = boards.run_image(board, image, folder, counted=True)
        rows.update((what, int(n)) for what, n in re.findall(r"^(.*): (\d+)$", text, re.MULTILINE))
    return rows


def measure(targets: list[str]) -> dict:
    """Measure everything, by target and then by part; instructions are under "counts"."""
    found: dict = {"sizes": {}, "counts": {}}
    for target in targets:
        with tempfile.TemporaryDirectory(prefix="tvmrt-footprint-") as name:
            folder, board = Path(name), board_of(target)
            archives = build_libraries(board, folder)
            rows = {part: measure_part(board, part, archives, folder) for part in PARTS}
            if target == COUNTED:
                rows["aot"] = measure_network(board, archives, folder)
                found["counts"] = count(board, archives, folder)
            found["sizes"][target] = rows
    return found


def print_table(found: dict) -> None:
    print(f"{'target':14} {'part':40} {'text':>6} {'data':>5} {'bss':>5} {'image':>6}  needs")
    for target, rows in found["sizes"].items():
        for part, row in rows.items():
            title = PARTS.get(part, "ahead-of-time network, C interface")
            numbers = f"{row['text']:6} {row['data']:5} {row['bss']:5} {row.get('image', ''):>6}"
            print(f"{target:14} {title:40} {numbers}  {' '.join(row.get('needs', []))}")
    for what, number in found["counts"].items():
        print(f"{COUNTED:14} {what:40} {number:6}")


def flat(found: dict) -> dict[str, int]:
    """Return every value under one flat name."""
    numbers = {f"{COUNTED} {what}": n for what, n in found["counts"].items()}
    for target, rows in found["sizes"].items():
        for part, row in rows.items():
            kinds = ("text", "data", "bss")
            numbers.update((f"{target} {part} {kind}", row[kind]) for kind in kinds)
    return numbers


def grown(found: dict, limits: dict[str, int]) -> list[str]:
    """Return one line for each value above its limit, or without one."""
    counted = {f"{COUNTED} {what}" for what in found["counts"]}
    return [
        f"{name} is {n}, the limit is {limits.get(name)}; make it smaller or run --update"
        for name, n in flat(found).items()
        if name not in limits or n > limits[name] + (CLOCK_ERROR if name in counted else 0)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--target", action="append", choices=[*SOFT], help="default: all")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a number has grown")
    parser.add_argument("--update", action="store_true", help="write new limits to limits.json")
    options = parser.parse_args()
    targets = options.target or [*SOFT]
    for target in targets:
        missing = boards.BOARDS[target].missing_tool()
        if missing is not None:
            print(f"{missing} is not installed", file=sys.stderr)
            return 2
    found = measure(targets)
    print_table(found)
    if options.update:
        known = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
        LIMITS.write_text(json.dumps({**known, **flat(found)}, indent=2, sort_keys=True) + "\n")
    problems = grown(found, json.loads(LIMITS.read_text())) if options.check else []
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
