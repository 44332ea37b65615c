"""Continue a text with a decoder in ONNX, such as a network of TinyStories.

Run: ``python generate.py decoder.onnx tokenizer.json "Once upon a time" --tokens 40``. The network
takes one token and its position, and has caches of fixed length as further inputs and outputs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tokenizers import Tokenizer

import tvmrt


def sample(logits: np.ndarray, temperature: float, top: int, rng: np.random.Generator) -> int:
    """Return one of the ``top`` likeliest tokens, by their probabilities; the likeliest at 0."""
    if temperature == 0:
        return int(logits.argmax())
    best = np.argsort(logits)[-top:]
    weights = np.exp((logits[best] - logits[best].max()) / temperature)
    return int(rng.choice(best, p=weights / weights.sum()))


def generate(
    step: Callable[..., Any], prompt: list[int], count: int, temperature: float, top: int, seed: int
) -> Iterator[int]:
    """Yield tokens that follow the prompt."""
    rng, token = np.random.default_rng(seed), prompt[0]
    for position in range(len(prompt) + count - 1):
        logits = step(np.array([[token]]), np.array([position])).reshape(-1)
        if position + 1 < len(prompt):
            token = prompt[position + 1]
        else:
            token = sample(logits, temperature, top, rng)
            yield token


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("tokenizer")
    parser.add_argument("prompt")
    parser.add_argument("--tokens", type=int, default=40)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    tokenizer = Tokenizer.from_file(given.tokenizer)
    prompt = tokenizer.encode(given.prompt).ids
    with tvmrt.load(given.network).session() as session:
        how = (given.tokens, given.temperature, given.top, given.seed)
        print(tokenizer.decode([*prompt, *generate(session, prompt, *how)]))


if __name__ == "__main__":
    main()
