"""Minimise the corpus of the fuzz targets: minimize_corpus.py BUILD FOLDER.

FOLDER has a folder ``corpus-NAME`` for each target, as the findings of a campaign do. libFuzzer
minimises these, the seeds and the previous corpus to the smallest set with equal coverage, which is
written to corpus/NAME.zip.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from campaign import inputs_of, targets, write_seeds
from seeds import archive_of

HERE = Path(__file__).resolve().parent
LARGEST_BYTES = 1200  # of an input
MAX_BYTES = 32_000  # of the archive of a target
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that equal inputs make equal archives


def keep(path: Path, build: str, name: str, grown: Path) -> None:
    """Write the corpus archive of one target."""
    write_seeds(build, name)
    with tempfile.TemporaryDirectory() as folder:
        sources = [*inputs_of(build, name), *([str(grown)] if grown.is_dir() else [])]
        command = [str(path), "-merge=1", f"-max_len={LARGEST_BYTES}", folder, *sources]
        subprocess.run(command, check=True, capture_output=True)
        inputs = sorted(Path(folder).iterdir(), key=lambda each: (each.stat().st_size, each.name))
        kept = write_archive(archive_of(name), [each.read_bytes() for each in inputs])
    print(f"{name}: {kept} of {len(inputs)} inputs")


def write_archive(path: Path, inputs: list[bytes]) -> int:
    """Write as many inputs as fit; return their number."""
    path.parent.mkdir(exist_ok=True)
    size = 0
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for i, data in enumerate(inputs):
            member = zipfile.ZipInfo(f"{i}", LONG_AGO)
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
            size += member.compress_size
            if size > MAX_BYTES:
                return i + 1
    return len(inputs)


def main() -> None:
    build, folder = sys.argv[1], Path(sys.argv[2])
    for name, path in targets(build).items():
        keep(path, build, name, folder / f"corpus-{name}")


if __name__ == "__main__":
    main()
