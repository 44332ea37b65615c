"""Fuzz the file readers written in Python: archives of arrays, archives of sources, and `inspect`.

    readers.py --seconds 60          from a printed seed
    readers.py FILE ...              single files, the findings of a campaign

Damage is to the raw bytes or inside: a member of an .npz or .tar with valid checksums, a value of
its JSON. Each file is read as the command line does. It must give a result, or an OSError,
ValueError or TVMError with a text, within SECONDS.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import signal
import sys
import tarfile
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import networks  # adds the tests' own modules to the path
import numpy as np
from damage import EDGES, damaged_bytes
from varied_networks import varied_networks

import tvmrt
from tvmrt.cli import files
from tvmrt.cli.describe import describe

SECONDS = 10
FORESEEN = (OSError, ValueError, tvmrt.TVMError)


def seeds(folder: Path) -> list[Path]:
    """Return one valid file of each format."""
    made = networks.ROOT / "examples/digits"
    library = tvmrt.compile(made / "digits_f32.onnx", target="cortex-m4")
    library.export_model_library_format(folder / "board.tar")
    small = tvmrt.compile(next(iter(varied_networks().values())), params="file")
    small.export_model_library_format(folder / "host.tar")
    (folder / "graph.json").write_text(small.get_graph_json())
    small.export_library(folder / "net.so")
    arrays = {"x": np.ones((2, 3), np.float32), "out:y": np.arange(4), "s": np.array(2.5)}
    np.savez(folder / "plain.npz", **arrays)
    np.savez_compressed(folder / "packed.npz", **arrays)
    (folder / "net.onnx").write_bytes((made / "digits_int8.onnx").read_bytes())
    return sorted(folder.iterdir())


def damaged(path: Path, source: random.Random) -> bytes:
    """Return the bytes of a file with a defect."""
    inner = {".npz": _damaged_zip, ".tar": _damaged_tar, ".json": _damaged_json}.get(path.suffix)
    data = path.read_bytes()
    if inner is not None and source.random() < 0.7:
        return inner(data, source)
    return damaged_bytes(data, source)


def _damaged_zip(data: bytes, source: random.Random) -> bytes:
    """Damage members of a zip file, with valid checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as whole, zipfile.ZipFile(out, "w") as copy:
        names = whole.namelist()
        bad = source.choice(names)
        for name in names:
            content = whole.read(name)
            shown = source.choice(["../x.npy", "x", name + "x"]) if source.random() < 0.1 else name
            copy.writestr(shown, _damaged_array(content, source) if name == bad else content)
    return out.getvalue()


def _damaged_array(data: bytes, source: random.Random) -> bytes:
    """Damage an .npy file, mostly in its header."""
    if source.random() < 0.3:
        return damaged_bytes(data, source)
    words = [b"'fortran_order': True", b"'descr': '|O'", b"'descr': '<f16'", b"'shape': (-1,)",
             b"'shape': (99999999999,)", b"'shape': 5", b"'descr': [('a', '<f4')]"]  # fmt: skip
    word = source.choice(words)
    key = word.split(b":")[0]
    begin = data.find(key)
    end = data.find(b", '", begin + 1)
    return data[:begin] + word + data[max(end, begin + len(word)) :]


