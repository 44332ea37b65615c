"""Code that the HTTP servers of this folder share: checks of requests, replacement of the network
while the server runs, health and readiness, Prometheus metrics.

``DIGITS_NETWORK`` names the file of the network, ``DIGITS_RELOAD_SECONDS`` the time between two
looks at it. With several processes on a machine, ``PROMETHEUS_MULTIPROC_DIR`` names a folder,
empty or missing, through which each of them reports the metrics of all.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from fastapi import APIRouter, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as AnyHTTPException

import tvmrt

NETWORK = Path(
    os.environ.get("DIGITS_NETWORK") or Path(__file__).parents[1] / "digits" / "digits_f32.onnx"
)
METRICS_FOLDER = os.environ.get("PROMETHEUS_MULTIPROC_DIR")
RELOAD_SECONDS = float(os.environ.get("DIGITS_RELOAD_SECONDS", "2"))
SIDE, PIXEL_MAX, DIGITS = 8, 16, 10
log = logging.getLogger("uvicorn.error")

# ---- metrics ----

if METRICS_FOLDER:
    os.makedirs(METRICS_FOLDER, exist_ok=True)
REQUESTS = Counter("digits_requests", "Answered requests", ["path", "status"])
ERRORS = Counter("digits_errors", "Requests answered with a status of 400 or above", ["path"])
LATENCY = Histogram(
    "digits_latency_seconds",
    "Time from a request to its answer",
    ["path"],
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)
IN_FLIGHT = Gauge(
    "digits_in_flight", "Requests without an answer", ["path"], multiprocess_mode="livesum"
)
VERSION = Gauge(
    "digits_network_version",
    "Processes that use the network of this version",
    ["version"],
    multiprocess_mode="livesum",
)
RELOADS = Counter("digits_reloads", "Loads of the network's file", ["result"])


# ---- requests ----

Pixel = Annotated[float, Field(ge=0, le=PIXEL_MAX, allow_inf_nan=False, strict=True)]
Row = Annotated[list[Pixel], Field(min_length=SIDE, max_length=SIDE)]


class Image(BaseModel):
    """8 rows of 8 pixels, 0 to 16."""

    model_config = ConfigDict(extra="forbid")
    pixels: Annotated[list[Row], Field(min_length=SIDE, max_length=SIDE)]

    def tensor(self) -> np.ndarray:
        """Return the image as the network takes it: float32, ``[1, 8, 8]``, 0 to 1."""
        return np.asarray(self.pixels, np.float32)[None] / PIXEL_MAX


class Answer(BaseModel):
    """The digit, how sure the network is, 0 to 1, and the version of the network."""

    digit: int
    probability: float
    version: str

    @classmethod
    def of(cls, probabilities: np.ndarray, version: str) -> Answer:
        """Return the answer for the probabilities of the ten digits."""
        best = int(probabilities.argmax())
        return cls(digit=best, probability=float(probabilities[best]), version=version)


async def refuse(_: Request, error: Exception) -> JSONResponse:
    """Answer a wrong request with 422: a field and a sentence for each problem.

    The given values are not repeated, because JSON has no NaN.
    """
    assert isinstance(error, RequestValidationError)
    problems = []
    for each in error.errors():
        field = "".join(f"[{k}]" if isinstance(k, int) else f".{k}" for k in each["loc"][1:])
        if each["type"] == "json_invalid":
            field = ""
        field = field.lstrip(".") or "body"
        problems.append({"field": field, "message": f"{field}: {each['msg']}"})
    return JSONResponse({"detail": problems}, 422)


async def refuse_body(_: Request, error: Exception) -> JSONResponse:
    """Answer a body that no JSON parser reads, such as wrong UTF-8, with 422, too."""
    assert isinstance(error, AnyHTTPException)
    if error.status_code != 400:
        return JSONResponse({"detail": error.detail}, error.status_code, error.headers)
    message = "body: the request has no valid JSON in UTF-8"
    return JSONResponse({"detail": [{"field": "body", "message": message}]}, 422)


# ---- the network ----


class Loaded(NamedTuple):
    """A network that has run once, and the version of its file: 12 digits of its SHA-256."""

    net: tvmrt.Network
    version: str


class ServedNetwork:
    """A network of a file that may be replaced at any time. All methods may be called from all
    threads.

    A caller gets a network with ``get`` and uses it to the end of its request, so a replacement
    changes no request that has begun. Write the new file aside, then rename it: a file that is
    written in place is seen, and mapped, in parts. A file that cannot be used is reported in
    ``error``, in the log and in the metrics, and the previous network stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.error: str | None = None
        self._loaded: Loaded | None = None
        self._state: tuple[int, ...] | None = None  # of the file at the last attempt
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def loaded(self) -> Loaded | None:
        """The current network; None before the first one is loaded."""
        return self._loaded

    def get(self) -> Loaded:
        """Return the current network; the first call loads it. Raises RuntimeError if that
        fails."""
        if self._loaded is None:
            self.refresh()
        if self._loaded is None:
            raise RuntimeError(self.error or f"{self.path} is being replaced; try again")
        return self._loaded

    def refresh(self) -> None:
        """Load the file if it has changed since the last attempt. Never raises."""
        with self._lock:
            state = self._file_state()
            if state == self._state:
                return
            try:
                if state is None:
                    raise FileNotFoundError(f"{self.path} does not exist")
                fresh = self._load()
                if self._file_state() != state:
                    return  # replaced meanwhile: the next look loads it
            except Exception as error:
                self._state = state
                self.error = f"{type(error).__name__}: {error}"
                RELOADS.labels("failed").inc()
                log.error("the network was not loaded: %s", self.error)
                return
            if self._loaded is not None:
                VERSION.labels(self._loaded.version).set(0)
            VERSION.labels(fresh.version).set(1)
            RELOADS.labels("done").inc()
            self._state, self._loaded, self.error = state, fresh, None
            log.info("network %s of %s is in use", fresh.version, self.path)

    def start(self) -> None:
        """Look at the file from time to time, on a thread of its own."""
        self._thread = threading.Thread(target=self._watch, name="network-file", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End that thread, and this process's part in the metrics of several."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        if METRICS_FOLDER:
            shared: Any = multiprocess  # it has no types
            shared.mark_process_dead(os.getpid())

    def _watch(self) -> None:
        self.refresh()
        while not self._stopped.wait(RELOAD_SECONDS):
            self.refresh()

    def _file_state(self) -> tuple[int, ...] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _load(self) -> Loaded:
        version = hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]
        net = tvmrt.load(self.path)
        # the first call opens what later ones use, and shows that the network fits this service
        found = net(np.zeros((1, 1, SIDE, SIDE), np.float32))
        if getattr(found, "shape", None) != (1, DIGITS):
            raise ValueError(f"{self.path} does not return {DIGITS} probabilities for an image")
        return Loaded(net, version)


