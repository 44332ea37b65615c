"""Train the digits network and write it: ``python examples/digits/train.py [FOLDER]``.

The data are the 1,797 handwritten digits of 8 x 8 pixels that scikit-learn carries (the test part
of the UCI set "Optical Recognition of Handwritten Digits", E. Alpaydin and C. Kaynak, CC BY 4.0).
A fixed third of them is held out for the test and written next to the networks. Seeds are fixed:
the same versions of numpy and scikit-learn on the same machine give the same files.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import network
import numpy as np
import onnx
import to_onnx
from sklearn.datasets import load_digits

SEED = 20
TEST_IMAGES = 600
PIXEL_MAX = 16  # the set counts dark dots in 4 x 4 blocks, so a pixel is 0 to 16


def split_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels, then test images and labels; images are uint8."""
    digits: Any = load_digits()
    images = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    order = np.random.default_rng(SEED).permutation(len(images))
    test, training = order[:TEST_IMAGES], order[TEST_IMAGES:]
    return images[training], labels[training], images[test], labels[test]


def to_input(images: np.ndarray) -> np.ndarray:
    """Return uint8 images ``[N, 8, 8]`` as the network takes them: float32 ``[N, 1, 8, 8]``."""
    return (images[:, None] / PIXEL_MAX).astype(np.float32)


def main() -> None:
    """Train, print the accuracy on the test images, write the two networks and the images."""
    parser = argparse.ArgumentParser(description="Train the digits network and write it as ONNX.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    folder = parser.parse_args().folder

    images, labels, test_images, test_labels = split_digits()
    rng = np.random.default_rng(SEED)
    layers = network.build(rng)
    network.train(layers, to_input(images), labels, rng)
    print(f"test accuracy {network.accuracy(layers, to_input(test_images), test_labels):.4f}")

    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(to_onnx.float_model(layers), folder / "digits_f32.onnx")
    onnx.save(to_onnx.int8_model(layers, to_input(images)), folder / "digits_int8.onnx")
    np.savez_compressed(folder / "digits_test.npz", images=test_images, labels=test_labels)


if __name__ == "__main__":
    main()