def _damaged_tar(data: bytes, source: random.Random) -> bytes:
    """Damage, rename, duplicate or retype members of an archive."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(data)) as whole,
        tarfile.open(fileobj=out, mode="w") as copy,
    ):
        members = whole.getmembers()
        bad = source.choice([*members, *(m for m in members if m.name.endswith(".json"))])
        for member in members:
            stream = whole.extractfile(member)
            content = stream.read() if stream else b""
            if member is bad:
                content = _damaged_member(member, content, source)
            member.size = len(content)
            copy.addfile(member, io.BytesIO(content))
    return out.getvalue()


def _damaged_member(member: tarfile.TarInfo, content: bytes, source: random.Random) -> bytes:
    if source.random() < 0.3:
        names = ["../../x.c", "/tmp/x", "codegen/host/src/../../../x.c", "metadata.json", ""]
        member.name = source.choice(names)
    if source.random() < 0.2:
        member.type = source.choice([tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
        member.linkname = source.choice(["/etc/passwd", "metadata.json", member.name, ""])
    if member.name.endswith(".json") and source.random() < 0.7:
        return _damaged_json(content, source)
    return damaged_bytes(content, source)


def _damaged_json(data: bytes, source: random.Random) -> bytes:
    """Replace a value of a JSON text by another one."""
    try:
        whole = json.loads(data)
    except ValueError:
        return damaged_bytes(data, source)
    holders: list[Any] = []
    _holders(whole, holders)
    for _ in range(source.randint(1, 2)):
        holder = source.choice(holders)
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        if not keys:
            continue
        key = source.choice(keys)
        if source.random() < 0.2:
            del holder[key]
        else:
            holder[key] = source.choice([None, True, "", "x", [], {}, [[]], 1.5, *EDGES])
    return json.dumps(whole).encode()


def _holders(value: Any, into: list[Any]) -> None:
    if isinstance(value, (dict, list)):
        into.append(value)
        for part in value.values() if isinstance(value, dict) else value:
            _holders(part, into)


def read(path: Path) -> None:
    """Read a file as the command line does."""
    if path.suffix == ".npz":
        files.load_inputs(path)
    else:
        describe(path).as_dict()


class TooLong(BaseException):
    """Raised by the timer; not an Exception, so that nothing catches it."""


def _ring(*_: object) -> None:
    raise TooLong


def problem_of(path: Path) -> tuple[str, str]:
    """Return the kind of finding of a file and its position; ("", "") for a correct result."""
    signal.signal(signal.SIGPROF, _ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        read(path)
    except TooLong:
        return "slow", f"reading {path.name}"
    except FORESEEN as problem:
        return ("", "") if str(problem).strip() else ("silent", type(problem).__name__)
    except Exception as problem:
        trace = problem.__traceback__
        while trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        return "defect", f"{type(problem).__name__} at {place}: {problem}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "", ""


def campaign(seconds: float, seed: int, folder: Path) -> tuple[Counter[str], int]:
    """Run damaged files until the time is over; return counts and the number of findings."""
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    with (
        tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-") as whole,
        tempfile.TemporaryDirectory() as aside,
    ):
        paths, source = seeds(Path(whole)), random.Random(seed)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            path = source.choice(paths)
            if path.name == "board.tar" and source.random() < 0.9:
                continue  # inspect compiles its C code, which takes a second
            bad = Path(aside) / path.name
            bad.write_bytes(damaged(path, source))
            counts[path.suffix] += 1
            kind, where = problem_of(bad)
            place = where.split(": ")[0]
            if kind and place not in seen:
                seen.add(place)
                folder.mkdir(parents=True, exist_ok=True)
                kept = folder / f"{kind}-{len(seen)}-{path.name}"
                kept.write_bytes(bad.read_bytes())
                print(f"FOUND {kind}: {where}\n  python3 {Path(__file__).resolve()} {kept}")
    return counts, len(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--findings", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.files:
        found = [(path, *problem_of(path)) for path in args.files]
        print("\n".join(f"{path}: {kind or 'right'} {where}" for path, kind, where in found))
        return int(any(kind for _, kind, _ in found))
    folder = args.findings or Path(tempfile.mkdtemp(prefix="tvmrt-findings-"))
    counts, found = campaign(args.seconds, args.seed, folder)
    kinds = ", ".join(f"{counts[key]:,} {key}" for key in sorted(counts))
    print(f"readers, seed {args.seed}: {sum(counts.values()):,} files ({kinds}), {found} found")
    if found:
        print(f"findings: {found}, kept in {folder}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
