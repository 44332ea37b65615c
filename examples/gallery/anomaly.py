"""Anomaly detection: hear the damaged bearing of a machine.

Network: an autoencoder, trained here on intact machines. Sound: synthesised, a hum in noise; damage
adds faint clicks. Writes a plot of the reconstruction errors.
"""

import argparse
from pathlib import Path

import numpy as np
from plot import write_svg
from sklearn.metrics import roc_auc_score
from sklearn.neural_network import MLPRegressor
from voice import RATE

import tvmrt

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("anomaly.svg"))
options = parser.parse_args()
rng, INTACT, TESTED, TIME = np.random.default_rng(0), 400, 60, np.arange(RATE // 2) / RATE


def machine(damage: float) -> np.ndarray:
    """Return half a second of a machine that makes about 25 turns a second."""
    turns = rng.normal(25, 1) * TIME
    hum = sum(np.sin(2 * np.pi * k * (turns + rng.uniform())) / k for k in range(1, 12))
    clicks = np.exp(-20 * (turns * 3.6 % 1)) * np.sin(6000 * np.pi * TIME)
    return np.asarray(0.1 * hum + damage * clicks + rng.normal(0, 0.02, len(TIME)))


sounds = np.array([machine(damage) for damage in [0] * (INTACT + TESTED) + [0.06] * TESTED])
power = np.abs(np.fft.rfft(sounds * np.hanning(len(TIME)))[:, :4000]) ** 2
bands = np.log10(power.reshape(len(sounds), 50, 80).mean(2)).astype(np.float32)
known, new = np.split((bands - bands[:INTACT].mean(0)) / bands[:INTACT].std(0), [INTACT])
model = MLPRegressor(hidden_layer_sizes=(16, 4, 16), tol=1e-3, random_state=0)
net = tvmrt.load(model.fit(known, known), dims={"batch": 2 * TESTED})
errors = ((net(new).reshape(new.shape) - new) ** 2).mean(1)
write_svg(options.out, {"reconstruction error of 60 intact and 60 damaged machines": errors})
print(f"AUC {roc_auc_score([0] * TESTED + [1] * TESTED, errors):.4f} of {len(new)} machines")
