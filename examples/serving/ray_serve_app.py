"""The digits network as a deployment of Ray Serve: ``serve run ray_serve_app:app`` in this folder.

Serve gathers requests that come at the same time, and the network runs them in one call.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ray import serve
from starlette.requests import Request

import tvmrt

NETWORK = Path(__file__).parents[1] / "digits" / "digits_f32.onnx"
PIXEL_MAX = 16


class Digits:
    """One replica: a process with a network of its own."""

    def __init__(self) -> None:
        self.net = tvmrt.load(NETWORK)

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def probabilities(self, images: list[np.ndarray]) -> list[np.ndarray]:
        """Return the probabilities for each of several images, ``[1, 8, 8]``."""
        return list(self.net(np.stack(images)))

    async def __call__(self, request: Request) -> dict[str, float]:
        """Answer ``{"pixels": [[...], ...]}`` with the digit and its probability."""
        pixels = np.asarray((await request.json())["pixels"], np.float32)
        probabilities: Any = self.probabilities  # of one image: the decorator gathers them
        found = await probabilities(pixels[None] / PIXEL_MAX)
        return {"digit": int(found.argmax()), "probability": float(found.max())}


app = serve.deployment(num_replicas=2, ray_actor_options={"num_cpus": 1})(Digits).bind()
