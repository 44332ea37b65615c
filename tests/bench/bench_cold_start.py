"""Measure the total time of a C program with a compiled network, including its first run.

    TVM_NUM_THREADS=1 python tests/bench/bench_cold_start.py [FOLDER] [NAME...] [--rounds N]

FOLDER holds NAME.onnx and defaults to what TVMRT_MODELS names. For each network, in milliseconds of
the clock, the minimum of rounds in which the sides take turns:

- program: the program of examples/c_program, which loads the library and runs the network once;
- run: time of each further run in it;
- reading: a program that does nothing but read the library's file;
- start-up: the first minus the others.

At the end, the time to select an ISA level in a new process, which queries the processor for the
first time: the minimum and the median.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import tvmrt

PROGRAM = Path(__file__).parents[2] / "examples" / "c_program" / "main.c"
REPEAT = 21
COLUMNS = ("program", "run", "reading", "start-up")
READING = """
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char** argv) {
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  char* block = malloc(1 << 20);
  if (file == NULL || block == NULL) return 1;
  while (fread(block, 1, 1 << 20, file) > 0) continue;
  free(block);
  return fclose(file);
}
"""
CHOOSING = """
#define _POSIX_C_SOURCE 199309L
#include <time.h>
#include <tvm/runtime/kernels/cpu_dispatch.h>
int main(void) {
  static const char* const names[] = {"v2", "v3", "v4", "v4vnni", "v4vbmi"};
  struct timespec begin, end;
  tvmrt_processor processor;
  char text[512];
  clock_gettime(CLOCK_MONOTONIC, &begin);
  tvmrt_detect_processor(&processor);
  const int chosen = tvmrt_choose_level(&processor, names, 5, getenv("TVMRT_LEVEL"), text, 512);
  clock_gettime(CLOCK_MONOTONIC, &end);
  printf("%.4f", 1e3 * (end.tv_sec - begin.tv_sec) + 1e-6 * (end.tv_nsec - begin.tv_nsec));
  return chosen < 0;
}
"""


def build(folder: Path, name: str, source: Path, *flags: str) -> Path:
    includes = [f"-I{each}" for each in tvmrt.libinfo.find_include_path()]
    command = ["cc", "-O2", *includes, str(source), *flags, "-o", str(folder / name)]
    subprocess.run(command, check=True)
    return folder / name


def build_text(folder: Path, name: str, text: str) -> Path:
    (folder / f"{name}.c").write_text(text)
    return build(folder, name, folder / f"{name}.c")


def milliseconds(command: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begin) * 1e3


def measure(model: Path, program: Path, reading: Path, folder: Path, rounds: int) -> list[float]:
    library = folder / f"{model.stem}.so"
    tvmrt.compile(model).export_library(library)
    sides = [
        [str(program), str(library)],
        [str(program), str(library), "--repeat", str(REPEAT)],
        [str(reading), str(library)],
    ]
    least = [min(times) for times in zip(*([*map(milliseconds, sides)] for _ in range(rounds)))]
    run = max(0.0, (least[1] - least[0]) / (REPEAT - 1))
    return [least[0], run, least[2], least[0] - run - least[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS", "."))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=31)
    given = parser.parse_args()
    names = given.names or sorted(path.stem for path in Path(given.folder).glob("*.onnx"))
    runtime = tvmrt.libinfo.find_lib_path()[0]
    link = [runtime, f"-Wl,-rpath,{Path(runtime).parent}"]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        program = build(folder, "program", PROGRAM, *link)
        reading = build_text(folder, "reading", READING)
        print(f"{'network':<32}" + "".join(f"{column:>9}" for column in COLUMNS))
        for name in names:
            row = measure(
                Path(given.folder, f"{name}.onnx"), program, reading, folder, given.rounds
            )
            print(f"{name:<32}" + "".join(f"{number:9.2f}" for number in row), flush=True)
        choosing = build_text(folder, "choosing", CHOOSING)
        found = [
            float(subprocess.run([choosing], check=True, capture_output=True, text=True).stdout)
            for _ in range(given.rounds)
        ]
    print(f"selecting an ISA level: {min(found):.3f} ms, median {statistics.median(found):.3f} ms")


if __name__ == "__main__":
    sys.exit(main())
