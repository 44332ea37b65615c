"""What tuning gains, and how near the model of cost comes without measuring.

    TVM_NUM_THREADS=1 python tests/bench/bench_tune.py [FOLDER] [--networks NAME...] [--rounds N]
        [--database FILE] [--winograd]

FOLDER holds NAME.onnx and defaults to what TVMRT_MODELS names; layers that the database does not
know are measured first (``tvmrt tune`` does the same). Each network is compiled by the compiler's
estimate, by the database and by a model that is fitted to the layers that the other networks have
and this one has not, and all run in turn. Printed are the medians over rounds of how many times as
fast the tuned network is, and of the time by the model in parts of the tuned one's (1.03 is
asked), and both ratios of the fastest runs, which hold on a busy machine.

    python tests/bench/bench_tune.py --fit MODEL.json --database FILE

fits the coefficients to all of the database (python/tvmrt/tuning/model.json are those of this
machine), and tells for each layer left out how much slower the choice of the model is than the
best that was tried, beside that of the estimate.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import tvmrt
from tvmrt.ir.tuned import Layer, parse_layer
from tvmrt.tuning import database, model
from tvmrt.tuning.database import Entry, Measured
from tvmrt.tuning.search import Effort, layers_of, missing
from tvmrt.tuning.spread import search_all

Known = list[tuple[Layer, Entry]]
GROUPS = 10  # of layers, each left out once


def known_of(path: Path) -> Known:
    entries = database.read(path) if path.exists() else []
    return [(parse_layer(each.layer), each) for each in entries]


def fill(models: Sequence[Path], path: Path, effort: Effort) -> dict[Path, list[Layer]]:
    """The layers of the networks, all of them in the database afterwards."""
    found = {}
    for each in models:
        program = tvmrt.compile(str(each), target="native").program
        found[each] = list(layers_of(program))
        left = missing(found[each], [entry for _, entry in known_of(path)], effort)
        for entry in search_all([layer.text for layer in left], effort):
            database.add(path, [entry])
    return found


def runner(network: Path, tuned: object, winograd: bool):
    library = tvmrt.compile(
        str(network), target="native", executor="aot", tuned=tuned, winograd=winograd
    )
    return tvmrt.load(library).warm_executor().run


def seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def mean(ratios: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def networks(models: Sequence[Path], path: Path, rounds: int, winograd: bool) -> None:
    layers = fill(models, path, Effort(winograd=winograd))
    known = known_of(path)
    measured = Measured([entry for _, entry in known], None)
    print(f"{'network':28} {'ms':>9} {'gain':>6} {'least':>6}   {'model':>6} {'least':>6}")
    rows = []
    for each in models:
        others = [row for row in known if row[0] not in layers[each]]
        guides = (None, measured, model.Model(model.fit(others)))
        runs = [runner(each, guide, winograd) for guide in guides]
        times = [[seconds(run) for run in runs] for _ in range(rounds + 2)][2:]
        least = [min(column) for column in zip(*times)]
        row = (
            median(a / b for a, b, _ in times), least[0] / least[1],
            median(c / b for _, b, c in times), least[2] / least[1],
        )  # fmt: skip
        rows.append(row)
        print(
            f"{each.stem:28} {1e3 * least[0]:9.4f} {row[0]:6.3f} {row[1]:6.3f}   {row[2]:6.3f} "
            f"{row[3]:6.3f}",
            flush=True,
        )
    means = [mean(column) for column in zip(*rows)]
    print(
        f"geometric mean{'':24} {means[0]:6.3f} {means[1]:6.3f}   {means[2]:6.3f} {means[3]:6.3f}"
    )


def lost(entry: Entry, choice) -> float:
    """How many times as long a choice took as the fastest that was tried."""
    direct = [each for each in entry.tried if not each.choice.square]
    least = min(each.seconds for each in direct)
    return next(each.seconds for each in direct if each.choice == choice) / least


def fit(path: Path, output: Path) -> None:
    known = [row for row in known_of(path) if len(row[1].tried) > 1]
    by_model, by_estimate = [], []
    for group in range(GROUPS):
        fitted = model.fit([row for i, row in enumerate(known) if i % GROUPS != group])
        guide = model.Model(fitted)
        for layer, entry in known[group::GROUPS]:
            choices = [each.choice for each in entry.tried if not each.choice.square]
            found = guide.choice(layer, entry.level, lambda choices=choices: choices)
            by_model.append(lost(entry, found[0] if found else choices[0]))
            by_estimate.append(lost(entry, choices[0]))
    print(f"{len(known)} layers, each left out once; slower than the fastest that was tried:")
    print(f"  the model     mean {mean(by_model):.4f}, worst {max(by_model):.3f}")
    print(f"  the estimate  mean {mean(by_estimate):.4f}, worst {max(by_estimate):.3f}")
    output.write_text(json.dumps(model.as_json(model.fit(known)), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=os.environ.get("TVMRT_MODELS"))
    parser.add_argument("--networks", nargs="*", help="their names; all in float32 if left out")
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--database", type=Path, default=database.own_path())
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
