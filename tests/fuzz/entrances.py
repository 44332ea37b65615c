"""Call random networks with open dimensions outside of what was compiled, by every entrance.

    entrances.py --first 0 --count 3000       these networks
    entrances.py --seconds 60                 from a seed that is printed
    entrances.py --first 7 --count 1          what a finding prints

A seed defines a network (dynamic_generator.py), names for its dimensions, and two entrances of
``ENTRANCES``. Each is called with sizes inside of the bounds, next to them, with no rows and with
many more. The judge is that of references.py, at each of these sizes; comparison.py decides
which elements are right. A call is right, refused (an error of one sentence), wrong, or
broken (any other exception). The last line is ``N graphs, W wrong``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import pickle
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import comparison
import dynamic_generator
import families
import families_moves
import families_nn
import numpy as np
import onnx
import onnxruntime
from findings import Findings
from references import by_the_standard, is_left_to_the_standard, right_outputs, shaken_model

import tvmrt
from tvmrt.cli import main as command

FAMILIES = (families, families_moves, families_nn)  # importing them registers their families
BATCH = 8  # networks of a process, which a network may crash
DIMENSIONS = (
    "N", "n", "b", "bs", "rows", "batch", "batch_size", "L", "points", "seq_len", "T", "x y",
)  # fmt: skip
SPEED = {"TVMRT_TARGET": "native", "TVMRT_CFLAGS": "-O0"}
JUDGED = ("right", "refused", "wrong", "broken")

Feeds = dict[str, np.ndarray]
Dims = dict[str, tuple[int, int]]
Call = Callable[[Feeds], list[np.ndarray]]


class RefusedError(Exception):
    """An entrance refuses a call or a network in a sentence."""


@dataclass(frozen=True)
class Network:
    """A network with the bounds of its dimensions, and where its inputs have them."""

    model: onnx.ModelProto
    dims: Dims
    feeds: list[tuple[str, Feeds]]  # a word for the sizes, inputs


def network_of(seed: int) -> Network:
    """Return the network of a seed, under other names of dimensions, with inputs of many sizes."""
    model, runs, dims, grown = dynamic_generator.grown(seed)
    source = random.Random(f"entrances {seed}")
    names = dict(zip(dims, source.sample(DIMENSIONS, len(dims))))
    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param:
                dim.dim_param = names[dim.dim_param]
    inputs = [value.name for value in model.graph.input]
    feeds = [("inside", {name: each[name] for name in inputs}) for _, each in runs[-2:]]
    for word, chosen in _sizes_outside(source, dims):
        shapes = {name: list(runs[-1][1][name].shape) for name in inputs}
        for (name, axis), dim in grown.places.items():
            if name in shapes:
                shapes[name][axis] = chosen[dim]
        if max(map(np.prod, shapes.values())) < 1 << 20:
            made = {n: grown.made(shape, runs[-1][1][n].dtype) for n, shape in shapes.items()}
            feeds.append((word, made))
    bounds = {names[dim]: bounds for dim, bounds in grown.used_dims(model).items()}
    return Network(model, bounds, feeds)


def _sizes_outside(source: random.Random, dims: Dims) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield sizes; at least one of each is outside of its bounds."""
    top = {name: high for name, (_, high) in dims.items()}
    for name, (low, high) in dims.items():
        yield "next", {**top, name: high + 1}
        yield "more", {**top, name: source.choice([2 * high + 3, 64, 300])}
        if low > 0:
            yield "none", {**top, name: 0}
    if len(dims) > 1:
        yield "more", {name: 2 * high + 1 for name, high in top.items()}


