"""``tvmrt bench``: compare the speed of compiled networks with other runtimes.

A round calls each runtime once, with NumPy inputs and outputs, in rotating order, so all runtimes
see the same state of the machine. The reported speed is the median of the ratios within a round.
The ratio of the fastest calls is reported as well, because it is reliable on a busy machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Any, Callable

import click

from tvmrt import plugin
from tvmrt.cli import (
    connections,
    console,
    dynamic_sizes,
    files,
    onnx_reference,
    onnxruntime_session,
    options,
    sequence_io,
)
from tvmrt.compiler.option_values import parse_names
from tvmrt.error import suggestion
from tvmrt.file_suffix import suffix_of
from tvmrt.units import SECONDS

if TYPE_CHECKING:
    import onnx

    from tvmrt.cli.session import Session

ONNX_RIVAL = "onnxruntime"
COMPILED = (".so", ".tar", ".elf")
MIN_ROUNDS, MAX_ROUNDS = 5, 20_000
OperatorTimes = Callable[["Session", str], Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Timing:
    """Times of one runtime in seconds, and the speed of tvmrt relative to it.

    ``median``: Median of a call. ``speed``: Speed of tvmrt relative to this runtime: median over
    rounds.
    """

    runtime: str
    median: float
    fastest: float
    speed: float
    speed_of_fastest: float


@dataclass(frozen=True)
class Result:
    """Results of one network.

    ``network``: Network, with the sizes of its dynamic dimensions. ``timings``: Timings, that of
    tvmrt first. ``compile_seconds``: Compile time; 0 for a compiled network. ``operators``:
    Operators in execution order, with --profile.
    """

    network: str
    timings: Sequence[Timing]
    rounds: int
    compile_seconds: float
    operators: Sequence[Mapping[str, Any]] = ()


@click.command("bench", cls=connections.ConnectedCommand, rows=())
@click.argument("models", nargs=-1, required=True, type=options.PATH, metavar="MODEL...")
@click.option(
    "--against",
    multiple=True,
    metavar="NAME[,NAME...]",
    help="Runtimes to compare with: onnxruntime, or the runtime of the file format.",
)
@options.inputs_option
@click.option(
    "--seconds",
    type=options.Quantity(SECONDS, 0.01),
    default="2s",
    show_default=True,
    metavar="TIME",
    help="How long to measure each network: 5, 500ms, 1min.",
)
@click.option(
    "--profile",
    "profiled",
    is_flag=True,
    help="Show time, GFLOP/s, bytes per second and roofline fraction of each operator. The "
    "roofline uses the measured compute and memory bandwidth of this machine.",
)
@options.threads
@console.json_option
def command(
    models: tuple, against: tuple, inputs_file: Path | None, seconds: float, threads: int,
    profiled: bool, remote: connections.RemoteExecution, as_json: bool, **choices: Any,
) -> None:  # fmt: skip
    """Time each network MODEL, alone or against another runtime.

    Compiled networks (.so, or .tar of tvmc compile) are timed alone."""
    rivals = parse_names(against)
    _check_rivals(rivals)
    if inputs_file and len(models) > 1:
        raise click.UsageError("--inputs are for one MODEL; time each of several alone")
    for model in models:
        files.check_file(model)
    choices["remote_machine"] = remote_machine = remote.open()
    if rivals and remote_machine is not None:
        raise click.UsageError(f"--against compares on this machine: omit {remote_machine.option}")
    if profiled and remote_machine is not None:
        raise click.UsageError(
            f"--profile times operators on this machine: omit {remote_machine.option}"
        )
    if profiled and any(map(_is_compiled, models)):
        raise click.UsageError(
            "--profile needs the network file; 'tvmrt run --profile' times a compiled library"
        )
    profiler = plugin.hook("operator times", "bench --profile") if profiled else None
    timed_operators = profiler and profiler.timed_operators
    results = []
    with console.progress(not as_json) as report:
        for done, model in enumerate(models):
            if report:
                report("networks", done, len(models))
            results += _measure(
                model, rivals, inputs_file, seconds, threads, choices, timed_operators
            )
    machine = profiler and profiler.with_rooflines([each.operators for each in results], threads)
    if as_json:
        machine_of = {} if machine is None else {"machine": machine}
        console.print_json("bench", {**_as_dict(results, threads), **machine_of})
        return
    _print(results, threads)
    if machine is not None:
        for each in results:
            profiler.print_operators(each.network, each.operators)
        profiler.print_machine(machine)


def _check_rivals(rivals: Sequence[str]) -> None:
    """Raise UsageError for a runtime that no network format is compared with."""
    if set(rivals) <= {ONNX_RIVAL}:
        return
    known = [ONNX_RIVAL, *filter(None, (each.rival for each in plugin.importers()))]
    for rival in rivals:
        if rival not in known:
            raise click.UsageError(
                f"--against {rival}: unknown runtime; {suggestion(rival, known)}"
            )


def _measure(
    path: Path,
    rivals: Sequence[str],
    inputs_file: Path | None,
    seconds: float,
    threads: int,
    choices: Mapping[str, Any],
    timed_operators: OperatorTimes | None,
) -> list[Result]:
    """Measure a network, at several sizes if it has dynamic dimensions; with ``timed_operators``,
    measure its operators as well."""
    from tvmrt.cli.session import compile_session

    if _is_compiled(path):
        return [_measure_compiled(path, rivals, inputs_file, seconds, threads, choices)]
    judged: Any = path
    importer = plugin.importer_of(path)
    if importer is not None:
        model: Any = path
        tried = [dynamic_sizes.Trial("", importer.inputs(path, inputs_file, choices))]
    else:
        read = onnx_reference.load_model(path)
        model, choices = sequence_io.sequences_to_tensors(read, choices)
        model, choices = dynamic_sizes.with_chosen_dims(model, choices)
        tried = dynamic_sizes.trials(model, choices, inputs_file)
        judged = path if model is read else model  # the path also covers external weights
    results = []
    with tempfile.TemporaryDirectory(prefix="tvmrt-bench-") as folder:
        start = time.perf_counter()
        session = compile_session(model, Path(folder), threads, choices)
        compile_seconds = time.perf_counter() - start
        for trial in tried:
            calls = {"tvmrt": partial(session.run, trial.inputs)}
            for rival in rivals:
                calls[rival] = _rival_call(rival, judged, trial.inputs, threads, choices)
            times = _interleave(session, trial.inputs, calls, seconds)
            name = f"{path.stem} {trial.sizes}".rstrip()
            operators = () if timed_operators is None else timed_operators(session, name)
            rounds = len(times["tvmrt"])
            results.append(Result(name, _timings(times), rounds, compile_seconds, operators))
    return results


def _is_compiled(path: Path) -> bool:
    return suffix_of(path) in COMPILED or plugin.linker_of(path) is not None


def _measure_compiled(
    path: Path,
    rivals: Sequence[str],
    inputs_file: Path | None,
    seconds: float,
    threads: int,
    choices: Mapping[str, Any],
) -> Result:
    """Measure a network that is already compiled."""
    from tvmrt.cli.session import Session

    if rivals:
        raise ValueError(f"{path} is compiled; to compare with {rivals[0]} give the network file")
    session = Session(path, threads, remote_machine=choices["remote_machine"])
    if inputs_file is None:
        for info in session.inputs:
            if not all(isinstance(extent, int) for extent in info.shape):
                raise ValueError(f"{path}: input {info.name} has a dynamic size; give --inputs")
        inputs = onnx_reference.random_inputs(session.inputs)
    else:
        inputs = session.checked_inputs(files.load_inputs(inputs_file), str(inputs_file))
    times = _interleave(session, inputs, {"tvmrt": partial(session.run, inputs)}, seconds)
    return Result(path.stem, _timings(times), len(times["tvmrt"]), 0.0)


def _interleave(
    session: Session,
    inputs: Mapping[str, Any],
    calls: Mapping[str, Callable[[], Any]],
    seconds: float,
) -> Mapping[str, Sequence[float]]:
    """Time the calls; for a remote network, time only its runs, by the remote clock."""
    if session.remote_machine is None:
        return interleave(calls, seconds)
    session.run(inputs)
    one = min(session.time(MIN_ROUNDS))
    rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, int(seconds / max(one, 1e-7))))
    return {"tvmrt": session.time(rounds)}


def _timings(times: Mapping[str, Sequence[float]]) -> list[Timing]:
    ours = times["tvmrt"]
    return [
        Timing(
            name,
            median(theirs),
            min(theirs),
            median(their / our for their, our in zip(theirs, ours)),
            min(theirs) / min(ours),
        )
        for name, theirs in times.items()
    ]


def _rival_call(
    rival: str,
    model: Path | onnx.ModelProto,
    inputs: Mapping[str, Any],
    threads: int,
    choices: Mapping[str, Any],
) -> Callable[[], Any]:
    importer = plugin.importer_of(model) if isinstance(model, Path) else None
    other = ONNX_RIVAL if importer is None else importer.rival
    if rival != other:
        advice = f"compare with {other}" if other else "leave --against out"
        raise ValueError(f"{rival} cannot run this network; {advice}")
    if importer is not None:
        return importer.rival_call(model, inputs, threads, choices)
    if not isinstance(model, Path):
        model = onnxruntime_session.without_fixed_extents(model, inputs)
    session = onnxruntime_session.onnxruntime_session(model, threads)
    feeds = dict(inputs)
    return lambda: session.run(None, feeds)


def interleave(calls: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, list[float]]:
    """Call all in rounds for some seconds, at least five rounds; return seconds by name and round.

    Each is called twice in a row and the second call counts. The first one brings its weights back
    into the caches, which the others have used.
    """
    order = list(calls)
    for name in order:
        calls[name]()
    times: dict[str, list[float]] = {name: [] for name in calls}
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < MIN_ROUNDS or (time.perf_counter() < end and rounds < MAX_ROUNDS):
        for name in order:
            call = calls[name]
            call()
            start = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - start)
        order.append(order.pop(0))
        rounds += 1
    return times


def _speeds(results: Sequence[Result]) -> dict[str, list[float]]:
    """Return the speeds relative to each rival, one per network."""
    speeds: dict[str, list[float]] = {}
    for result in results:
        for rival in result.timings[1:]:
            speeds.setdefault(rival.runtime, []).append(rival.speed)
    return speeds


def _as_dict(results: Sequence[Result], threads: int) -> dict[str, Any]:
    summary = {
        rival: {"geometric_mean": geometric_mean(speeds), "least": min(speeds)}
        for rival, speeds in _speeds(results).items()
    }
    networks_timed = [
        {name: value for name, value in asdict(result).items() if name != "operators" or value}
        for result in results
    ]
    return {"threads": threads, "networks": networks_timed, "speed": summary}


def _print(results: Sequence[Result], threads: int) -> None:
    seconds = console.format_seconds
    rows = []
    for result in results:
        ours, *rivals = result.timings
        row = [result.network, seconds(ours.median), seconds(ours.fastest)]
        for rival in rivals:
            row += [seconds(rival.median), seconds(rival.fastest)]
            row += [f"{rival.speed:.2f}", f"{rival.speed_of_fastest:.2f}"]
        rows.append([*row, result.rounds])
    columns = ["network", "tvmrt", "fastest"]
    for rival in results[0].timings[1:]:
        columns += [rival.runtime, "fastest", "speed", "by fastest"]
    title = f"median time of a call, {threads} thread{'s' if threads > 1 else ''}"
    console.print_table(title, [*columns, "rounds"], rows, left=("network",))
    for rival, speeds in _speeds(results).items():
        click.echo(
            f"{geometric_mean(speeds):.2f} times the speed of {rival} (geometric mean of "
            f"{len(speeds)}; minimum {min(speeds):.2f})"
        )
