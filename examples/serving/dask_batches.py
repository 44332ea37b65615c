"""Images through one network a core, by Dask: ``python dask_batches.py [--images N]``.

It prints how many images a second one process runs, and how many each core of the cluster.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

os.environ["TVM_NUM_THREADS"] = "1"  # the cores are busy with other images
import numpy as np
from dask.distributed import Client, LocalCluster

import tvmrt

NETWORK = Path(__file__).parents[1] / "digits" / "digits_f32.onnx"
BATCH = 256  # images of one task


def call(batch: np.ndarray, net: tvmrt.Network) -> Any:
    """Run one batch; a worker has got the network once, with its code and weights."""
    return net(batch)


def predict(client: Client, net: Any, batches: Any) -> np.ndarray:
    """Return the results of all batches, in their order."""
    return np.concatenate(client.gather(client.map(call, batches, net=net, pure=False)))


def main() -> None:
    """Compare a cluster with one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--network", default=str(NETWORK))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    net = tvmrt.load(options.network)
    rng = np.random.default_rng(0)
    images = rng.random((options.images, *map(int, net.inputs[0].shape[1:])), np.float32)
    parts = [images[i : i + BATCH] for i in range(0, len(images), BATCH)]
    begin = time.perf_counter()
    expected = np.concatenate([net(part) for part in parts])
    alone = len(images) / (time.perf_counter() - begin)

    with (
        LocalCluster(
            n_workers=options.cores, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        everywhere = client.scatter(net, broadcast=True)
        batches = client.scatter(parts)
        predict(client, everywhere, batches)  # workers have the network once
        begin = time.perf_counter()
        found = predict(client, everywhere, batches)
        each = len(images) / (time.perf_counter() - begin) / options.cores
    np.testing.assert_array_equal(found, expected)
    print(f"one process {alone:,.0f} images/s; {options.cores} cores {each:,.0f} images/s each")


if __name__ == "__main__":
    main()
