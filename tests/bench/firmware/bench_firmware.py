"""Measure the cost of networks on microcontrollers: code, RAM, stack, executed instructions,
errors.

Each network is compiled with the C interface to an archive, built by the archive's own Makefile
and run once by QEMU. One line a network and target:

    code      bytes of the network's functions and tables in an image, without its weights
    weights   bytes of its weights
    arena     bytes of RAM for intermediate values and the kernels' scratch
    stack     bytes of stack below the caller of the network
    Minsn     millions of executed instructions of one inference
    error     largest difference from the golden output, or from onnxruntime's

Networks are those of this folder (own_networks.py) and, where TVMRT_MODELS names a folder, the
microcontroller networks in it. ``--check`` compares with limits.json and exits 1 where a number
has grown, ``--update`` writes it, ``--steps`` splits the instructions by function.
``--cc`` selects another compiler than GCC, with which the limits were measured; ``--slack`` is a
factor on the limits for it.

    python tests/bench/firmware/bench_firmware.py [NETWORK ...] [--target cortex-m4 ...] [--check]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import own_networks

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "support"))
import boards

import tvmrt

LIMITS = Path(__file__).with_name("limits.json")
TARGETS = ("cortex-m4", "cortex-m55", "riscv32", "rv32imac_zve32x")
SIZED = ("code", "weights", "arena", "stack", "instructions")
# Other compiler releases may differ by this fraction.
SLACK = 1.02


@dataclass(frozen=True)
class Network:
    """A network, an input, and its expected output."""

    name: str
    model: object
    inputs: dict[str, np.ndarray]
    golden: dict[str, np.ndarray]


def model_names() -> list[str]:
    """Return the microcontroller networks of TVMRT_MODELS."""
    folder = os.environ.get("TVMRT_MODELS")
    if not folder:
        return []
    index = json.loads((Path(folder) / "index.json").read_text())
    return [name for name, facts in index.items() if facts["kind"] == "mcu"]


def load(name: str) -> Network:
    """Load a network by its name. Raises ValueError with the list of names if it does not exist."""
    if name in own_networks.NAMES:
        model = own_networks.build(name)
        inputs = own_networks.example(model, 99)
        return Network(name, model, inputs, own_networks.golden(model, inputs))
    if name not in model_names():
        known = ", ".join([*own_networks.NAMES, *model_names()])
        raise ValueError(f"network {name} is not known; choose of {known}")
    folder = Path(os.environ["TVMRT_MODELS"])
    with np.load(folder / f"{name}.npz") as data:
        arrays = {key: data[key] for key in data.files}
    golden = {k[4:]: v for k, v in arrays.items() if k.startswith("out:")}
    inputs = {k: v for k, v in arrays.items() if not k.startswith("out:")}
    return Network(name, str(folder / f"{name}.onnx"), inputs, golden)


def measure(
    network: Network, target: str, folder: Path, cflags: str | None, steps: bool, cc: str | None
) -> dict:
    """Return the values of one line."""
    board = boards.BOARDS[target]
    library = tvmrt.compile(
        network.model, target=target, interface_api="c", unpacked_api=True, module_name="net"
    )
    outcome = boards.run_network(board, library, network.inputs, folder, True, cflags, cc)
    weights = weights_bytes(board, folder / "net" / "libnet.a")
    row = {
        "code": image_bytes(board, library, folder) - weights,
        "weights": weights,
        "arena": library.summary.arena_bytes,
        "stack": outcome.stack_bytes,
        "instructions": outcome.instructions,
        "error": largest_error(outcome.outputs, network.golden),
    }
    if steps:
        for name, count in count_steps(board, folder, cflags, cc):
            print(f"    {count / 1e6:9.4f} M  {name}")
    return row


def largest_error(found: dict[str, np.ndarray], golden: dict[str, np.ndarray]) -> float:
    return max(
        float(np.abs(y.astype(np.float64) - golden[name].astype(np.float64)).max())
        for name, y in found.items()
    )


def weights_bytes(board: boards.Board, library: Path) -> int:
    """Return the size of the weights' sections in all objects of an archive."""
    command = [f"{board.tool}-size", "-A", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sum(int(n) for n in re.findall(r"^\.rodata\.tvm\s+(\d+)", text, re.MULTILINE))


# The difference of these two programs is the network with its functions of the C library.
CALLER = """\
#include <stdint.h>
#ifdef WITH_NETWORK
#include <tvmgen_net.h>
static struct tvmgen_net_inputs inputs;
static struct tvmgen_net_outputs outputs;
int main(void) { return tvmgen_net_run(&inputs, &outputs); }
#else
int main(void) { return 0; }
#endif
void _exit(int code) { (void)code; for (;;) {} }
"""


def image_bytes(board: boards.Board, library, folder: Path) -> int:
    """Return the bytes of flash that the network adds to an image."""
    main = folder / "caller.c"
    main.write_text(CALLER)
    net = folder / "net"
    includes = [net / "codegen/host/include"]
    sizes = []
    for define in ("-DWITH_NETWORK", "-DEMPTY"):
        image = boards.link_image(
            board, [main], [net / "libnet.a"], folder / "size.elf", includes, [define],
            ("minimal", "dummyhost"),
        )  # fmt: skip
        command = [f"{board.tool}-size", str(image)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        code, data, _ = map(int, text.splitlines()[1].split()[:3])
        sizes.append(code + data)
    return sizes[0] - sizes[1]


PROBE = """\
#include <stdint.h>
extern uint32_t step_clock(void);
extern uint32_t step_times[];
extern int step_count;
static int timed(int code) { step_times[step_count++] = step_clock(); return code; }
"""


def count_steps(
    board: boards.Board, folder: Path, cflags: str | None, cc: str | None
) -> list[tuple[str, int]]:
    """Return the instructions of each function, by clocking its calls in the main function; the
    folder has the network as ``boards.build_network()`` leaves it, and its inputs."""
    main = next((folder / "net/codegen/host/src").glob("*_lib0.c"))
    text, names = main.read_text(), []
    call = re.compile(r"if \((tvmgen_net_\w+)\((.*?)\) != 0\)", re.DOTALL)

    def clocked(match: re.Match) -> str:
        names.append(match[1].removeprefix("tvmgen_net_"))
        return f"if (timed({match[1]}({match[2]})) != 0)"

    text = call.sub(clocked, text)
    main.write_text(PROBE + text)
    command = ["make", "-s", f"CC={cc or f'{board.compiler} --specs=picolibc.specs'}"]
    command += [f"CFLAGS={cflags}"] if cflags else []
    subprocess.run(command, cwd=folder / "net", check=True)
    program = (folder / "main.c").read_text()
    program = program.replace("int main(void) {", STEP_CLOCK % len(names) + "int main(void) {")
    program = program.replace("  before = count_now();", "  before = step_clock();")
    program = program.replace("  if (code != 0) return 3;", STEP_STORE)
    (folder / "steps.c").write_text(program)
    includes = [folder / "net/codegen/host/include"]
    sources, libraries = [folder / "steps.c"], [folder / "net/libnet.a"]
    image = boards.link_image(board, sources, libraries, folder / "steps.elf", includes)
    boards.run_image(board, image, folder, True)
    counts = np.fromfile(folder / "steps.bin", np.uint32)
    return [(name, int(count)) for name, count in zip(names, counts)]


STEP_CLOCK = """\
uint32_t step_times[%d + 1];
int step_count;
uint32_t step_clock(void) { return count_now(); }
"""
STEP_STORE = """\
  FILE *steps = fopen("steps.bin", "wb");
  for (int i = 0; i < step_count; ++i) {
    const uint32_t took = count_between(i ? step_times[i - 1] : before, step_times[i]);
    if (steps == NULL || fwrite(&took, 4, 1, steps) != 1) return 6;
  }
  if (fclose(steps) != 0 || code != 0) return 3;
"""


def too_large(key: str, found: dict, limits: dict, slack: float) -> list[str]:
    """Return the values above the committed limits."""
    limit = limits.get(key)
    if limit is None:
        return [f"{key} has no limit; run with --update"]
    grown = [f"{key}: {what} is {found[what]}, the limit is {limit[what]}"
             for what in SIZED if found[what] > limit[what] * slack]  # fmt: skip
    if found["error"] > max(limit["error"] * 2, 1e-6):
        grown.append(f"{key}: the error is {found['error']:.3g}, the limit is {limit['error']:.3g}")
    return grown


HEAD = f"{'network':26} {'target':12} {'code':>7} {'weights':>8} {'arena':>7} {'stack':>6} "


def line(name: str, target: str, row: dict) -> str:
    return (
        f"{name:26} {target:12} {row['code']:7} {row['weights']:8} {row['arena']:7} "
        f"{row['stack']:6} {row['instructions'] / 1e6:9.4f} {row['error']:9.2g}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Costs of networks on microcontrollers")
    parser.add_argument("networks", nargs="*", help="names (default: all)")
    parser.add_argument("--target", action="append", choices=sorted(boards.BOARDS))
    parser.add_argument("--cflags", help="instead of the archive's own options")
    parser.add_argument("--cc", help="instead of the archive's own compiler")
    parser.add_argument(
        "--slack", type=float, default=SLACK, help="factor on the limits, by default 1.02"
    )
    parser.add_argument("--steps", action="store_true", help="instructions of each function")
    parser.add_argument("--check", action="store_true", help="compare with the committed limits")
    parser.add_argument("--update", action="store_true", help="write new limits")
    options = parser.parse_args()
    limits = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    grown: list[str] = []
    print(f"{HEAD}{'Minsn':>9} {'error':>9}")
    for name in options.networks or [*own_networks.NAMES, *model_names()]:
        network = load(name)
        for target in options.target or TARGETS:
            with tempfile.TemporaryDirectory() as folder:
                row = measure(
                    network, target, Path(folder), options.cflags, options.steps, options.cc
                )
            print(line(name, target, row), flush=True)
            key = f"{name} {target}"
            if options.check:
                grown += too_large(key, row, limits, options.slack)
            limits[key] = row
    if options.update:
        LIMITS.write_text(json.dumps(limits, indent=1, sort_keys=True) + "\n")
    print("\n".join(grown), end="\n" if grown else "")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
