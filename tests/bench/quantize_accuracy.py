"""Print what int8 costs by network: ``python tests/bench/quantize_accuracy.py [NAME...]``.

``tvmrt.quantize`` calibrates with some samples; the answers are compared on others. digits has real
samples with labels. The others stand for tasks of MLPerf Tiny, whose data sets no package has: they
are trained networks in the folder ``TVMRT_MODELS``. Their samples are one recording or picture with
other gain, shift and noise, and the answer of the float32 network counts as right.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tvmrt

ROOT = Path(__file__).resolve().parents[2]
CALIBRATED, COMPARED = 100, 200  # samples

Network = tuple[Any, str, np.ndarray, "np.ndarray | None"]  # model, input, samples, labels


def digits() -> Network:
    """Return the network of the examples, with real samples and labels."""
    with np.load(ROOT / "examples/digits/digits_test.npz") as data:
        images, labels = (data["images"][:, None, None] / 16).astype(np.float32), data["labels"]
    count = CALIBRATED + COMPARED
    return (
        onnx.load(ROOT / "examples/digits/digits_f32.onnx"), "image", images[:count],
        labels[:count],
    )  # fmt: skip


def of_folder(name: str) -> Network:
    """Return a network of the folder TVMRT_MODELS, with variants of its sample."""
    folder = Path(os.environ["TVMRT_MODELS"])
    with np.load(folder / f"{name}.npz") as data:
        ((key, sample),) = ((k, data[k]) for k in data.files if not k.startswith("out:"))
    return onnx.load(folder / f"{name}.onnx"), key, variants(sample), None


def variants(sample: np.ndarray) -> np.ndarray:
    """Return a sample with other gains, shifts along each axis, and noise."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(CALIBRATED + COMPARED):
        shift = [int(rng.integers(-n // 4, n // 4 + 1)) for n in sample.shape[-3:-1]]
        moved = np.roll(sample, shift, (-3, -2)) * rng.uniform(0.5, 1.5)
        noise = rng.uniform(0, 1) * sample.std() * rng.standard_normal(sample.shape)
        found.append(np.clip(moved + noise, sample.min(), sample.max()).astype(np.float32))
    return np.stack(found)


NETWORKS: dict[str, Callable[[], Network]] = {
    "digits": digits, "kws": lambda: of_folder("kws_dscnn_f32"),
    "ic": lambda: of_folder("resnet8_f32"),
    "mobilenetv2": lambda: of_folder("mobilenetv2_100_224_f32"),
}  # fmt: skip


def row(name: str) -> str:
    """Return the row of one network."""
    model, key, samples, labels = NETWORKS[name]()
    result = tvmrt.quantize(model, {key: samples[:CALIBRATED]})
    answers = []
    for each in (model, result.model):
        net = tvmrt.load(each.SerializeToString())
        answers.append(np.array([net(x).argmax() for x in samples[CALIBRATED:]]))
    right = answers[0] if labels is None else labels[CALIBRATED:]
    float32, int8 = (float(np.mean(each == right)) for each in answers)
    kind = "labels" if labels is not None else f"{len({*answers[0].tolist()})} answers of float32"
    return (
        f"| {name} | {kind} | {float32:.1%} | {int8:.1%} | {result.error:.3f} | "
        f"{result.calibration} |"
    )


def main() -> int:
    """Print the table of the named networks, or of all."""
    print("| network | right are | float32 | int8 | error | ranges |\n|---|---|---|---|---|---|")
    for name in sys.argv[1:] or NETWORKS:
        print(row(name), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
