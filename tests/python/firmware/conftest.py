"""The digits networks, their test images, and onnxruntime's results."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from firmware_program import DIGITS


@pytest.fixture(scope="session", autouse=True)
def compiler():
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    with np.load(DIGITS / "digits_test.npz") as archive:
        return (archive["images"][:60].astype(np.float32) / 16).reshape(-1, 1, 1, 8, 8)


@pytest.fixture(scope="session", params=["f32", "int8"])
def digits(request) -> Path:
    return DIGITS / f"digits_{request.param}.onnx"


@pytest.fixture(scope="session")
def golden(images):
    """Return probabilities by onnxruntime for a network's path."""
    runtime = pytest.importorskip("onnxruntime")

    def probabilities(path: Path) -> np.ndarray:
        session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return np.concatenate([session.run(None, {"image": image})[0] for image in images])

    return probabilities