network = ServedNetwork(NETWORK)


async def current() -> Loaded:
    """Return the network for a request. Raises the answer 503 if there is none."""
    if network.loaded is not None:
        return network.loaded
    try:
        return await asyncio.to_thread(network.get)
    except RuntimeError as error:
        raise HTTPException(503, str(error)) from None


# ---- paths of every server ----

router = APIRouter()


@router.get("/health")
def health() -> dict[str, str]:
    """Answer as long as the process does; a supervisor restarts it otherwise."""
    return {"status": "alive"}


@router.get("/ready")
def ready(response: Response) -> dict[str, Any]:
    """Answer 200 if requests can be answered. ``error`` says why the last file is not in use."""
    loaded = network.loaded
    response.status_code = 503 if loaded is None else 200
    version = loaded and loaded.version
    return {"ready": loaded is not None, "version": version, "error": network.error}


@router.get("/metrics")
def metrics() -> Response:
    """Return the metrics as Prometheus reads them."""
    registry = REGISTRY
    if METRICS_FOLDER:
        registry = CollectorRegistry()
        shared: Any = multiprocess
        shared.MultiProcessCollector(registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


async def measure(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Count a request and its time. Unknown paths count as one, or a client could make any number
    of time series."""
    path = request.url.path if request.url.path in KNOWN else "other"
    start, status = time.perf_counter(), 500
    with IN_FLIGHT.labels(path).track_inprogress():
        try:
            answer = await call_next(request)
            status = answer.status_code
            return answer
        finally:
            LATENCY.labels(path).observe(time.perf_counter() - start)
            REQUESTS.labels(path, str(status)).inc()
            if status >= 400:
                ERRORS.labels(path).inc()


KNOWN = {"/digit", "/health", "/ready", "/metrics"}


def equip(app: FastAPI) -> None:
    """Add the paths, the answers to wrong requests and the metrics to a server."""
    app.include_router(router)
    app.add_exception_handler(RequestValidationError, refuse)
    app.add_exception_handler(AnyHTTPException, refuse_body)
    app.middleware("http")(measure)
