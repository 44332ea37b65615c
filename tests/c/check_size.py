"""Print the stripped size of shared libraries, and fail if the runtime is above its limit.

Usage: check_size.py STRIP LIMIT RUNTIME [LIBRARY ...]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def stripped_bytes(strip: str, library: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / library.name
        subprocess.run([strip, "-o", copy, library], check=True)
        return copy.stat().st_size


def main() -> int:
    strip, limit = sys.argv[1], int(sys.argv[2])
    sizes = {path.name: stripped_bytes(strip, path) for path in map(Path, sys.argv[3:])}
    for name, size in sizes.items():
        print(f"{size:8,} bytes  {name}")
    runtime = Path(sys.argv[3]).name
    if sizes[runtime] <= limit:
        return 0
    print(
        f"{runtime} has {sizes[runtime]:,} bytes, {sizes[runtime] - limit:,} more than its limit "
        f"of {limit:,}: what few programs need belongs in a library that loads on demand "
        "(src_runtime/<name>/meson.build)."
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
