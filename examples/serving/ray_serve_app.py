"""The digits network as a deployment of Ray Serve: ``serve run ray_serve_app:app`` in this folder.

Serve gathers requests that come at the same time, and the network runs them in one call. A replica
that is stopped first answers the requests that it has.
"""

# Annotations are not postponed: replicas make the paths again, without the names of this module.
import asyncio
import tempfile
from typing import Any

import numpy as np
import service
from fastapi import FastAPI
from ray import serve
from ray.serve import Application
from service import Answer, Image

http = FastAPI()
service.equip(http)


@serve.deployment(num_replicas=2, graceful_shutdown_timeout_s=30)
@serve.ingress(http)
class Digits:
    """One replica: a process with a network of its own."""

    def __init__(self) -> None:
        service.network.get()  # a replica without a network is not started
        service.network.start()

    def __del__(self) -> None:
        service.network.stop()

    @serve.batch(max_batch_size=16, batch_wait_timeout_s=0.002)
    async def answers(self, images: list[np.ndarray]) -> list[Answer]:
        """Answer for each of several images, ``[1, 8, 8]``, by one network, which takes one."""
        net, version = service.network.get()

        def run() -> list[np.ndarray]:
            return [net(image[None])[0] for image in images]

        # on a thread: the replica takes requests of the next batch meanwhile
        found = await asyncio.to_thread(run)
        return [Answer.of(each, version) for each in found]

    @http.post("/digit")
    async def digit(self, image: Image) -> Answer:
        """Tell which digit an image shows."""
        answers: Any = self.answers  # of one image: the decorator gathers them
        answer: Answer = await answers(image.tensor())
        return answer


def app(arguments: dict[str, str]) -> Application:
    """Return the application. ``metrics`` is a folder through which the replicas of a machine
    report together: ``serve run ray_serve_app:app metrics=/run/digits``."""
    folder = arguments.get("metrics") or tempfile.mkdtemp(prefix="digits-metrics-")
    environment = {"env_vars": {"PROMETHEUS_MULTIPROC_DIR": folder}}
    actor = {"num_cpus": 1, "runtime_env": environment}
    deployment: Any = Digits  # so the decorators made it
    return deployment.options(ray_actor_options=actor).bind()
