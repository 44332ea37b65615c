"""Compile many networks to C together, run them in a process that may crash, and compare the
results.

For the host runtime they are one library, which holds several networks if their names differ: the
graph executor is made of a JSON and the library, the AOT executor of the library and a name, as in
any library of the classic ABI. For the crt runtime they are one program: programs.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import comparison
import numpy as np
import onnx
import programs
from builds import SANITISED, Build
from references import Model
from worker import FAILED

import tvmrt
from tvmrt.compiler.export.toolchain import find_compiler
from tvmrt.compiler.ir.sizes import symbols_of, upper_bound
from tvmrt.libinfo import find_include_path

__all__ = ["SANITISED", "Build", "Member", "Outcome", "Run", "compile_member", "run_batch"]

HERE = Path(__file__).resolve().parent
MAX_BYTES = 64 << 20  # of a network's memory, to be run here
# functions that executors look up in the library, which only one network may define
OF_ONE = ("get_c_metadata", "get_model_metadata", "get_dims", "get_state", "get_run_needs")


@dataclass(frozen=True)
class Run:
    """Inputs by name, and the values of dynamic dimensions."""

    feeds: dict[str, np.ndarray]
    sizes: dict[str, int] = field(default_factory=dict)


@dataclass
class Member:
    """One network of a batch."""

    name: str
    model: Model
    library: Any
    runs: list[Run]

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """Return the inputs of the first run."""
        return self.runs[0].feeds


@dataclass
class Outcome:
    """The result of a network.

    ``kind`` is ``""`` where all is well, else ``c`` (its C does not compile), ``died``, ``slow``
    (of its run), ``failed`` (its run gave an error), ``beyond`` (it wrote past its outputs) or
    ``wrong``. ``compared``: numbers compared. ``outputs``: by run. ``failures``: texts by run,
    which make it ``failed`` unless a judge refuses these runs alone.
    """

    kind: str = ""
    text: str = ""
    compared: int = 0
    outputs: dict[int, list[np.ndarray]] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    refused: str = ""  # why nothing is compared: no reference runs it, or no board has the memory


Answers = dict[str, Outcome]  # results of references, by the network's name


def compile_member(
    name: str, model: Model, build: Build, number: int, seed: int = 0,
    runs: Sequence[Run] = (), dims: Mapping[str, tuple[int, int]] | None = None,
) -> Member:  # fmt: skip
    """Compile as member ``number`` of a batch; raises the exceptions of tvmrt.compile.

    Runs at sizes that the compiler excludes with a remark are skipped. Raises ValueError if none
    remains.
    """
    options = dict(build.options)
    if isinstance(model, bytes):
        options["tflite_rounding"] = "reference"  # the reference's
    if dims:
        options["dims"] = dict(dims)
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        library = tvmrt.compile(model, module_name=f"n{number}", **options)
    chosen = list(runs) or [Run(made_feeds(library, seed))]
    if any(str(each.message).endswith(" requires") for each in remarks):
        chosen = [run for run in chosen if fits(library.program.input_types, run)]
        if not chosen:
            raise ValueError("its conditions exclude all sizes that are drawn")
    return Member(name, model, library, chosen)


def fits(types: Sequence[Any], run: Run) -> bool:
    """Return True if inputs of these types, in order, have the shapes of a run."""
    if len(types) != len(run.feeds):
        return True
    sizes: dict[str, set[int]] = {}
    for type, array in zip(types, run.feeds.values()):
        for extent, given in zip(type.shape, array.shape):
            symbols = sorted(symbols_of(extent), key=lambda each: each.name)
            if len(symbols) > 1:
                continue
            if not symbols:
                if extent != given:
                    return False
                continue
            (symbol,) = symbols
            values = range(symbol.low, symbol.high + 1)
            fitting = {n for n in values if extent.at({symbol.name: n}) == given}
            sizes[symbol.name] = sizes.get(symbol.name, fitting) & fitting
    return all(sizes.values())


def made_feeds(library: Any, seed: int) -> dict[str, np.ndarray]:
    """Return inputs of the largest sizes: floats about 0, small integers, so that most indices are
    valid."""
    source = np.random.default_rng(seed)
    feeds = {}
    for each, type in zip(library.summary.inputs, library.program.input_types):
        if not _is_of_numpy(each.dtype) or each.nbytes > MAX_BYTES:
            return {}
        dtype, shape = np.dtype(each.dtype), [upper_bound(extent) for extent in type.shape]
        if dtype.kind == "f":
            feeds[each.name] = source.standard_normal(shape).astype(dtype)
        else:
            feeds[each.name] = source.integers(0, 2 + (dtype.kind != "b"), shape).astype(dtype)
    return feeds


def _is_of_numpy(name: str) -> bool:
    """Return True if numpy itself has the type: .npz files cannot store those of ml_dtypes."""
    return name in np.sctypeDict and np.dtype(name).isbuiltin == 1


def is_small(library: Any) -> bool:
    """Return True if a network can run here: little memory, and inputs of numpy types."""
    summary = library.summary
    ends = (*summary.inputs, *summary.outputs)
    known = all(_is_of_numpy(each.dtype) for each in ends)
    sizes = sum(each.nbytes for each in ends) + summary.arena_bytes + summary.weights_bytes
    return known and sizes + summary.scratch_bytes <= MAX_BYTES


def run_batch(
    folder: Path, members: Sequence[Member], build: Build, judged: Answers | None = None,
    judges: str = "theirs",
) -> list[Outcome]:  # fmt: skip
    """Compile, run and compare; return the outcomes in the order of the members.

    ``judged`` caches the references' results for other builds of the networks; ``judges`` is the
    worker's command for them.
    """
    outcomes = [Outcome() for _ in members]
    for number, member in enumerate(members):
        _write(folder, number, member)
    if build.runtime == "crt":
        programs.run_program(folder, members, outcomes, build)
    else:
        _run_library(folder, members, outcomes, build)
    _judge(folder, members, outcomes, {} if judged is None else judged, judges)
    return outcomes


def _write(folder: Path, number: int, member: Member) -> None:
    data, suffix = member.model, "tflite"
    if isinstance(data, onnx.ModelProto):
        data, suffix = data.SerializeToString(), "onnx"
    (folder / f"n{number}.{suffix}").write_bytes(data)
    feeds = {f"feed:{i}:{k}": v for i, run in enumerate(member.runs) for k, v in run.feeds.items()}
    np.savez(folder / f"n{number}.npz", **feeds)


def _run_library(
    folder: Path, members: Sequence[Member], outcomes: list[Outcome], build: Build
) -> None:
    for number, member in enumerate(members):
        place = folder / f"c{number}"
        place.mkdir(parents=True)
        member.library.write_sources(place)
        if build.executor == "graph":
            (folder / f"n{number}.json").write_text(member.library.get_graph_json())
        if build.sanitised:
            params = tvmrt.save_param_dict(member.library.get_params())
            (folder / f"n{number}.params").write_bytes(params)
    _compile(folder, members, outcomes, build)
    alive = [number for number, outcome in enumerate(outcomes) if not outcome.kind]
    if alive:
        for number, answer in _work("ours", folder, alive, _environment(build)).items():
            outcomes[number] = answer


def _compile(
    folder: Path, members: Sequence[Member], outcomes: list[Outcome], build: Build
) -> None:
    """Make one library of all networks whose C code compiles."""
    includes = [f"-I{path}" for path in find_include_path()]
    command = build.command()
    objects = []
    for number, member in enumerate(members):
        names = [f"-D{each}=plain_n{number}_{each}" for each in OF_ONE]
        made, complaint = _objects(folder / f"c{number}", [*command, *includes, *names], member)
        objects += made
        if complaint:
            outcomes[number] = Outcome("c", complaint)
    more = [flag for flag in command if flag.startswith("-fsanitize")]
    linker = [command[0], "-shared", *more, "-o", "networks.so", *objects, "-lm"]
    complaint = programs.call(linker, folder)
    if complaint:
        raise RuntimeError(f"the networks of {folder} cannot be linked: {complaint[:500]}")


def _objects(folder: Path, command: list[str], member: Member) -> tuple[list[str], str]:
    """Compile the object files of one network; return them and the C compiler's errors."""
    own = dict(member.library.sources.flags or {})
    found = sorted([*folder.glob("*.c"), *folder.glob("*.S")])
    # except the module tree, which exists once per library
    sources = [each.name for each in found if not each.stem.endswith("_devc")]
    groups = [[each for each in sources if each not in own]]
    groups += [[each] for each in sources if each in own]
    for group in groups:
        flags = own.get(group[0], ()) if group else ()
        complaint = programs.call([*command, *flags, "-w", "-c", *group], folder) if group else ""
        if complaint:
            return [], complaint
    return [f"{folder.name}/{Path(each).stem}.o" for each in sources], ""


