"""Cost model: predicts the time of a choice relative to others of its layer, from shapes only.

The logarithm of the time is a sum of features times coefficients; terms that are equal for all
choices of a layer cancel. ``model.json`` has the coefficients, which
``plugins/tuning/bench/bench_tune.py --fit`` fits by least squares to tuning databases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.compiler.codegen.window.tiles_f32 import row_cycles
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.tuned import MIN_MACS, Choice
from tvmrt.compiler.ir.tuned_layer import BYTES, Layer

if TYPE_CHECKING:
    from tvmrt.plugins.tuning.database import TuningEntry

FILE = Path(__file__).with_name("model.json")
SCHEMA = "tvmrt/tuning-model/1"
CACHE = 32 << 10  # approximate bytes of the first-level cache
RIDGE = 1e-4  # ridge regularisation of coefficients, relative to the number of rows
MAX_SLOWDOWN = 2.0  # times the fastest; slower measurements were disturbed or are irrelevant
MAX_CHOICES = 12  # number of the estimate's first choices to consider; others have no data
MIN_LOG_GAIN = 0.01  # minimum gain in the logarithm of the time; less is within the model's error
MIN_LAYERS = 5  # minimum number of layers for a usable fit


def lanes_of(level: str) -> int:
    """Return the float lanes of a full vector at an ISA level; 0 for int8 levels, whose vectors are
    always full."""
    number = level.partition("x")[0]
    return int(number) if number.isdecimal() else 0


def features(layer: Layer, choice: Choice, lanes: int) -> list[float]:
    """Return the features of a choice's tile; ``lanes`` is the size of a full vector."""
    own, vectors, width = choice.tile or (lanes, 1, 1)
    row = layer.row_pixels
    if layer.depthwise:
        tiles = ceil_div(row, width)
        return [log(tiles * (width + 0.5 + (layer.w[-1] - 1) / 3)), log(tiles), 1.0 / width]
    channels, window = layer.outputs
    window = ceil_div(window, 4) if layer.element in BYTES else window  # dot products of 4 bytes
    half = own < lanes
    blocks = ceil_div(channels, own * vectors)
    cycles = blocks * row_cycles((row,), vectors, width, window, 0.5 if half else 1.0)
    return [
        log(cycles),
        log(blocks * own * vectors / channels),  # unused lanes
        float(half),
        float(half and row == 1),  # bound by weight loads
        1 / vectors,
        1 / width,
        1 / (vectors * width),  # independent accumulators, which hide the multiply latency
        row % width / row,
        (row % width > 0) / (row // width + 1),
        max(0.0, log(4 * window * own * vectors / CACHE)),
        max(0.0, log(4 * window * width / CACHE)),
        vectors * width / window,
    ]


@dataclass(frozen=True)
class Coefficients:
    """Coefficients of one level and kind of layer, fitted to ``layers`` layers."""

    weights: Sequence[float]
    layers: int
    processor: str = ""

    def cost(self, layer: Layer, choice: Choice, lanes: int) -> float:
        """Return a cost, larger for slower choices of a layer."""
        return sum(w * f for w, f in zip(self.weights, features(layer, choice, lanes)))


Known = Mapping[tuple[str, str], Coefficients]


@lru_cache(maxsize=4)
def default_coefficients(processor: str | None) -> Known:
    """Return tvmrt's coefficients by level and kind of layer: this processor's, or another's if it
    has none."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))["coefficients"]
    rows.sort(key=lambda row: row["processor"] == processor)  # this processor's override others
    return {
        (row["level"], row["kind"]): Coefficients(row["weights"], row["layers"], row["processor"])
        for row in rows
    }


def as_json(known: Known) -> dict[str, Any]:
    """Return coefficients as JSON data."""
    rows = [
        {"level": level, "kind": kind, "processor": each.processor, "layers": each.layers,
         "weights": [round(w, 5) for w in each.weights]}
        for (level, kind), each in sorted(known.items())
    ]  # fmt: skip
    return {"schema": SCHEMA, "coefficients": rows}


def fit(entries: Iterable[tuple[Layer, TuningEntry]]) -> dict[tuple[str, str], Coefficients]:
    """Fit coefficients to the measurements of entries by least squares."""
    import numpy as np

    found: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    processors: dict[tuple[str, str], str] = {}
    for layer, entry in entries:
        lanes = lanes_of(entry.level)
        measurements = [
            each for each in entry.measurements if each.choice.tile and not each.choice.square
        ]
        fastest = min((each.seconds for each in measurements), default=0.0)
        measurements = [each for each in measurements if each.seconds < MAX_SLOWDOWN * fastest]
        if len(measurements) < 2:
            continue
        rows = np.array([features(layer, each.choice, lanes) for each in measurements])
        times = np.log([each.seconds for each in measurements])
        key = entry.level, layer.kind
        found.setdefault(key, []).append((rows - rows.mean(0), times - times.mean()))
        processors[key] = entry.processor
    fitted = {}
    for key, parts in found.items():
        x, y = (np.concatenate(each) for each in zip(*parts))
        ridge = RIDGE * len(x) * np.eye(x.shape[1])
        prior = np.zeros(x.shape[1])
        prior[0] = 1.0  # without data, use the estimate
        weights = prior + np.linalg.solve(x.T @ x + ridge, x.T @ (y - x @ prior))
        fitted[key] = Coefficients([float(w) for w in weights], len(parts), processors[key])
    return fitted


class FittedModel:
    """Cost model as a guide of the compiler, by default with the coefficients of tvmrt."""

    def __init__(self, known: Known | None = None, processor: str | None = None) -> None:
        self._known = default_coefficients(processor) if known is None else known

    def choice(
        self, layer: Layer, level: str, options: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, str] | None:
        """Choose by cost, see ``ir.tuned.Guide``. Return None for a level without coefficients or
        with too few fitted layers, and for a layer that is too small to tune."""
        found = self._known.get((level, layer.kind))
        if found is None or found.layers < MIN_LAYERS or layer.macs < MIN_MACS:
            return None
        choices = options()[:MAX_CHOICES]
        if not choices:
            return None
        lanes = lanes_of(level)
        costs = [found.cost(layer, each, lanes) for each in choices]
        best = costs.index(min(costs))
        return choices[best if costs[best] < costs[0] - MIN_LOG_GAIN else 0], "model"

    def square(self, layer: Layer, level: str) -> tuple[Choice, str] | None:
        """Return None: the estimate decides, see ``ir.tuned.Guide``."""
        return None
