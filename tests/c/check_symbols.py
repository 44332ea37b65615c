"""Compare the dynamic symbols of libtvm_runtime with the ABI snapshot, and its needs with libc.

Usage: check_symbols.py LIBRARY SNAPSHOT

`./run abi` compares more than the names, and updates the snapshot.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ALLOWED_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "ld-linux", "ld-musl")
# C++ symbols needed by plug-ins compiled with TVM's own macros; no C header declares them. A test
# with such a plug-in checks them.
OF_CXX = ("_ZN3tvm7runtime6detail8LogFatal8GetEntryEv", "_ZN3tvm7runtime9BacktraceB5cxx11Ev")
# Additional symbols for plug-ins of the same version: src_runtime/sdk/README.md.
OF_SDK = "tvmrt__"
SANITIZERS = ("libasan", "libubsan", "libtsan")


def defined_symbols(library: str) -> list[str]:
    text = subprocess.run(
        ["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True
    ).stdout
    return sorted(line.split()[-1].split("@")[0] for line in text.splitlines())


def needed_libraries(library: str) -> list[str]:
    text = subprocess.run(
        ["readelf", "-d", library], capture_output=True, text=True, check=True
    ).stdout
    return [line.split("[")[1].rstrip("]") for line in text.splitlines() if "(NEEDED)" in line]


def main() -> int:
    library, listing = sys.argv[1], Path(sys.argv[2])
    if shutil.which("nm") is None or shutil.which("readelf") is None:
        return 77  # meson's code for a skipped test
    found = [
        name
        for name in defined_symbols(library)
        if name not in OF_CXX and not name.startswith(OF_SDK)
    ]
    needed = needed_libraries(library)
    if any(name.startswith(SANITIZERS) for name in needed) or "__gcov_master" in found:
        return 77  # sanitizers and coverage counters add symbols
    defined = (line for line in listing.read_text().splitlines() if line.startswith("defines "))
    expected = sorted(line.split("(")[0].split()[-1] for line in defined)
    for name in sorted(set(expected) - set(found)):
        print(f"no longer exported: {name}")
    for name in sorted(set(found) - set(expected)):
        print(f"exported but not in {listing.name}: {name}")
    strange = [name for name in needed if not name.startswith(ALLOWED_LIBRARIES)]
    for name in strange:
        print(f"needs a library that hosts may lack: {name}")
    return 1 if found != expected or strange else 0


if __name__ == "__main__":
    sys.exit(main())
