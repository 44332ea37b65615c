"""Run every ``.tflite`` network of the tests through the crt runtime, here or on a board in QEMU.

    python plugins/tflite/tests/crt_networks.py crt+cortex-m4+aot+c+-O2+gcc [FOLDER]

The networks are the files of tests/data/tflite and those of FOLDER, which record_networks.py fills
with what the tests of this folder make. LiteRT's reference kernels judge. ``not_on_crt.json`` has
what does not pass, by the digest or the name of its file or, as ``kinds``, by a regular expression
of the error, each with its reason. The exit code is 1 where something passes that is listed, or
does not and is not.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/python/support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests/fuzz"))

import batch
import builds
from batch import Run
from builds import Build
from tflite_case import FILES, feeds_for

LIST = Path(__file__).with_name("not_on_crt.json")
AT_ONCE = 12  # networks in a program
LONGEST = 120  # characters of a reason

Results = dict[str, str]  # by name: "" if it passes, else the reason


def networks(folder: Path | None = None) -> dict[str, bytes]:
    """Return the files by name."""
    paths = sorted(FILES.rglob("*.tflite")) + (sorted(folder.glob("*.tflite")) if folder else [])
    return {path.stem: path.read_bytes() for path in paths}


def run_all(files: Mapping[str, bytes], build: Build) -> Results:
    """Compile, run and compare all networks, several in each program."""
    results: Results = {}
    names = list(files)
    for begin in range(0, len(names), AT_ONCE):
        results.update(_run({n: files[n] for n in names[begin : begin + AT_ONCE]}, build))
    return results


def _run(files: Mapping[str, bytes], build: Build) -> Results:
    results: Results = {}
    members: list[batch.Member] = []
    for name, data in files.items():
        try:
            members.append(_compiled(name, data, build, len(members)))
        except Exception as problem:
            results[name] = _short(str(problem))
    with tempfile.TemporaryDirectory(prefix="tvmrt-tflite-") as folder:
        outcomes = batch.run_batch(Path(folder), members, build)
    for member, outcome in zip(members, outcomes):
        text = f"wrong: {outcome.kind}: {outcome.text}" if outcome.kind else outcome.refused
        results[member.name] = _short(text)
    return results


def _compiled(name: str, data: bytes, build: Build, number: int) -> batch.Member:
    """Compile a network with inputs of feeds_for(). Raises the compiler's exceptions."""
    member = batch.compile_member(name, data, build, number)
    inputs = member.library.summary.inputs
    feeds = feeds_for(data)
    if len(feeds) != len(inputs):
        raise ValueError(f"the library has {len(inputs)} inputs, the file {len(feeds)}")
    member.runs = [Run({each.name: array for each, array in zip(inputs, feeds)})]
    if not batch.is_small(member.library):
        raise ValueError("it is too large to run here")
    return member


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def surprises(results: Results, known: Mapping[str, str]) -> list[str]:
    """Return unlisted failures, and listed networks that pass."""
    kinds = json.loads(LIST.read_text())["kinds"]
    failing = {n: why for n, why in results.items() if why and n not in known}
    found = [f"{n} does not pass: {why}" for n, why in failing.items()
             if not any(re.search(kind, why) for kind in kinds)]  # fmt: skip
    return found + [f"{n} passes; take it from {LIST.name}" for n, why in results.items()
                    if not why and n in known]  # fmt: skip


def listed(build: Build) -> dict[str, str]:
    """Return the expected failures of a build by name with the reason: those of crt and of its
    target."""
    lists = json.loads(LIST.read_text())
    return {**lists["crt"], **lists.get(build.target, {})}


def main(arguments: Sequence[str]) -> int:
    (build,) = builds.selected(arguments[:1])
    folder = Path(arguments[1]) if len(arguments) > 1 else None
    results = run_all(networks(folder), build)
    unexpected = surprises(results, listed(build))
    print(*(f"{name}: {why}" for name, why in results.items() if why), sep="\n")
    print(*unexpected, sep="\n")
    print(f"{build}: {sum(not why for why in results.values())} of {len(results)} pass")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
