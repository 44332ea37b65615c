"""``tvmrt verify DIR``: the checks of a folder of evidence."""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.cli.tolerance import TensorComparison, Verdict
from tvmrt.compiler.sdk.export import find_compiler, run_compiler, scratch_folder
from tvmrt.compiler.sdk.graph import DTYPES
from tvmrt.error import CompileError
from tvmrt.option_syntax import option

from .evaluation import OnnxNetwork, compare, part_of
from .folder import FORMAT, INDEX, SIGNATURE, digests
from .loops import build_replay
from .signature import is_signed

JUDGE = "the folder's files, its records and plain evaluations of the network"
DUMP = ("-O2", "-DREPLAY_DUMP")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
SECONDS = 600


def verify_folder(folder: Path, options: Mapping[str, Any]) -> tuple[list[TensorComparison], str]:
    """Return a row for each check of the folder, and what it is compared with.

    Raises ValueError for another folder, and CompileError without a C compiler.
    """
    index = folder / INDEX
    if not index.is_file():
        raise ValueError(f"{folder} has no {INDEX}; compile the network with {option('evidence')}")
    data = json.loads(index.read_text())
    if data.get("format") != FORMAT:
        raise ValueError(f"{index} has the format {data.get('format')}, not {FORMAT}")
    rows = [*_check_files(folder, data["sha256"]), *_check_signature(folder, options)]
    if all(row.verdict.right for row in rows):
        rows += _check_code(folder, options.get("cc"))
    return rows, JUDGE


def _row(part: str, name: str, problem: str = "", note: str = "") -> Any:
    verdict = Verdict(float(bool(problem)), 0.0, float(bool(problem)), problem, note=note)
    return TensorComparison(part, name, "", "", (), verdict)


def _check_files(folder: Path, right: Mapping[str, str]) -> Iterator[TensorComparison]:
    names = {p.relative_to(folder).as_posix(): p for p in sorted(folder.rglob("*")) if p.is_file()}
    found = digests({n: p.read_bytes() for n, p in names.items() if n not in (INDEX, SIGNATURE)})
    for name in sorted({*right, *found}):
        if name not in right:
            yield _row("files", name, "is not in the index")
        elif found.get(name) != right[name]:
            reason = "has another hash than the index" if name in found else "is missing"
            yield _row("files", name, reason)
    yield _row("files", INDEX, note=f"right, {len(right)} files")


def _check_signature(folder: Path, options: Mapping[str, Any]) -> Iterator[TensorComparison]:
    key, path = options.get("evidence_key"), folder / SIGNATURE
    if key is None:
        if path.is_file():
            reason = f"not checked: name the public key with {option('evidence_key')}"
            yield _row("signature", SIGNATURE, note=reason)
    elif not path.is_file():
        yield _row("signature", SIGNATURE, "is missing")
    else:
        signed = is_signed((folder / INDEX).read_bytes(), path.read_bytes(), Path(key))
        yield _row("signature", SIGNATURE, "" if signed else f"is not of {key}")


def _check_code(folder: Path, cc: str | None) -> Iterator[TensorComparison]:
    with scratch_folder() as scratch:
        with suppress(CompileError):  # this compiler may have no sanitizers
            program = build_replay(folder, scratch, cc, ("-O1", *SANITIZE))
            yield _run("replay with sanitizers", [str(program)])
        dump, program = scratch / "dump", build_replay(folder, scratch, cc, DUMP)
        yield _run("replay", [str(program), str(dump)])
        about = json.loads((folder / "vectors" / "tensors.json").read_text())
        runs = list(_read_dump(about, dump.read_bytes() if dump.is_file() else b""))
        yield from _check_tensors(folder, about, runs)
        if not (folder / "reference" / "missing.txt").is_file():
            yield from _check_reference(folder, scratch, about, runs, cc)


def _run(name: str, command: list[str]) -> TensorComparison:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, errors="replace", check=False
        )
    except subprocess.TimeoutExpired:
        return _row("code", name, f"does not end within {SECONDS} s")
    lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    picked = [each for each in lines if "differs" in each or "rror" in each] or lines[-1:]
    problem = f"{picked[0] if picked else ''} (exit code {done.returncode})"
    return _row("code", name, problem if done.returncode else "")


def _check_tensors(folder: Path, about: Any, runs: Any) -> Iterator[TensorComparison]:
    """Compare each tensor of each vector with the onnx package's evaluation of the nodes between it
    and earlier tensors of the code."""
    network = None
    if (folder / "network.onnx").is_file():
        try:
            network = OnnxNetwork((folder / "network.onnx").read_bytes())
        except ValueError as problem:
            yield _row("tensors", "network.onnx", note=f"not evaluated: {problem}")
    for vector, arrays in enumerate(runs):
        outputs = _recorded(folder, about, vector)
        for row, array in zip(about["tensors"], arrays):
            if row["output"] >= 0:
                allowed = about["allowed"][vector][row["output"]]
                verdict = compare(array, _written(outputs, row), allowed)
                yield _compared(f"output of vector {vector}", row, verdict)
        if network is not None:
            inputs = _inputs(folder, about, vector)
            yield from _by_nodes(network, about, inputs, arrays, vector)


