"""Test the cost model: what it is fitted to, and what it selects."""

from __future__ import annotations

import json
from math import exp
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.ir import tuned_layer
from tvmrt.compiler.ir.tuned import Choice
from tvmrt.compiler.ir.tuned_layer import Layer, parse_layer
from tvmrt.plugins.tuning import fitted_model
from tvmrt.plugins.tuning.database import Measurement, TuningEntry
from tvmrt.plugins.tuning.measure import options_of

LEVEL, LANES = "16x32", 16
ZEN_4 = "AuthenticAMD 25 17"
TEXTS = [
    f"conv float32 1x{ins}x{size}x{size} by {outs}x{ins}x{k}x{k} stride 1x1 dilation 1x1 pads 0x0 "
    "0x0 groups 1"
    for ins, outs, size, k in [(8, 16, 9, 3), (16, 40, 14, 1), (64, 64, 30, 3), (3, 24, 50, 5),
                               (32, 96, 20, 1), (128, 10, 7, 3)]
]  # fmt: skip


def entry(layer: Layer, choices: list[Choice], costs: np.ndarray) -> TuningEntry:
    measurements = tuple(Measurement(choice, float(cost)) for choice, cost in zip(choices, costs))
    return TuningEntry(
        layer.text, LEVEL, "a processor", measurements[0], measurements[0], 0, measurements
    )


@pytest.fixture(scope="module")
def measured():
    """Return entries whose times follow a function of the features: mostly the number of loads."""
    found = []
    tiles = [(16, 1, 5), (16, 1, 9), (16, 2, 4), (16, 2, 8), (8, 1, 7), (8, 3, 6)]
    for layer in map(parse_layer, TEXTS):
        choices = [Choice(tile) for tile in tiles]
        rows = np.array([fitted_model.features(layer, each, LANES) for each in choices])
        names = rows[:, 0] + 3.0 * rows[:, 4] + 2.0 * rows[:, 5]
        found.append((layer, entry(layer, choices, 1e-9 * np.exp(names))))
    return found


def test_model_predicts_times_of_unseen_layers(measured, monkeypatch):
    monkeypatch.setattr(fitted_model, "RIDGE", 1e-9)
    monkeypatch.setattr(fitted_model, "MAX_SLOWDOWN", 1e9)
    for number, (layer, one) in enumerate(measured):
        others = measured[:number] + measured[number + 1 :]
        choices = [each.choice for each in one.measurements]
        found = fitted_model.FittedModel(fitted_model.fit(others)).choice(
            layer, LEVEL, lambda c=choices: c
        )
        fastest = min(one.measurements, key=lambda each: each.seconds)
        assert found == (fastest.choice, "model")


def slower(layer: Layer, one: TuningEntry, guide: fitted_model.FittedModel) -> tuple[float, float]:
    """Return the slowdown against the fastest choice, for the cost model and for the estimate."""
    seconds = {each.choice: each.seconds for each in one.measurements}
    found = guide.choice(layer, one.level, lambda: list(seconds))
    baseline = next(iter(seconds))
    least = min(seconds.values())
    return seconds[found[0] if found else baseline] / least, seconds[baseline] / least


@pytest.mark.parametrize(("level", "nearest"), [("16x32", 1.012), ("vnni512", 1.013)])
def test_cost_model_beats_the_estimate_on_held_out_layers(level, nearest):
    """Use layers measured on one core of an AVX-512 processor, holding out a tenth at a time."""
    rows = json.loads(Path(__file__).with_name("measured_layers.json").read_text())["layers"]
    known = []
    for row in (row for row in rows if row["level"] == level):
        measurements = tuple(
            Measurement(Choice(tuple(map(int, tile.split("x")))), 1e-6 * us)
            for tile, us in row["us"].items()
        )
        entry = TuningEntry(
            row["layer"], level, "a processor", measurements[0], measurements[0], 0, measurements
        )
        known.append((parse_layer(row["layer"]), entry))
    found = []
    for group in range(10):
        fitted = fitted_model.fit([row for i, row in enumerate(known) if i % 10 != group])
        guide = fitted_model.FittedModel(fitted)
        found += [slower(*row, guide) for row in known[group::10]]
    by_model, by_estimate = np.mean(found, axis=0)
    assert by_model < by_estimate
    assert by_model < nearest


