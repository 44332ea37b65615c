"""Many networks in one library: compiled by C together, run in a process that may die, compared.

A library holds several networks if their names differ: the graph executor is made of a JSON and
the library, the AOT executor of the library and a name, as in any library of the classic ABI.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import judge
import numpy as np
import onnx

import tvmrt
from tvmrt.codegen.target import get_target
from tvmrt.export.toolchain import COMMON, OPTIMISE, find_compiler
from tvmrt.libinfo import find_include_path

HERE = Path(__file__).resolve().parent
SANITIZE = ("-g1", "-O0", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
QUICK = ("-O0", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast")
MOST_BYTES = 64 << 20  # of a network's memory, to be run here
# what executors would ask the library for, and one network of it would answer for all
OF_ONE = ("get_c_metadata", "get_model_metadata", "get_dims", "get_state")
C_SECONDS = 600  # for one file of generated C, on a machine that does other things, too


@dataclass(frozen=True)
class Build:
    """How a batch is compiled. ``sanitised``: with ASan and UBSan, each weight in its own block."""

    executor: str = "graph"
    target: str = "native"
    flags: tuple[str, ...] = QUICK
    sanitised: bool = False

    def __str__(self) -> str:
        last = "sanitised" if self.sanitised else "default flags" if self.flags == OPTIMISE else ""
        return " ".join(filter(None, (self.executor, self.target, last)))


SANITISED = (Build("graph", flags=SANITIZE, sanitised=True),
             Build("aot", flags=SANITIZE, sanitised=True))  # fmt: skip


@dataclass
class Member:
    """One network of a batch."""

    name: str
    model: onnx.ModelProto
    library: Any
    feeds: dict[str, np.ndarray]


@dataclass
class Outcome:
    """What became of a network.

    ``kind`` is ``""`` where all is well, else ``c`` (its C does not compile), ``died``, ``slow``
    (of its run), ``failed`` (its run gave an error), ``wrong``. ``compared``: numbers compared.
    """

    kind: str = ""
    text: str = ""
    compared: int = 0
    outputs: list[np.ndarray] = field(default_factory=list)
    refused: str = ""  # by onnxruntime: why


def compile_member(
    name: str, model: onnx.ModelProto, build: Build, number: int, seed: int = 0
) -> Member:
    """Compile for the place ``number`` of a batch; raises as tvmrt.compile."""
    library = tvmrt.compile(
        model, executor=build.executor, target=build.target, module_name=f"n{number}",
        params="file" if build.sanitised else None,
    )  # fmt: skip
    return Member(name, model, library, made_feeds(library, seed))


def made_feeds(library: Any, seed: int) -> dict[str, np.ndarray]:
    """Inputs: floats about 0, small integers, so that most indices are within."""
    source = np.random.default_rng(seed)
    feeds = {}
    for each in library.summary.inputs:
        if not _is_of_numpy(each.dtype) or each.nbytes > MOST_BYTES:
            return {}
        dtype = np.dtype(each.dtype)
        if dtype.kind == "f":
            feeds[each.name] = source.standard_normal(each.shape).astype(dtype)
        else:
            feeds[each.name] = source.integers(0, 2 + (dtype.kind != "b"), each.shape).astype(dtype)
    return feeds


def _is_of_numpy(name: str) -> bool:
    """Whether numpy has the type itself: ml_dtypes adds its own, which .npz files cannot hold."""
    return name in np.sctypeDict and np.dtype(name).isbuiltin == 1


def is_small(library: Any) -> bool:
    """Whether a network can be run here: of little memory, its inputs of types that numpy has."""
    summary = library.summary
    ends = (*summary.inputs, *summary.outputs)
    known = all(_is_of_numpy(each.dtype) for each in ends)
    sizes = sum(each.nbytes for each in ends) + summary.arena_bytes + summary.weights_bytes
    return known and sizes + summary.scratch_bytes <= MOST_BYTES


def run_batch(folder: Path, members: Sequence[Member], build: Build) -> list[Outcome]:
    """Compile, run and compare; the outcomes in the order of the members."""
    outcomes = [Outcome() for _ in members]
    for number, member in enumerate(members):
        _write(folder, number, member, build)
    _compile(folder, members, outcomes, build)
    alive = [number for number, outcome in enumerate(outcomes) if not outcome.kind]
    if not alive:
        return outcomes
    for number, answer in _work("ours", folder, alive, _environment(build)).items():
        outcomes[number] = answer
    _judge(folder, members, outcomes)
    return outcomes


def _write(folder: Path, number: int, member: Member, build: Build) -> None:
    place = folder / f"c{number}"
    place.mkdir(parents=True)
    member.library.write_sources(place)
    (folder / f"n{number}.onnx").write_bytes(member.model.SerializeToString())
    np.savez(folder / f"n{number}.npz", **{f"feed:{k}": v for k, v in member.feeds.items()})
    if build.executor == "graph":
        (folder / f"n{number}.json").write_text(member.library.get_graph_json())
    if build.sanitised:
        params = tvmrt.save_param_dict(member.library.get_params())
        (folder / f"n{number}.params").write_bytes(params)


def _compile(
    folder: Path, members: Sequence[Member], outcomes: list[Outcome], build: Build
) -> None:
    """One library of all networks whose C compiles."""
    includes = [f"-I{path}" for path in find_include_path()]
    flags = [*COMMON, *build.flags, *get_target(build.target).flags, *includes]
    objects = []
    for number in range(len(members)):
        names = [f"-D{each}=plain_n{number}_{each}" for each in OF_ONE]
        made, complaint = _objects(folder / f"c{number}", [*flags, *names])
        objects += made
        if complaint:
            outcomes[number] = Outcome("c", complaint)
    more = [flag for flag in build.flags if flag.startswith("-fsanitize")]
    command = [*find_compiler(), "-shared", *more, "-o", "networks.so", *objects, "-lm"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the networks of {folder} cannot be linked: {done.stderr[:500]}")


def _objects(folder: Path, flags: list[str]) -> tuple[list[str], str]:
    """The object files of one network, and what the C compiler says against it."""
    made = []
    for source in sorted([*folder.glob("*.c"), *folder.glob("*.S")]):
        if source.stem.endswith("_devc"):
            continue  # the tree of modules, of which a library has one
        command = [*find_compiler(), *flags, "-w", "-c", source.name, "-o", f"{source.stem}.o"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=C_SECONDS
            )
        except subprocess.TimeoutExpired:
            return [], f"{source.name} takes the C compiler more than {C_SECONDS} s"
        if done.returncode != 0:
            return [], done.stderr[:2000]
        made.append(f"{folder.name}/{source.stem}.o")
    return made, ""


@lru_cache(maxsize=1)
def _sanitizer() -> str:
    """The address sanitizer's library, which must be loaded before Python."""
    command = [*find_compiler(), "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _environment(build: Build) -> dict[str, str]:
    """Where the sanitizers can speak; leaks are left to other tests: Python's own are many."""
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
    """What the networks give, in a process that is started again behind each that ends it."""
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
    with np.load(folder / f"{kind}-{number}.npz", allow_pickle=False) as file:
        return Outcome(outputs=[file[name] for name in file.files])


def _judge(folder: Path, members: Sequence[Member], outcomes: list[Outcome]) -> None:
    """Compare what ran, and what gave an error, with onnxruntime; shaken where they differ."""
    ran = [n for n, o in enumerate(outcomes) if o.kind in ("", "failed")]
    ran = [n for n in ran if judge.is_comparable(members[n].model)]
    theirs = _work("onnxruntime", folder, ran)
    doubtful = []
    for number in ran:
        ours, other = outcomes[number], theirs[number]
        if other.kind:
            ours.refused = other.text or other.kind
        elif ours.kind == "" and _compare(members[number], ours, other.outputs, []):
            doubtful.append(number)
    shaken = _work("shaken", folder, doubtful)
    for number in doubtful:
        ours, other = outcomes[number], theirs[number].outputs
        flat, each = shaken[number].outputs, len(other)
        runs = [flat[i : i + each] for i in range(0, len(flat), each)]
        wrong = _compare(members[number], ours, other, runs)
        if wrong:
            ours.kind, ours.text = "wrong", "; ".join(map(str, wrong))


def _compare(
    member: Member, ours: Outcome, theirs: list[np.ndarray], shaken: list[list[np.ndarray]]
) -> list[judge.Difference]:
    model = member.model
    ours.compared = sum(each.size for each in theirs)
    return judge.differences(
        ours.outputs,
        theirs,
        shaken,
        judge.coarsest_type(model),
        judge.is_bounded(model),
        judge.is_folding(model),
        judge.most_terms(model),
    )
