"""Measure the gain by tuning, and how close the cost model comes without measurements.

    TVM_NUM_THREADS=1 python plugins/tuning/bench/bench_tune.py [FOLDER] [--networks NAME...]
        [--rounds N] [--database FILE] [--winograd]

FOLDER has NAME.onnx files and defaults to $TVMRT_MODELS. Layers that the database lacks are
measured first, as by ``tvmrt tune``. Each network is compiled by the compiler's estimate, by the
database, and by a cost model fitted to layers that only the other networks have. The libraries run
in turn. Two ratios are printed, each as the median over rounds and for the fastest runs: the
speed-up of the tuned network, and the model's time relative to the tuned one (target: 1.03).
Libraries with equal code are the same library, so that their ratio is 1. Each library is loaded
several times, and the fastest copy counts. The last column is the ratio of two copies of the tuned
network: its difference from 1 is noise.

    python plugins/tuning/bench/bench_tune.py --fit MODEL.json --database FILE

fits coefficients to the whole database and replaces those of the same processor in the file (such
as plugins/tuning/python/model.json). For layers left out of the fit, it prints how much slower the
choices of the model and of the estimate are than the fastest measured one.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import tvmrt
from tvmrt.compiler.ir.tuned_layer import Layer, parse_layer
from tvmrt.plugins.tuning import database, fitted_model
from tvmrt.plugins.tuning.database import DatabaseModel, TuningEntry
from tvmrt.plugins.tuning.ray_search import search_all
from tvmrt.plugins.tuning.search import SearchSettings, layers_of, layers_to_tune

Known = list[tuple[Layer, TuningEntry]]
GROUPS = 10  # of layers for cross-validation; each is left out once
WORST = 5  # number of worst layers to print
COPIES = 3  # loaded copies of each library
WARM = 2  # warm-up rounds
SECONDS = 3.0  # minimum duration of a network's rounds


def known_of(path: Path) -> Known:
    entries = database.read(path) if path.exists() else []
    return [(parse_layer(each.layer), each) for each in entries]


def fill(models: Sequence[Path], path: Path, settings: SearchSettings) -> dict[Path, list[Layer]]:
    """Return the layers of the networks, after measuring those that the database lacks."""
    found = {}
    for each in models:
        program = tvmrt.compile(str(each), target="native").program
        found[each] = list(layers_of(program))
        left = layers_to_tune(found[each], [entry for _, entry in known_of(path)], settings)
        for entry in search_all([layer.text for layer in left], settings):
            database.add(path, [entry])
    return found


def code(library) -> str:
    """Return the C code that decides a network's time, with names of tiles and layers."""
    return "\n".join(function.text for function in library.sources.functions)


def measured(libraries: Sequence, rounds: int) -> list[list[float]]:
    """Return the seconds of each library's fastest copy per round, then those of the last library's
    first and second copy: speed also depends on the location of code and weights in memory."""
    texts = [code(each) for each in libraries]
    distinct = [*dict.fromkeys(texts)]
    runs = [copies(libraries[texts.index(text)]) for text in distinct]
    columns = [distinct.index(text) for text in texts]
    found = []
    end = time.perf_counter() + SECONDS
    while len(found) < rounds + WARM or time.perf_counter() < end:
        rows = [[seconds(run) for run in each] for each in runs]
        found.append([*(min(rows[i]) for i in columns), *rows[columns[-1]][:2]])
    return found[WARM:]


def copies(library) -> list[Callable[[], object]]:
    """Load the library several times."""
    found = []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        first = Path(folder) / "0.so"
        library.export_library(first)
        for number in range(COPIES):
            path = first if number == 0 else Path(shutil.copy(first, first.with_stem(str(number))))
            found.append(tvmrt.load(path).warm_executor().run)
    return found


