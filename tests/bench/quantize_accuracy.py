"""Print what int8 costs by network: ``python tests/bench/quantize_accuracy.py [NAME...]``.

``tvmrt.quantize`` calibrates with some samples; the answers for others are compared with their
labels. Exit status 1: int8, on hosts or as boards compute it without floats, loses more than 1 %.
digits has real samples. kws, ic and vww are the networks of ``trained_networks.py``, which are
trained first; ``--folder`` keeps them for the next time. Networks of the folder TVMRT_MODELS are
not compared: no labelled samples of their data sets are in a package.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

import tvmrt

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
CALIBRATED = 200  # samples
MAX_LOSS = 0.01
NETWORKS = ("digits", "kws", "ic", "vww")


def files(name: str, folder: Path) -> tuple[Path, Path]:
    """Return the files of a network and of its samples and labels."""
    if name == "digits":
        with np.load(DIGITS / "digits_test.npz") as data:
            images = (data["images"][:, None] / 16).astype(np.float32)
            np.savez(folder / "digits.npz", image=images, label=data["labels"])
        return DIGITS / "digits_f32.onnx", folder / "digits.npz"
    from trained_networks import write  # needs torch

    return write(name, folder)


def accuracy(network: tvmrt.Network, samples: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of samples whose largest score is that of their label."""
    answers = [int(np.argmax(network(sample[None]))) for sample in samples]
    return float(np.mean(answers == labels))


def compare(name: str, folder: Path) -> bool:
    """Print the row of one network. Return whether int8 loses at most 1 %."""
    path, data = files(name, folder)
    with np.load(data) as arrays:
        labels = arrays["label"]
        key = next(each for each in arrays.files if each != "label")
        samples = arrays[key]
    result = tvmrt.quantize(path, {key: samples[:CALIBRATED]})
    model = result.model.SerializeToString()
    networks = (tvmrt.load(path), tvmrt.load(model), tvmrt.load(model, requantize="fixed-point"))
    others = samples[CALIBRATED:], labels[CALIBRATED:]
    float32, int8, fixed = (accuracy(network, *others) for network in networks)
    print(
        f"| {name} | {len(others[0])} | {float32:.1%} | {int8:.1%} | {fixed:.1%} | "
        f"{result.error:.3f} | {result.calibration} |",
        flush=True,
    )
    return min(int8, fixed) >= float32 - MAX_LOSS


def main() -> int:
    """Print the table of the named networks, or of all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", 1)[1])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NETWORKS)}")
    parser.add_argument("--folder", type=Path, help="where trained networks are kept")
    arguments = parser.parse_args()
    print("| network | samples | float32 | int8 | without floats | error | ranges |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        return 0 if all([compare(each, folder) for each in arguments.names or NETWORKS]) else 1


if __name__ == "__main__":
    sys.exit(main())
