"""Images through one network a core, by Dask: ``python dask_batches.py [--images N]``.

It prints how many images a second one process runs, how many each of several plain processes at the
same time, and how many each worker of the cluster: by the clock, and by processor time.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

os.environ["TVM_NUM_THREADS"] = "1"  # the cores are busy with other images
import dask.config
import numpy as np
import plain_processes
from dask.distributed import Client, LocalCluster, get_worker
from plain_processes import Moment, Rate, now, rate

import tvmrt

NETWORK = Path(__file__).parents[1] / "digits" / "digits_f32.onnx"


def call(images: np.ndarray, net: tvmrt.Network) -> tuple[np.ndarray, str, Moment, Moment]:
    """Run one task; a worker has got the network once, with its code and weights."""
    begin = now()
    result = plain_processes.calls(net, images)
    return result, get_worker().address, begin, now()


def predict(client: Client, net: Any, parts: Any) -> tuple[np.ndarray, list[Rate]]:
    """Return the results of all parts, in their order, and the rate of each worker, from its first
    task to its last: the way between tasks is in it, that workers start is not."""
    done: Any = client.gather(client.map(call, parts, net=net, pure=False))
    by_worker: dict[str, list[tuple[int, Moment, Moment]]] = {}
    for result, worker, begin, end in done:
        by_worker.setdefault(worker, []).append((len(result), begin, end))
    rates = [
        rate(
            sum(count for count, _, _ in tasks),
            min(begin for _, begin, _ in tasks),
            max(end for _, _, end in tasks),
        )
        for tasks in by_worker.values()
    ]
    return np.concatenate([result for result, *_ in done]), rates


def main() -> None:
    """Compare a cluster with one process, and with as many plain ones; each result is compared."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--network", default=str(NETWORK))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    net = plain_processes.load(options.network)
    rng = np.random.default_rng(0)
    images = rng.random((options.images, *map(int, net.inputs[0].shape[1:])), np.float32)
    parts = plain_processes.shares(images, options.cores)
    expected = plain_processes.results(net, parts)

    # Background work of a worker needs its core: statistics of its own calls take a twelfth of it
    # while a network computes, the heartbeat of fifty times a second a hundredth.
    quiet = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "1s"}
    dask.config.set(quiet)
    one_a_core: dict[str, Any] = {
        "n_workers": options.cores,
        "threads_per_worker": 1,
        "dashboard_address": None,
    }
    with (
        LocalCluster(**one_a_core) as cluster,
        Client(cluster) as client,
    ):
        everywhere = client.scatter(net, broadcast=True)
        scattered = client.scatter(parts)
        client.run(plain_processes.warm, net)  # and the modules that tasks name are imported

        def one_round() -> list[Rate]:
            found, rates = predict(client, everywhere, scattered)
            np.testing.assert_array_equal(found, expected)
            return rates

        one_round()  # workers have all shares once
        print(
            plain_processes.compare(
                options.network, images, options.cores, options.rounds, one_round
            )
        )


if __name__ == "__main__":
    main()
