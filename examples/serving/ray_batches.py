"""Images through one network a core, by Ray: ``python ray_batches.py [--images N]``.

It prints how many images a second one process runs, how many each of several plain processes at the
same time, and how many each actor of the cluster: by the clock, and by processor time.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ["TVM_NUM_THREADS"] = "1"  # the cores are busy with other images
os.environ.setdefault("RAY_worker_niceness", "0")  # 15 by default: to give way to all others
import numpy as np
import plain_processes
import ray
from plain_processes import Moment, Rate, now, rate

import tvmrt

NETWORK = Path(__file__).parents[1] / "digits" / "digits_f32.onnx"


class Predictor:
    """An actor of Ray: it gets the network with its code and weights, and needs no compiler."""

    def __init__(self, net: tvmrt.Network) -> None:
        self.net = plain_processes.warm(net)
        self.first: Moment | None = None

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results of a batch, who made them, and from when to when this actor works."""
        self.first = self.first or now()
        result = plain_processes.calls(self.net, batch["data"])
        report = {"actor": (os.getpid(),), "begin": self.first, "end": now()}
        return {
            "result": result,
            **{k: np.tile(np.array(v), (len(result), 1)) for k, v in report.items()},
        }


def predict(net: tvmrt.Network, inputs: Any, cores: int) -> tuple[np.ndarray, list[Rate]]:
    """Return the results of all inputs, in their order, and the rate of each actor, from its first
    batch to its last: the way between batches is in it, that actors start is not."""
    results = inputs.map_batches(
        Predictor,
        fn_constructor_args=[net],
        batch_size=None,  # each part of the inputs is a batch
        compute=ray.data.ActorPoolStrategy(size=cores),
        num_cpus=1,
    )
    batches = list(results.iter_batches(batch_size=None))
    actors, begin, end = (
        np.concatenate([batch[name] for batch in batches]) for name in ("actor", "begin", "end")
    )
    rates = []
    for actor in np.unique(actors):
        own = (actors == actor)[:, 0]
        first, last = Moment(*begin[own].min(axis=0)), Moment(*end[own].max(axis=0))
        rates.append(rate(int(own.sum()), first, last))
    return np.concatenate([batch["result"] for batch in batches]), rates


def main() -> None:
    """Compare a cluster with one process, and with as many plain ones; each result is compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--network", default=str(NETWORK))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    net = plain_processes.load(options.network)
    shape = net.inputs[0].shape
    rng = np.random.default_rng(0)
    images = rng.random((options.images, *map(int, shape[1:])), np.float32)
    parts = plain_processes.shares(images, options.cores)
    expected = plain_processes.results(net, parts)

    ray.init(num_cpus=options.cores, log_to_driver=False, include_dashboard=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    inputs = ray.data.from_numpy(parts).materialize()

    def cluster() -> list[Rate]:
        found, rates = predict(net, inputs, options.cores)
        np.testing.assert_array_equal(found, expected)
        return rates

    print(plain_processes.compare(options.network, images, options.cores, options.rounds, cluster))
    ray.shutdown()


if __name__ == "__main__":
    main()
