"""Denoise: remove noise from speech.

Network: trained here on synthesised voices. Writes the sound of a new voice before and after.
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.signal import istft, stft
from sklearn.neural_network import MLPRegressor
from voice import RATE, speak, write_wav

import tvmrt

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("denoise.wav"))
options = parser.parse_args()
rng = np.random.default_rng(0)


def example(pitch: int) -> tuple[np.ndarray, ...]:
    clean = np.pad(speak("".join(rng.choice(list("aeiou"), 9)), 3, pitch, 9), RATE // 2)
    noise = clean.std() * rng.standard_normal(len(clean)).astype(np.float32)
    speech, hiss = (stft(sound, RATE, nperseg=512, noverlap=384)[2].T for sound in (clean, noise))
    level = np.log(np.abs(speech + hiss) + 1e-4).astype(np.float32) + 5
    windows = np.concatenate([np.roll(level, 1, 0), level, np.roll(level, -1, 0)], 1)
    share = np.abs(speech) ** 2 / (np.abs(speech) ** 2 + np.abs(hiss) ** 2)
    return windows, share, clean, noise, speech + hiss


x, y = (np.concatenate(part) for part in zip(*(example(p)[:2] for p in range(90, 200, 12))))
model = MLPRegressor(hidden_layer_sizes=64, max_iter=80, tol=1e-3, random_state=0).fit(x, y)
windows, _, clean, noise, mixed = example(133)
net = tvmrt.load(model, dims={"batch": (1, len(windows))})
share = np.clip(net(windows).reshape(mixed.shape), 0, 1)
after = istft((mixed * share).T, RATE, nperseg=512, noverlap=384)[1][: len(clean)]
write_wav(options.out, np.concatenate([clean + noise, after]))
gain = 10 * np.log10(np.sum(noise**2) / np.sum((after - clean) ** 2))
print(f"gain {gain:.2f} dB of the ratio of signal to noise")
