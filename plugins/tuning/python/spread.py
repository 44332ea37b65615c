"""Distribution of layer searches: one after the other here, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvmrt.plugins.tuning.database import Entry, as_json, entry_of
from tvmrt.plugins.tuning.search import Effort, search


def search_all(
    layers: Sequence[str], effort: Effort, address: str | None = None
) -> Iterator[Entry]:
    """Yield the entry of each layer, given by its signature, as soon as it is known.

    ``address`` is a Ray cluster, ``auto`` for the one that this machine belongs to, or None to
    measure here. Raises the errors of ``search``, ImportError if Ray is not installed, and
    ConnectionError if no cluster is found.
    """
    if address is None:
        return (search(layer, effort) for layer in layers)
    return _by_ray(layers, effort, address)


def _by_ray(layers: Sequence[str], effort: Effort, address: str) -> Iterator[Entry]:
    """Search on a Ray cluster, one layer per machine at a time: two would slow each other."""
    ray = _ray()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        alone = min(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        task = ray.remote(num_cpus=max(1, int(alone)), max_retries=0)(_searched)
        waiting = [task.remote(layer, effort) for layer in layers]
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            yield entry_of(ray.get(ready[0]))
    finally:
        ray.shutdown()


def _searched(layer: str, effort: Effort) -> dict[str, Any]:
    return as_json(search(layer, effort))


def _ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise ImportError(
            f"distributing layers needs the package ray ({problem}): pip install ray on every "
            "machine; or omit --ray"
        ) from problem
    return ray
