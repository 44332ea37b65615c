"""The digits network as a web service: ``uvicorn --app-dir examples/serving fastapi_app:app``.

Any number of requests may be under way in one process: a network may be called from all threads.
When the server is stopped, it answers the requests that it has, and no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import service
from fastapi import FastAPI
from service import Answer, Image


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Watch the network's file as long as the server runs."""
    service.network.start()
    yield
    await asyncio.to_thread(service.network.stop)


app = FastAPI(lifespan=lifespan)
service.equip(app)


@app.post("/digit")
async def digit(image: Image) -> Answer:
    """Tell which digit an image shows."""
    net, version = await service.current()
    # a network of milliseconds: other requests go on meanwhile. One of microseconds: net(...)
    probabilities = await net.acall(image.tensor()[None])
    return Answer.of(probabilities[0], version)
