"""The digits network as a web service: ``uvicorn --app-dir examples/serving fastapi_app:app``.

Any number of requests may be under way in one process: a network may be called from all threads.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import tvmrt

NETWORK = Path(__file__).parents[1] / "digits" / "digits_f32.onnx"
PIXEL_MAX = 16

net = tvmrt.load(NETWORK)  # compiled by the first process, found in the cache by all others
app = FastAPI()


class Image(BaseModel):
    """8 rows of 8 pixels, 0 to 16."""

    pixels: list[list[float]]


class Answer(BaseModel):
    """The digit, and how sure the network is, 0 to 1."""

    digit: int
    probability: float


@app.post("/digit")
async def digit(image: Image) -> Answer:
    """Tell which digit an image shows."""
    pixels = np.asarray(image.pixels, np.float32)
    if pixels.shape != (8, 8):
        raise HTTPException(422, f"8 rows of 8 pixels are needed, not {pixels.shape}")
    # a network of milliseconds: other requests go on meanwhile. One of microseconds: net(...)
    probabilities = (await net.acall(pixels[None, None] / PIXEL_MAX))[0]
    best = int(probabilities.argmax())
    return Answer(digit=best, probability=float(probabilities[best]))
