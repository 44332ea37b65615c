"""Compare calls from C to C in one process: TVMFuncCall and TVMFFIFunctionCall of tvm-ffi, in
turns.

python tests/bench/bench_c_calls.py [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

import tvm_ffi

from tvmrt import libinfo

SOURCES = Path(__file__).parent / "calls"


def build(folder: Path) -> tuple[Path, Path]:
    """Build the program, and a library with the called function."""
    runtime = Path(libinfo.find_lib_path()[0])
    package = Path(tvm_ffi.__file__).parent
    ffi = next((package / "lib").glob("libtvm_ffi.so*"))
    includes = [f"-I{path}" for path in [*libinfo.find_include_path(), package / "include"]]
    links = [str(runtime), str(ffi), f"-Wl,-rpath,{runtime.parent}:{ffi.parent}"]
    program, library = folder / "c_to_c", folder / "classic.so"
    command = ["cc", "-O2", *includes, str(SOURCES / "c_to_c.c"), "-o", str(program), *links]
    subprocess.run(command, check=True)
    shared = ["cc", "-O2", "-shared", "-fPIC", *includes, str(SOURCES / "classic.c")]
    subprocess.run([*shared, "-o", str(library)], check=True)
    return program, library


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder:
        program, library = build(Path(folder))
        out = subprocess.run([program, library], check=True, capture_output=True, text=True).stdout
    names = ("pointer_ns", "classic_ns", "tvm_ffi_ns", "classic_by_tvm_ffi")
    row = dict(zip(names, map(float, out.split())))
    if as_json:
        print(json.dumps(row))
        return
    print(
        f"bare pointer {row['pointer_ns']:.2f} ns, TVMFuncCall {row['classic_ns']:.2f} ns,", end=" "
    )
    print(f"TVMFFIFunctionCall {row['tvm_ffi_ns']:.2f} ns, ratio {row['classic_by_tvm_ffi']:.2f}")


if __name__ == "__main__":
    main()
