"""Distribution of layer searches: one after the other here, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvmrt.plugins.tuning.database import TuningEntry, as_json, parse_entry
from tvmrt.plugins.tuning.search import SearchSettings, search


def search_all(
    layers: Sequence[str], settings: SearchSettings, address: str | None = None
) -> Iterator[TuningEntry]:
    """Yield the entry of each layer, given by its signature, as soon as it is known.

    ``address`` is a Ray cluster, ``auto`` for the one that this machine belongs to, or None to
    measure here. Raises the errors of ``search``, ImportError if Ray is not installed, and
    ConnectionError if no cluster is found.
    """
    if address is None:
        return (search(layer, settings) for layer in layers)
    return _search_on_ray(layers, settings, address)


def _search_on_ray(
    layers: Sequence[str], settings: SearchSettings, address: str
) -> Iterator[TuningEntry]:
    """Search on a Ray cluster, one layer per machine at a time: two would slow each other."""
    ray = _ray()
    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    try:
        node_cpus = min(node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"])
        task = ray.remote(num_cpus=max(1, int(node_cpus)), max_retries=0)(_search_as_json)
        waiting = [task.remote(layer, settings) for layer in layers]
        while waiting:
            ready, waiting = ray.wait(waiting, num_returns=1)
            yield parse_entry(ray.get(ready[0]))
    finally:
        ray.shutdown()


def _search_as_json(layer: str, settings: SearchSettings) -> dict[str, Any]:
    return as_json(search(layer, settings))


def _ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise ImportError(
            f"distributing layers needs the package ray ({problem}): pip install ray on every "
            "machine; or omit --ray"
        ) from problem
    return ray