def _check_reference(
    folder: Path, scratch: Path, about: Any, runs: Any, cc: str | None
) -> Iterator[TensorComparison]:
    """Compare the outputs with those of the C code of the independent generator."""
    library = scratch / "reference.so"
    sources = [str(each.resolve()) for each in sorted((folder / "reference").glob("*.c"))]
    flags = ["-std=c99", "-O1", "-ffp-contract=off", "-shared", "-fPIC"]
    run_compiler([*find_compiler(cc), *flags, *sources, "-lm", "-o", str(library)], scratch)
    run = getattr(ctypes.CDLL(str(library)), f"{about['name']}_reference_run")
    for vector, arrays in enumerate(runs):
        inputs = list(_inputs(folder, about, vector).values())
        outputs = [np.zeros_like(each) for each in _recorded(folder, about, vector)]
        code = run(*((ctypes.c_void_p * len(a))(*(each.ctypes.data for each in a))
                     for a in (inputs, outputs)))  # fmt: skip
        if code != 0:
            yield _row(f"reference, vector {vector}", about["name"], f"returns {code}")
        for row, array in zip(about["tensors"], arrays):
            if row["output"] >= 0:
                allowed = 0.0 if row["exact"] else about["allowed"][vector][row["output"]]
                verdict = compare(array, _written(outputs, row), allowed)
                yield _compared(f"reference, vector {vector}", row, verdict)


def _written(outputs: list[np.ndarray], row: Mapping[str, Any]) -> np.ndarray:
    """Return what an operator writes of an output: all of it in folders of version 0.3."""
    output = outputs[row["output"]]
    if "strides" not in row:
        return output
    return part_of(output, row["shape"], row["strides"], row["offset"])


def _inputs(folder: Path, about: Mapping[str, Any], vector: int) -> dict[str, np.ndarray]:
    return dict(zip(about["inputs"], _recorded(folder, about, vector, "input")))


def _recorded(folder: Path, about: Any, vector: int, kind: str = "output") -> list[np.ndarray]:
    names = [folder / f"vectors/{vector}.{kind}{i}.npy" for i in range(len(about[f"{kind}s"]))]
    return list(map(np.load, names))


def _read_dump(about: Mapping[str, Any], dump: bytes) -> Iterator[list[np.ndarray]]:
    """Yield the tensors of each vector; after them the dump has the outputs of the whole run. A
    program that ended early has written no more."""
    at, rows = 0, about["tensors"]
    whole = [row for row in rows if row["output"] >= 0]
    for _ in about["allowed"]:
        arrays = []
        for row in [*rows, *whole]:
            dtype = DTYPES[row["dtype"]].numpy
            count = int(np.prod(row["shape"], dtype=np.int64))
            if at + count * dtype.itemsize > len(dump):
                return
            arrays.append(np.frombuffer(dump, dtype, count, at).reshape(row["shape"]))
            at += arrays[-1].nbytes
        yield arrays[: len(rows)]


def _by_nodes(
    network: OnnxNetwork, about: Mapping[str, Any], inputs: Mapping[str, np.ndarray],
    arrays: list[np.ndarray], vector: int,
) -> Iterator[TensorComparison]:  # fmt: skip
    rows = about["tensors"]
    shapes = {n: a.shape for n, a in network.run(inputs).items()}
    tensors: dict[str, int] = {}
    for number, row in enumerate(rows):
        for node, names in network.nodes:
            for name in names if node in row["nodes"] else ():
                if sorted(shapes.get(name, ())) == sorted(row["shape"]):
                    tensors = {n: k for n, k in tensors.items() if k != number} | {name: number}
    verdicts: dict[int, Verdict] = {}

    def replace(name: str, array: np.ndarray) -> np.ndarray:
        number = tensors.get(name)
        if number is None or arrays[number].dtype != array.dtype:
            return array
        verdicts[number] = compare(arrays[number], array)
        same = verdicts[number].right and arrays[number].shape == array.shape
        return arrays[number] if same else array

    network.run(inputs, replace)
    for number, verdict in sorted(verdicts.items()):
        is_other_form = "int" in rows[number]["dtype"] and _leads_to_right(number, rows, verdicts)
        if verdict.right or not is_other_form:
            yield _compared(f"vector {vector}", rows[number], verdict)


def _leads_to_right(number: int, rows: Any, verdicts: Mapping[int, Verdict]) -> bool:
    """Return whether everything computed from a tensor is right. Integers may differ then: a clamp
    or a scale of the next layer is part of them."""
    readers = rows[number]["readers"]
    return bool(readers) and all(
        (each in verdicts and verdicts[each].right)
        or ((each not in verdicts or "int" in rows[each]["dtype"])
            and _leads_to_right(each, rows, verdicts))
        for each in readers
    )  # fmt: skip


def _compared(part: str, row: Mapping[str, Any], verdict: Verdict) -> TensorComparison:
    nodes, shape = ", ".join(row["nodes"]), tuple(row["shape"])
    return TensorComparison(part, row["operator"], nodes, row["dtype"], shape, verdict)
