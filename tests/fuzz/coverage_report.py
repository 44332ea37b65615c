"""Report the coverage of readers by the fuzz targets: lines by file, and functions that none
reaches."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Files that read untrusted bytes, relative to the root.
READERS = (
    "src_runtime/base/json.c", "src_runtime/base/stream.c",
    "src_runtime/tensors/params.c", "src_runtime/core/dtype.c",
    "src_runtime/modules/binary_loaders.c",
    "src_runtime/modules/mblob.c", "src_runtime/named/const_loader.c",
    "src_runtime/executors/graph_json.c",
    "src_runtime/executors/graph_view.c", "src_runtime/executors/graph_factory.c",
    "src_runtime/executors/aot_factory.c", "src_runtime/regions/region_check.c",
    "src_runtime/regions/region_set.c", "src_runtime/regions/module.c",
    "src_runtime/regions/functions.c",
    "src_runtime/firmware/graph/json.c",
    "src_runtime/firmware/graph/graph_read.c",
    "src_runtime/firmware/graph/graph_params.c", "src_runtime/firmware/graph/params_reader.c",
    "src_runtime/firmware/graph/graph_arena.c", "src_runtime/firmware/aot/dtype.c",
    "src_runtime/firmware/aot/dtype_bits.c",
    "src_backend/func_registry.c",
    *(
        path.relative_to(ROOT).as_posix()
        for seeds in ROOT.glob("plugins/*/tests/fuzz/seeds.py")
        for path in sorted(seeds.parents[2].glob("src/*.c"))
    ),
)  # fmt: skip


def report(targets: dict[str, Path], build: str, folder: Path, wanted: str | None) -> None:
    """Run the collected inputs once more with coverage, and print what they reached."""
    from campaign import inputs_of

    profiles = []
    for name, path in targets.items():
        if wanted in (None, name):
            grown = folder / f"corpus-{name}"
            profile = folder / f"{name}.profraw"
            env = os.environ | {"LLVM_PROFILE_FILE": str(profile)}
            command = [str(path), "-runs=0", *inputs_of(build, name)]
            command += [str(grown)] if grown.is_dir() else []
            subprocess.run(command, env=env, capture_output=True, check=False)
            profiles += [str(profile)] if profile.exists() else []
    if not profiles:
        print("coverage: there is nothing to tell")
        return
    merged = folder / "merged.profdata"
    subprocess.run(["llvm-profdata", "merge", "-o", merged, *profiles], check=True)
    paths = [path for name, path in targets.items() if wanted in (None, name)]
    _print(_exported(paths, merged), only_reached=wanted is not None)


def _exported(paths: list[Path], merged: Path) -> dict[str, Any]:
    more = [part for path in paths[1:] for part in ("-object", str(path))]
    command = ["llvm-cov", "export", str(paths[0]), *more, f"-instr-profile={merged}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["data"][0]


def _print(data: dict[str, Any], only_reached: bool) -> None:
    rows, missed = {}, defaultdict(set)
    for file in data["files"]:
        place = _place(file["filename"])
        lines = file["summary"]["lines"]
        if place in READERS and (lines["covered"] or not only_reached):
            rows[place] = lines["covered"], lines["count"]
    reached, known = set(), set()
    for function in data["functions"]:
        key = _place(function["filenames"][0]), function["name"].split(":")[-1]
        known.add(key)
        if function["count"]:
            reached.add(key)
    for place, name in known - reached:
        if place in rows:
            missed[place].add(name)
    print("coverage of the readers, lines:")
    for place in sorted(rows):
        covered, count = rows[place]
        print(f"  {100 * covered / max(1, count):5.1f} %  {covered:4} of {count:4}  {place}")
    total = sum(a for a, _ in rows.values()), sum(b for _, b in rows.values())
    print(f"  {100 * total[0] / max(1, total[1]):5.1f} %  {total[0]} of {total[1]} in all")
    print("functions of readers that no target reaches:" + ("" if missed else " none"))
    for place in sorted(missed):
        print(f"  {place}: {', '.join(sorted(missed[place]))}")


def _place(path: str) -> str:
    try:
        return str(Path(os.path.normpath(path)).relative_to(ROOT))
    except ValueError:
        return path