@lru_cache(maxsize=1)
def _sanitizer() -> str:
    """Return the address sanitizer's library, which must be loaded before Python."""
    command = [*find_compiler(), "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _environment(build: Build) -> dict[str, str]:
    """Return the environment with sanitizer reports; leak detection is off, since Python itself
    leaks."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "TVM_NUM_THREADS": "1"}
    env["PYTHONPATH"] = os.pathsep.join([str(HERE), *filter(None, [env.get("PYTHONPATH")])])
    if build.sanitised:
        env["LD_PRELOAD"] = _sanitizer()
        env["ASAN_OPTIONS"] = "detect_leaks=0:allocator_may_return_null=1:hard_rss_limit_mb=6000"
        env["UBSAN_OPTIONS"] = "print_stacktrace=1"
    return env


def _work(
    kind: str, folder: Path, numbers: Iterable[int], env: dict[str, str] | None = None
) -> dict[int, Outcome]:
    """Run the networks in a worker that is restarted after each crash; return their results."""
    waiting, found = list(numbers), {}
    while waiting:
        (folder / "plan.json").write_text(json.dumps({kind: waiting}))
        at = folder / f"{kind}-at"
        at.unlink(missing_ok=True)
        log = folder / f"{kind}.log"
        with log.open("w") as file:
            command = [sys.executable, str(HERE / "worker.py"), kind, str(folder)]
            code = subprocess.run(
                command, env=env, stdout=file, stderr=file, check=False
            ).returncode
        if not at.exists():
            raise RuntimeError(f"{' '.join(command)} does not start: {log.read_text()[-2000:]}")
        last = at.read_text()
        for number in waiting:
            if str(number) == last:
                found[number] = _death(code, log)
                break
            found[number] = _answer(folder, kind, number)
        waiting = [number for number in waiting if number not in found]
    return found


def _death(code: int, log: Path) -> Outcome:
    if code == -14:
        return Outcome("slow", "its run takes too long")
    return Outcome("died", f"exit code {code}: {log.read_text(errors='replace')[:4000]}")


def _answer(folder: Path, kind: str, number: int) -> Outcome:
    failure = folder / f"{kind}-{number}.txt"
    if failure.exists():
        return Outcome("failed", failure.read_text())
    outcome = Outcome()
    with np.load(folder / f"{kind}-{number}.npz", allow_pickle=False) as file:
        for name in file.files:
            run, _, index = name.partition(":")
            if index == FAILED:
                outcome.failures[int(run)] = str(file[name])
            else:
                outcome.outputs.setdefault(int(run), []).append(file[name])
    return outcome


def _judge(
    folder: Path, members: Sequence[Member], outcomes: list[Outcome], known: Answers,
    judges: str,
) -> None:  # fmt: skip
    """Compare outputs and errors with the references; use perturbed inputs if they differ."""
    ran = [n for n, o in enumerate(outcomes) if o.kind == "" and not o.refused]
    ran = [n for n in ran if comparison.is_comparable(members[n].model)]
    asked = [n for n in ran if members[n].name not in known]
    for number, answer in _work(judges, folder, asked).items():
        known[members[number].name] = answer
    for outcome in outcomes:
        _fail(outcome, outcome.failures)
    doubtful = []
    for number in ran:
        ours, other = outcomes[number], known[members[number].name]
        if other.kind or not other.outputs:
            ours.refused = other.text or other.kind or "no judge runs it"
            continue
        ours.kind = ours.text = ""
        _fail(ours, {run: text for run, text in ours.failures.items() if run in other.outputs})
        if ours.kind == "" and _compare(members[number], ours, other, {}):
            doubtful.append(number)
    shaken = _work("shaken", folder, doubtful)
    for number in doubtful:
        ours, other = outcomes[number], known[members[number].name]
        wrong = _compare(members[number], ours, other, shaken[number].outputs)
        if wrong:
            ours.kind, ours.text = "wrong", "; ".join(wrong)


def _fail(outcome: Outcome, failures: Mapping[int, str]) -> None:
    """Make an outcome ``failed`` if there is a failure."""
    for run, text in failures.items():
        outcome.kind, outcome.text = "failed", f"run {run}: {text}"


def _compare(
    member: Member, ours: Outcome, theirs: Outcome, shaken: Mapping[int, list[np.ndarray]]
) -> list[str]:
    """Compare run by run; runs that the references refuse are not compared."""
    found, ours.compared = [], 0
    for run, right in theirs.outputs.items():
        flat = shaken.get(run, [])
        times = [flat[i : i + len(right)] for i in range(0, len(flat), len(right) or 1)]
        ours.compared += sum(each.size for each in right)
        wrong = comparison.compared(member.model, ours.outputs.get(run, []), right, times)
        where = f"run {run} ({member.runs[run].sizes}): " if len(member.runs) > 1 else ""
        found += [f"{where}{each}" for each in wrong]
    return found
