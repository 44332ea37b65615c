"""``tvmrt tune``: measure the fastest way to compute each layer of networks on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import console, files, options
from tvmrt.cli.option_groups import GroupedCommand
from tvmrt.units import COUNT, SECONDS

if TYPE_CHECKING:
    from tvmrt.compiler.ir.tuned_layer import Layer
    from tvmrt.plugins.tuning.database import TuningEntry
    from tvmrt.plugins.tuning.search import SearchSettings

MIN_ROUNDS, MAX_ROUNDS = 11, 2000


@dataclass(frozen=True)
class NetworkGain:
    """Times of a network before and after tuning with ``threads`` threads, and the median speed-up
    over rounds.

    ``before_seconds``: Fastest run.
    """

    network: str
    threads: int
    before_seconds: float
    after_seconds: float
    speed: float
    speed_of_fastest: float


@click.command(
    "tune",
    cls=GroupedCommand,
    rows=(
        "precision", "winograd", "row_chains", "max_error", "operators", "shapes", "dims",
        "sequences", "cc",
    ),
)  # fmt: skip
@click.argument("models", nargs=-1, required=True, type=options.PATH, metavar="MODEL...")
@click.option(
    "--database", "named", default="own", metavar="FILE|own",
    help="Database to add to. own: $TVMRT_TUNING, or tvmrt/tuning.json in the user's cache "
    "folder.",
)  # fmt: skip
@click.option(
    "--candidates", type=options.Quantity(COUNT, 2), default=12, show_default=True,
    help="Number of candidates to try per layer, the most promising first.",
)  # fmt: skip
@click.option(
    "--seconds", type=options.Quantity(SECONDS, 0.01), default="300ms", show_default=True,
    metavar="TIME",
    help="Time to measure each layer: 1, 500ms; a second measurement takes twice as long.",
)  # fmt: skip
@click.option(
    "--again", is_flag=True, help="Also measure layers that the database already contains."
)
@click.option(
    "--ray", "address", metavar="ADDRESS",
    help="Distribute the layers over a Ray cluster of machines with one processor type: "
    "HOST:PORT or auto; local: this machine only.",
)  # fmt: skip
@options.threads
@console.json_option
def command(
    models: tuple, named: str, candidates: int, seconds: float, again: bool, address: str | None,
    threads: int, as_json: bool, **compile_options: Any,
) -> None:  # fmt: skip
    """Measure the fastest way to compute each layer of the networks MODEL on this machine. Results
    go to a database for 'compile --tuned'. With --threads, also measure the threads per layer."""
    from tvmrt.cli.session import THREADS_VARIABLE
    from tvmrt.compiler.option_rules import uses_winograd
    from tvmrt.plugins.tuning import database
    from tvmrt.plugins.tuning.search import SearchSettings, layers_of, layers_to_tune

    for model in models:
        files.check_file(model)
    path = database.database_path(named)
    known = database.read(path) if path.exists() else []
    os.environ[THREADS_VARIABLE] = str(threads)
    squares = uses_winograd(compile_options["winograd"], compile_options["precision"])
    settings = SearchSettings(candidates, seconds, threads, squares, compile_options["cc"])
    with console.progress(not as_json) as report:
        layers: dict[Layer, int] = {}
        baseline = [_compile_network(model, None, compile_options) for model in models]
        for library in baseline:
            for layer, count in layers_of(library.program).items():
                layers[layer] = layers.get(layer, 0) + count
        wanted = list(layers) if again else layers_to_tune(layers, known, settings)
        _search(wanted, settings, path, address, report)
        pairs = zip(models, baseline) if layers else ()
        gains = [
            gain
            for model, library in pairs
            for gain in _gains(model, library, path, threads, compile_options, report)
        ]
    rows = _rows(layers, database.read(path) if path.exists() else [])
    if as_json:
        found = {"database": str(path), "measured": len(wanted), "layers": rows}
        console.print_json("tune", {**found, "networks": gains})
    elif not layers:
        console.note(
            "nothing to search: tuning knows convolutions, products and recurrent layers with "
            "constant weights and fixed sizes, of 10,000 multiply-adds and more"
        )
    else:
        _print(rows, gains, path, len(wanted))


def _compile_network(model: Path, tuned: Path | None, compile_options: Mapping[str, Any]) -> Any:
    from tvmrt.compiler.pipeline import compile as compile_network

    return compile_network(str(model), target="native", tuned=tuned, **compile_options)


def _search(
    layers: Sequence[Layer], settings: SearchSettings, path: Path, address: str | None, report: Any
) -> None:
    """Measure layers, adding each result to the database immediately."""
    from tvmrt.plugins.tuning import database
    from tvmrt.plugins.tuning.ray_search import search_all

    for done, entry in enumerate(search_all([each.text for each in layers], settings, address)):
        database.add(path, [entry])
        if report is not None:
            report(console.shorten(entry.layer), done, len(layers))


def _gains(
    model: Path,
    baseline: Any,
    path: Path,
    threads: int,
    compile_options: Mapping[str, Any],
    report: Any,
) -> list[NetworkGain]:
    """Time the untuned network ``baseline`` and the tuned one in turn, per number of threads."""
    from tvmrt.network.loading import load
    from tvmrt.plugins.tuning.search import thread_counts
    from tvmrt.runtime import get_global_func

    if report is not None:
        report(f"{model.name} before and after", 0, 1)
    tuned = _compile_network(model, path if path.exists() else None, compile_options)
    runs = [load(library).warm_executor().run for library in (baseline, tuned)]
    result = []
    for count in thread_counts(threads):  # the process keeps the last setting
        get_global_func("runtime.config_threadpool")(0, count)
        result.append(_gain(model.name, count, runs))
    return result


def _gain(name: str, threads: int, runs: Sequence[Any]) -> NetworkGain:
    rounds = [_time_round(runs) for _ in range(2)][1:]  # the first round starts with cold caches
    count = min(MAX_ROUNDS, max(MIN_ROUNDS, int(2.0 / sum(rounds[0]))))
    rounds = [_time_round(runs) for _ in range(count)]
    before, after = (min(column) for column in zip(*rounds))
    return NetworkGain(
        name, threads, before, after, median(a / b for a, b in rounds), before / after
    )


def _time_round(runs: Sequence[Any]) -> list[float]:
    times = []
    for run in runs:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return times


def _rows(layers: Mapping[Layer, int], entries: Iterable[TuningEntry]) -> list[dict[str, Any]]:
    """Return the database's results for the networks' layers on this kind of processor."""
    from tvmrt.compiler import processor

    found = {each.layer: each for each in entries if each.processor == processor.name()}
    return [
        {
            "layer": layer.text, "count": count, "before_seconds": entry.baseline.seconds,
            "after_seconds": entry.best.seconds, "choice": _describe_choice(entry),
            "square": entry.square,
        }
        for layer, count in layers.items()
        if (entry := found.get(layer.text))
    ]  # fmt: skip


def _describe_choice(entry: TuningEntry) -> str:
    """Describe the best choice; a tile that the estimate also selects is omitted."""
    best, baseline = entry.best.choice, entry.baseline.choice
    if (best.tile, best.at_once, best.pixels) == (baseline.tile, baseline.at_once, baseline.pixels):
        best = replace(best, tile=None, at_once=0)
    return str(best)


def _print(
    rows: Sequence[Mapping[str, Any]], gains: Sequence[NetworkGain], path: Path, measured: int
) -> None:
    seconds = console.format_seconds
    table = [
        (
            row["layer"], row["count"], seconds(row["before_seconds"]),
            seconds(row["after_seconds"]), _choice(row),
        )
        for row in sorted(rows, key=lambda row: -row["count"] * row["before_seconds"])
    ]  # fmt: skip
    columns = ("layer", "count", "before", "after", "choice")
    console.print_table("layers", columns, table, left=("layer", "choice"))
    gain_rows = [
        (
            gain.network, gain.threads, seconds(gain.before_seconds),
            seconds(gain.after_seconds),
            f"{gain.speed:.3f}", f"{gain.speed_of_fastest:.3f}",
        )
        for gain in gains
    ]  # fmt: skip
    columns = ("network", "threads", "before", "after", "times as fast", "fastest runs")
    console.print_table("networks, in turn", columns, gain_rows, left=("network",))
    console.print_pairs({"measured": f"{measured} layers", "database": path})


def _choice(row: Mapping[str, Any]) -> str:
    return f"Winograd {row['square']}" if row["square"] > 1 else row["choice"]
