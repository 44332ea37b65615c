"""A small language model: continue a text, letter by letter.

Network: a feed-forward language model, trained here: from the last 8 letters to the next one. Text:
Python's own reference, which every installation has. Writes a text that it makes up.
"""

import argparse
import pydoc_data.topics
import warnings
from pathlib import Path

import numpy as np
from sklearn.neural_network import MLPClassifier

import tvmrt

warnings.filterwarnings("ignore", module="sklearn")  # training ends before it has converged
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--out", type=Path, default=Path("language_model.txt"))
options = parser.parse_args()

LETTERS, CONTEXT, TRAINED, TESTED = " abcdefghijklmnopqrstuvwxyz.,", 8, 50_000, 4000
words = " ".join(pydoc_data.topics.topics.values()).lower().split()
text = " ".join(word for word in words if set(word) <= set(LETTERS))[: TRAINED + TESTED + CONTEXT]
codes = np.array([LETTERS.index(letter) for letter in text])
one_hot = np.eye(len(LETTERS), dtype=np.float32)[codes]
rows = np.lib.stride_tricks.sliding_window_view(one_hot, CONTEXT, axis=0)[:-1]
rows, following = rows.reshape(len(rows), -1), codes[CONTEXT:]
model = MLPClassifier(hidden_layer_sizes=128, max_iter=8, random_state=0)
net = tvmrt.load(model.fit(rows[:TRAINED], following[:TRAINED]), dims={"batch": (1, TESTED)})

_, probabilities = net(rows[TRAINED:])
bits = -np.log2(probabilities[np.arange(TESTED), following[TRAINED:]]).mean()
made, rng = list(codes[:CONTEXT]), np.random.default_rng(0)
for _ in range(400):
    row = np.eye(len(LETTERS), dtype=np.float32)[made[-CONTEXT:]].T.reshape(1, -1)
    likely = net(row)[1][0] ** 1.5
    made.append(rng.choice(len(LETTERS), p=likely / likely.sum()))
options.out.write_text("".join(LETTERS[code] for code in made) + "\n", encoding="utf-8")
print(f"{bits:.3f} bits a letter of new text; equal chances take {np.log2(len(LETTERS)):.3f}")