@pytest.mark.parametrize(("wins", "taken"), [(0.5, 0), (2.0, 1)])
def test_gains_below_the_model_error_use_the_estimate(measured, wins, taken):
    layer, one = measured[0]
    costs = {
        each.choice: fitted_model.features(layer, each.choice, LANES)[0]
        for each in one.measurements
    }
    choices = [max(costs, key=costs.get), min(costs, key=costs.get)]
    weight = wins * fitted_model.MIN_LOG_GAIN / (costs[choices[0]] - costs[choices[1]])
    known = {
        (LEVEL, tuned_layer.DENSE): fitted_model.Coefficients([weight], fitted_model.MIN_LAYERS)
    }
    found = fitted_model.FittedModel(known).choice(layer, LEVEL, lambda: choices)
    assert found == (choices[taken], "model")


def test_small_or_rarely_measured_layers_use_the_estimate(measured):
    guide = fitted_model.FittedModel(fitted_model.fit(measured[: fitted_model.MIN_LAYERS - 1]))
    layer, one = measured[-1]
    choices = [each.choice for each in one.measurements]
    assert guide.choice(layer, LEVEL, lambda: choices) is None
    guide = fitted_model.FittedModel(fitted_model.fit(measured))
    assert guide.choice(layer, LEVEL, lambda: choices) is not None
    small = parse_layer("matmul float32 1x90 by 90x100")
    assert guide.choice(small, LEVEL, lambda: choices) is None


def test_measurements_disturbed_by_other_programs_are_dropped(measured):
    layer, one = measured[2]
    slow = Measurement(one.measurements[-1].choice, 100 * one.measurements[-1].seconds)
    stray = (layer, TuningEntry(*one.key, one.baseline, one.best, 0, (*one.measurements, slow)))
    assert fitted_model.fit([*measured[:2], stray]) == fitted_model.fit(measured[:3])


def test_file_contains_the_fitted_model(measured):
    (row,) = fitted_model.as_json(fitted_model.fit(measured))["coefficients"]
    assert (row["level"], row["kind"], row["layers"]) == (LEVEL, "dense", len(measured))
    assert len(row["weights"]) == len(
        fitted_model.features(measured[0][0], Choice((16, 1, 5)), LANES)
    )


def test_shipped_coefficients_match_the_features():
    assert (
        json.loads(fitted_model.FILE.read_text(encoding="utf-8"))["schema"] == fitted_model.SCHEMA
    )
    depthwise = parse_layer(TEXTS[0].replace("16x8x3x3", "8x1x3x3").replace("groups 1", "groups 8"))
    for (_, kind), each in (
        *fitted_model.default_coefficients(None).items(),
        *fitted_model.default_coefficients(ZEN_4).items(),
    ):
        layer = depthwise if kind == tuned_layer.DEPTHWISE else parse_layer(TEXTS[0])
        assert layer.kind == kind
        assert len(each.weights) == len(fitted_model.features(layer, Choice((16, 1, 5)), LANES))
        assert 0 < exp(each.cost(layer, Choice((16, 1, 5)), LANES)) < 1e12


def test_coefficients_per_processor_kind():
    key = "16x32", tuned_layer.DENSE
    own, other = (
        fitted_model.default_coefficients(ZEN_4)[key],
        fitted_model.default_coefficients("another")[key],
    )
    assert own.processor == ZEN_4
    assert other.processor != ZEN_4


def test_a_level_without_coefficients_is_left_to_the_estimate():
    layer = parse_layer(TEXTS[0])
    options = options_of(layer, get_target("native"))
    assert options
    assert fitted_model.FittedModel().choice(layer, "1x8", lambda: options) is None


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("matmul uint8 16x64 by 64x32", "vnni512"),
        ("gru float32 16x1x48 by 48x16", LEVEL),
        ("conv_transpose float32 1x8x8x8 by 8x4x4x4 stride 2x2 dilation 1x1 pads 1x1 1x1 groups 1",
         LEVEL),
    ],
)  # fmt: skip
def test_coefficients_per_layer_kind(text, level):
    layer = parse_layer(text)
    choices = [Choice((16, vectors, 1)) for vectors in (1, 2)]
    assert fitted_model.FittedModel({}).choice(layer, level, lambda: choices) is None
    measurements = tuple(Measurement(choice, cost) for choice, cost in zip(choices, (1.5e-6, 1e-6)))
    one = TuningEntry(text, level, "a processor", measurements[0], measurements[1], 0, measurements)
    fitted = fitted_model.FittedModel(fitted_model.fit([(layer, one)] * fitted_model.MIN_LAYERS))
    assert fitted.choice(layer, level, lambda: choices) == (choices[1], "model")


def test_compile_uses_the_cost_model_and_reports_it(digits):
    def used(target, **more):
        library = tvmrt.compile(
            str(digits / "digits_f32.onnx"), target=target, tuned="model", **more
        )
        return [row["source"] for row in library.manifest.get("tuned", [])]

    assert set(used("x86-64", levels=("v4",))) == {"model"}
    assert used("x86-64", levels=("v2",)) == []
