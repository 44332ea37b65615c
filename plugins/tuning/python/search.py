"""Search for the fastest choice of a layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from tvmrt.compiler import processor
from tvmrt.compiler.codegen.c.initializers import PARALLEL_WORK
from tvmrt.compiler.codegen.depth_first_tiling import fused_layers
from tvmrt.compiler.codegen.lowering_protocols import Tunable
from tvmrt.compiler.codegen.target import Target, get_target, vector_key
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.tuned import MIN_MACS, Choice, level_for
from tvmrt.compiler.ir.tuned_layer import (
    BYTES,
    DEPTHWISE,
    RECURRENT,
    Layer,
    layer_of,
    parse_layer,
)
from tvmrt.compiler.ir.winograd import TILE_SIZES
from tvmrt.libinfo import __version__
from tvmrt.plugins.tuning.database import Measurement, TuningEntry
from tvmrt.plugins.tuning.measure import Timing, measure, options_of

MAX_TIME_RATIO = 0.98  # maximum time relative to the usual choice; a smaller gain may be noise
MAX_TIME_RATIO_THREADS = (
    0.95  # maximum time relative to fewer threads, which leave some to other programs
)
ALWAYS_PARALLEL = 250 * PARALLEL_WORK  # multiply-adds; larger layers always use all threads


@dataclass(frozen=True)
class SearchSettings:
    """Settings of a search.

    Parameters
    ----------
    candidates
        Number of candidates to try, those that the estimate ranks first.
    seconds
        Duration of a measurement.
    threads
        Maximum number of threads of a run; with 1, sharing a layer is not measured.
    winograd
        Whether to try Winograd for 3x3 convolutions.
    cc
        C compiler.
    """

    candidates: int = 12
    seconds: float = 0.3
    threads: int = 1
    winograd: bool = False
    cc: str | None = None


def layers_of(program: Program) -> dict[Layer, int]:
    """Return the layers of a network that have several choices, in network order, with the number
    of occurrences of each."""
    result: dict[Layer, int] = {}
    for step in (part for whole in program.steps for part in fused_layers(whole)):
        layer = layer_of(step.group.root)
        if layer is None or layer.macs < MIN_MACS:
            continue
        if isinstance(step.lowering, Tunable) and step.lowering.options(step):
            result[layer] = result.get(layer, 0) + 1
    return result


def search(text: str, settings: SearchSettings) -> TuningEntry:
    """Search the layer with a signature on this machine. Raises ValueError for an invalid
    signature, CompileError and OSError if compilation fails."""
    layer, target = parse_layer(text), get_target("native")
    choices = options_of(layer, target)[: settings.candidates]
    winograd_choices = [Choice(square=size) for size in _winograd_tiles(layer, settings)]
    rows = measure(layer, [*choices, *winograd_choices], target, settings.seconds, 1, settings.cc)
    direct = min(rows[: len(choices)], key=lambda row: row.seconds)
    baseline, best = _confirm_best(layer, target, rows[0].choice, direct.choice, settings)
    shared: list[Timing] = []
    if _may_use_threads(layer, settings):
        shared = _measure_threads(layer, target, best.choice, settings)
        best = replace(best, choice=_fewest_threads(shared))
    return TuningEntry(
        text, level_for(layer, vector_key(target)), processor.name(), baseline, best,
        _best_winograd_tile(rows, len(choices)), _measurements(rows), f"tvmrt {__version__}",
        settings.threads if shared else 0, _measurements(shared),
    )  # fmt: skip


def _measurements(rows: Sequence[Timing]) -> tuple[Measurement, ...]:
    return tuple(Measurement(row.choice, row.seconds) for row in rows)


def _winograd_tiles(layer: Layer, settings: SearchSettings) -> Sequence[int]:
    """Return the Winograd tile sizes to try."""
    return TILE_SIZES if settings.winograd and layer.fits_winograd else ()


def _best_winograd_tile(rows: Sequence[Timing], direct: int) -> int:
    """Return the fastest Winograd tile size, or 1 if direct convolution is as fast."""
    if len(rows) == direct:
        return 0
    fastest = min(row.seconds for row in rows[:direct])
    best = min(rows[direct:], key=lambda row: row.seconds)
    return best.choice.square if best.seconds < MAX_TIME_RATIO * fastest else 1


def _confirm_best(
    layer: Layer, target: Target, baseline: Choice, best: Choice, settings: SearchSettings
) -> tuple[Measurement, Measurement]:
    """Measure the usual and the best choice again, next to each other: the fastest of many
    measurements is often a lucky one. Also try the best choice with other numbers of weight blocks
    in cache and, for int8, of pixels per requantisation."""
    choices = [baseline, *_cache_variants(layer, best), *_pixel_variants(layer, best)]
    first, *others = measure(layer, choices, target, settings.seconds, 1, settings.cc)
    row = min(others, key=lambda row: row.seconds)
    before = Measurement(baseline, first.seconds)
    wins = row.seconds < MAX_TIME_RATIO * first.seconds and row.ratio < 1
    return before, Measurement(row.choice, row.seconds) if wins else before


def _cache_variants(layer: Layer, choice: Choice) -> list[Choice]:
    """Return the choice, and variants with other numbers of weight blocks kept in cache."""
    if choice.tile is None or layer.kind in (DEPTHWISE, RECURRENT):
        return [choice]
    blocks = ceil_div(layer.outputs[0], choice.tile[0] * choice.tile[1])
    wanted = {1, ceil_div(blocks, 4), ceil_div(blocks, 2), blocks} - {choice.at_once}
    return [choice, *(replace(choice, at_once=each) for each in sorted(wanted))]


def _pixel_variants(layer: Layer, choice: Choice) -> list[Choice]:
    """Return variants with other numbers of pixels that are requantised together."""
    if choice.tile is None or layer.element not in BYTES:
        return []
    wanted = (4, 16, 64)
    return [
        replace(choice, pixels=n * choice.tile[2])
        for n in wanted
        if n * choice.tile[2] < layer.pixels
    ]


def _may_use_threads(layer: Layer, settings: SearchSettings) -> bool:
    return settings.threads > 1 and layer.macs < ALWAYS_PARALLEL and layer.may_use_threads


def thread_counts(threads: int) -> list[int]:
    """Return the numbers of threads to try: powers of two below ``threads``, then ``threads``."""
    return [*takewhile(lambda n: n < threads, (1 << i for i in range(20))), threads]


def _measure_threads(
    layer: Layer, target: Target, best: Choice, settings: SearchSettings
) -> list[Timing]:
    """Measure the choice with several numbers of threads; the last one uses all threads."""
    *fewer, _ = thread_counts(settings.threads)
    variants = [replace(best, threads=count) for count in (*fewer, 0)]
    return measure(layer, variants, target, settings.seconds, settings.threads, settings.cc)


def _fewest_threads(rows: Sequence[Timing]) -> Choice:
    """Return the choice with the fewest threads that more threads do not clearly beat."""
    best = rows[0]
    for row in rows[1:]:
        if row.seconds < MAX_TIME_RATIO_THREADS * best.seconds and row.ratio < best.ratio:
            best = row
    return best.choice


def layers_to_tune(
    layers: Iterable[Layer], known: Iterable[TuningEntry], settings: SearchSettings
) -> list[Layer]:
    """Return the layers without a sufficient entry for this machine's kind of processor."""
    here, level = processor.name(), vector_key(get_target("native"))
    by_key = {each.key: each for each in known}
    result = []
    for layer in layers:
        entry = by_key.get((layer.text, level_for(layer, level), here))
        is_known = entry is not None
        if entry is not None and _winograd_tiles(layer, settings):
            is_known = entry.square != 0
        if entry is not None and _may_use_threads(layer, settings):
            is_known = is_known and entry.threads >= settings.threads
        if not is_known:
            result.append(layer)
    return result