def _refusing(call: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    """Call, and turn the errors that a user may get into a refusal."""
    try:
        return call()
    except IndexError as problem:
        if " is outside an extent of " not in str(problem):  # else the run has found the index
            raise
        raise RefusedError(str(problem)) from problem
    except (ValueError, OSError, tvmrt.error.TVMError) as problem:
        raise RefusedError(str(problem)) from problem


def _listed(found: object) -> list[np.ndarray]:
    return [np.asarray(each) for each in (found if isinstance(found, tuple) else (found,))]


def _of_network(net: tvmrt.Network) -> Call:
    return lambda feeds: _refusing(lambda: _listed(net(*feeds.values())))


def _loaded(network: Network, folder: Path) -> Call:
    """Load the file without options."""
    onnx.save(network.model, folder / "net.onnx")
    return _of_network(_load(folder / "net.onnx"))


def _declared(network: Network, folder: Path) -> Call:
    """Load the network with declared bounds."""
    return _of_network(_load(network.model, dims=network.dims, cache=False))


def _library(network: Network, folder: Path) -> Call:
    """Load a library in memory; calls by name, of the event loop."""
    library = _refusing(lambda: tvmrt.compile(network.model, dims=network.dims))
    net = tvmrt.load(library)
    return lambda feeds: _refusing(lambda: _listed(asyncio.run(net.acall(**feeds))))


def _file(network: Network, folder: Path) -> Call:
    """Load a compiled file."""
    library = _refusing(lambda: tvmrt.compile(network.model, dims=network.dims, executor="aot"))
    library.export_library(folder / "net.so")
    return _of_network(_load(folder / "net.so"))


def _commands(network: Network, folder: Path) -> Call:
    """Compile and run by the command line."""
    onnx.save(network.model, folder / "net.onnx")
    limits = [word for n, (a, b) in network.dims.items() for word in ("--dim", f"{n}={a}..{b}")]
    _command("compile", folder / "net.onnx", "-o", folder / "net.so", *limits)

    def call(feeds: Feeds) -> list[np.ndarray]:
        np.savez(folder / "in.npz", **feeds)
        _command("run", folder / "net.so", "--inputs", folder / "in.npz",
                 "--outputs", folder / "out.npz")  # fmt: skip
        with np.load(folder / "out.npz") as found:
            return [found[each.name] for each in network.model.graph.output]

    return call


def _command(*words: object) -> None:
    if command([str(word) for word in words]) != 0:
        raise RefusedError(f"tvmrt {words[0]} has refused it")


def _provider(network: Network, folder: Path) -> Call:
    """Compute in onnxruntime, by the execution provider."""
    from tvmrt.plugins import onnxruntime_ep

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime_ep.add_to(options)
    try:
        session = onnxruntime.InferenceSession(network.model.SerializeToString(), options)
    except Exception as problem:  # its exceptions share no base class
        raise RefusedError(str(problem)) from problem

    def call(feeds: Feeds) -> list[np.ndarray]:
        try:
            return [np.asarray(each) for each in session.run(None, feeds)]
        except Exception as problem:
            raise RefusedError(str(problem)) from problem

    return call


ENTRANCES: dict[str, Callable[[Network, Path], Call]] = {
    "onnx": _loaded, "dims": _declared, "library": _library, "so": _file, "commands": _commands,
    "provider": _provider,
}  # fmt: skip


def _load(model: object, **options: object) -> tvmrt.Network:
    try:
        return tvmrt.load(model, **options)
    except (ValueError, OSError, tvmrt.error.TVMError) as problem:
        raise RefusedError(str(problem)) from problem


@dataclass
class Record:
    """The calls of one network by one entrance: (sizes, verdict) with counts, findings."""

    seed: int
    entrance: str
    calls: Counter[tuple[str, str]]
    found: list[tuple[str, str]]
    model: onnx.ModelProto


def judge(network: Network, feeds: Feeds) -> list[np.ndarray] | None:
    """Return the results of the network's reference; None if it refuses these sizes."""
    try:
        return right_outputs(network.model, feeds)
    except Exception:
        return None


def checked(seed: int, network: Network, wanted: list, entrance: str) -> Record:
    """Call a network by one entrance with all inputs, and compare."""
    record = Record(seed, entrance, Counter(), [], network.model)
    with tempfile.TemporaryDirectory(prefix="tvmrt-entrance-") as name:
        try:
            os.environ["TVMRT_CACHE"] = f"{name}/cache"
            call = ENTRANCES[entrance](network, Path(name))
        except RefusedError as refusal:
            record.calls["load", "refused"] += 1
            record.found.append(("refused", f"{entrance}, load: {refusal}"))
            return record
        except Exception:
            record.calls["load", "broken"] += 1
            record.found.append(("broken", f"{entrance}, load: {traceback.format_exc()}"))
            return record
        for (word, feeds), want in zip(network.feeds, wanted):
            verdict, text = _verdict(network, call, feeds, want)
            record.calls[word, verdict] += 1
            if verdict in ("wrong", "broken") or (word == "inside" and verdict == "refused"):
                shapes = {key: value.shape for key, value in feeds.items()}
                record.found.append((verdict, f"{entrance}, {word} {shapes}: {text}"))
    return record


def _verdict(network: Network, call: Call, feeds: Feeds, want: list | None) -> tuple[str, str]:
    try:
        got = call(feeds)
    except RefusedError as refusal:
        return "refused", str(refusal)
    except Exception:
        return "broken", traceback.format_exc()
    if want is None:
        return "unjudged", ""
    texts = comparison.compared(network.model, got, want, [])
    if texts:  # undecided elements: the answer to inputs that are shaken, and the standard's
        texts = comparison.compared(network.model, got, want, _shaken(network, feeds))
    return ("wrong", "; ".join(texts)) if texts else ("right", "")


def _shaken(network: Network, feeds: Feeds) -> list[list[np.ndarray]]:
    answers = [
        judge(Network(shaken_model(network.model, i), {}, []), comparison.shaken_feeds(feeds, i))
        for i in range(comparison.SHAKES)
    ]
    if is_left_to_the_standard(network.model):
        with contextlib.suppress(Exception):  # it rejects these sizes
            answers.append(by_the_standard(network.model, feeds))
    return [each for each in answers if each is not None]


def _in_child(path: Path, seeds: range, entrances: list[str]) -> None:
    """Check the networks of some seeds; ``path``.at contains the seed, and the entrance if a judge
    has run it."""
    records: list[Record] = []
    for seed in seeds:
        path.with_suffix(".at").write_text(f"{seed}")
        try:
            network = network_of(seed)
        except Exception:  # the generator finds no step, or a reference refuses all
            continue
        wanted = [judge(network, feeds) for _, feeds in network.feeds]
        chosen = random.Random(f"chosen {seed}").sample(entrances, min(2, len(entrances)))
        for entrance in chosen:
            path.with_suffix(".at").write_text(f"{seed} by {entrance}")
            records.append(checked(seed, network, wanted, entrance))
        path.write_bytes(pickle.dumps(records))


def start(path: Path, seeds: range, entrances: list[str]) -> int:
    """Check some seeds in a process of their own; return its process id."""
    path.write_bytes(pickle.dumps([]))
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _in_child(path, seeds, entrances)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


class Campaign:
    """Batches of seeds in several processes, and their table."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.graphs: set[int] = set()
        self.by_entrance: dict[str, set[int]] = {}
        self.calls: Counter[tuple[str, str, str]] = Counter()
        self.faults = self.judge_crashes = 0

    def run(self, first: int, count: int, entrances: list[str], processes: int, end: float) -> None:
        running: dict[int, tuple[Path, range]] = {}
        with tempfile.TemporaryDirectory(prefix="tvmrt-fuzz-entrances-") as folder:
            for begin in range(first, first + count, BATCH):
                while len(running) >= processes:
                    self._wait(running, entrances)
                if time.monotonic() > end:
                    break
                path = Path(folder) / f"{begin}.pickle"
                seeds = range(begin, min(begin + BATCH, first + count))
                running[start(path, seeds, entrances)] = (path, seeds)
            while running:
                self._wait(running, entrances)

    def _wait(self, running: dict[int, tuple[Path, range]], entrances: list[str]) -> None:
        child, status = os.wait()
        path, seeds = running.pop(child)
        for record in pickle.loads(path.read_bytes()):
            self.add(record)
        if status == 0:
            return
        at, _, entrance = path.with_suffix(".at").read_text().partition(" ")
        if entrance:
            self.faults += 1
            tail = path.with_suffix(".log").read_text(errors="replace")[-2000:]
            print(f"FOUND crash: seed {at} {entrance}: status {status}\n{tail}", flush=True)
        else:
            self.judge_crashes += 1
        rest = range(int(at) + 1, seeds.stop)
        if rest:
            running[start(path, rest, entrances)] = (path, rest)

    def add(self, record: Record) -> None:
        self.graphs.add(record.seed)
        self.by_entrance.setdefault(record.entrance, set()).add(record.seed)
        for (word, verdict), count in record.calls.items():
            self.calls[record.entrance, word, verdict] += count
        for kind, text in record.found:
            if kind == "refused":
                self.findings.remark(kind, text, f"graph-{record.seed}", record.model)
                continue
            self.faults += 1
            self.findings.add(
                kind, text, f"graph-{record.seed}", record.model,
                repeat=f"--first {record.seed} --count 1 --entrances {record.entrance}",
            )  # fmt: skip

    def print(self) -> None:
        columns = (*JUDGED, "unjudged")
        print("| entrance | graphs | sizes | " + " | ".join(columns) + " |")
        print("|---|---|---|" + "---|" * len(columns))
        rows = sorted({(entrance, word) for entrance, word, _ in self.calls})
        for entrance, word in rows:
            counts = (self.calls[entrance, word, verdict] for verdict in columns)
            graphs = len(self.by_entrance[entrance])
            print(f"| {entrance} | {graphs} | {word} | " + " | ".join(map(str, counts)) + " |")
        print(f"onnxruntime crashed at {self.judge_crashes} networks, which are not counted")
        print(f"{len(self.graphs)} graphs, {self.faults} wrong")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--first", type=int, default=int(time.time()) % 10**6 * 1000)
    parser.add_argument("--count", type=int, default=10**6)
    parser.add_argument("--entrances", default=",".join(ENTRANCES), help="separated by commas")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--findings", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for name, value in SPEED.items():
        os.environ.setdefault(name, value)
    campaign = Campaign(Findings(args.findings, "entrances.py"))
    print(f"graphs from seed {args.first}", flush=True)
    end = time.monotonic() + args.seconds
    campaign.run(args.first, args.count, args.entrances.split(","), args.j, end)
    campaign.print()
    return 1 if campaign.faults else 0


if __name__ == "__main__":
    sys.exit(main())