def seconds(run) -> float:
    """Time the second of two runs; the first finds other networks' weights in the cache."""
    run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def networks(models: Sequence[Path], path: Path, rounds: int, winograd: bool) -> None:
    layers = fill(models, path, SearchSettings(winograd=winograd))
    known = known_of(path)
    best = DatabaseModel([entry for _, entry in known], None)
    columns = ("ms", "gain", "least", "model", "least", "noise")
    print(f"{'network':28} " + " ".join(f"{name:>8}" for name in columns))
    rows = []
    for each in models:
        others = [row for row in known if row[0] not in layers[each]]
        guides = (None, fitted_model.FittedModel(fitted_model.fit(others)), best)
        asked = {"target": "native", "executor": "aot", "winograd": winograd}
        libraries = [tvmrt.compile(str(each), tuned=guide, **asked) for guide in guides]
        times = measured(libraries, rounds)
        baseline, chosen, tuned, one, other = map(min, zip(*times))
        rows.append((
            median(row[0] / row[2] for row in times), baseline / tuned,
            median(row[1] / row[2] for row in times), chosen / tuned, one / other,
        ))  # fmt: skip
        print_row(each.stem, f"{1e3 * baseline:8.4f}", rows[-1])
    same = sum(row[3] == 1.0 for row in rows)
    print_row("geometric mean", " " * 8, [mean(column) for column in zip(*rows)])
    print(f"the model's code is that of tuning in {same} of {len(rows)} networks")


def print_row(name: str, first: str, numbers: Sequence[float]) -> None:
    print(f"{name:28} {first} " + " ".join(f"{each:8.3f}" for each in numbers), flush=True)


def lost(entry: TuningEntry, choice) -> float:
    """Return the time of a choice relative to the fastest measured one."""
    direct = [each for each in entry.measurements if not each.choice.square]
    least = min(each.seconds for each in direct)
    return next(each.seconds for each in direct if each.choice == choice) / least


def fit(path: Path, output: Path) -> None:
    known = [row for row in known_of(path) if len(row[1].measurements) > 1]
    rows: dict[tuple[str, str], list[tuple[float, float, str]]] = {}
    for group in range(GROUPS):
        fitted = fitted_model.fit([row for i, row in enumerate(known) if i % GROUPS != group])
        guide = fitted_model.FittedModel(fitted)
        for layer, entry in known[group::GROUPS]:
            choices = [each.choice for each in entry.measurements if not each.choice.square]
            found = guide.choice(layer, entry.level, lambda choices=choices: choices)
            losses = [
                lost(entry, choice) for choice in (found[0] if found else choices[0], choices[0])
            ]
            rows.setdefault((entry.level, layer.kind), []).append((*losses, layer.text))
    print(
        "each layer left out once; how many times as long as the fastest that was tried it takes:"
    )
    for (level, kind), losses in sorted(rows.items()):
        by_model, by_estimate, _ = zip(*losses)
        print(
            f"{level:10} {kind:12} {len(losses):4} layers: by the model {mean(by_model):.4f}, "
            f"by the estimate {mean(by_estimate):.4f}; worst by the model:"
        )
        for ratio, _, text in sorted(losses, reverse=True)[:WORST]:
            print(f"    {ratio:.3f} {text}")
    enough = {
        k: v for k, v in fitted_model.fit(known).items() if v.layers >= fitted_model.MIN_LAYERS
    }
    data = fitted_model.as_json(enough)
    here = {row["processor"] for row in data["coefficients"]}
    before = json.loads(output.read_text())["coefficients"] if output.exists() else []
    data["coefficients"][:0] = [row for row in before if row["processor"] not in here]
    output.write_text(json.dumps(data, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", help="their names; all in float32 if left out")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--database", type=Path, default=database.user_database_path())
    parser.add_argument("--winograd", action="store_true")
    parser.add_argument("--fit", type=Path, metavar="MODEL.json")
    given = parser.parse_args()
    if given.fit:
        fit(given.database, given.fit)
        return
    if not given.folder:
        parser.error("no FOLDER given and TVMRT_MODELS is not set")
    models = sorted(Path(given.folder).glob("*.onnx"))
    wanted = given.networks or [each.stem for each in models if "int8" not in each.stem]
    networks([m for m in models if m.stem in wanted], given.database, given.rounds, given.winograd)


if __name__ == "__main__":
    main()
