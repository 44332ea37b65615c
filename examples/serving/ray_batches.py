"""Images through one network a core, by Ray: ``python ray_batches.py [--images N]``.

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
import ray

import tvmrt

NETWORK = Path(__file__).parents[1] / "digits" / "digits_f32.onnx"
BATCH = 256  # images of one call of an actor


class Predictor:
    """An actor of Ray: it gets the network with its code and weights, and needs no compiler."""

    def __init__(self, net: tvmrt.Network) -> None:
        self.net = net

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the results of a batch, and from when to when it was under way."""
        begin = time.time()
        result = self.net(batch["data"])
        times = {"begin": np.full(len(result), begin), "end": np.full(len(result), time.time())}
        return {"result": result, **times}


def predict(net: tvmrt.Network, inputs: Any, cores: int) -> tuple[np.ndarray, float]:
    """Return the results of all inputs, in their order, by as many actors as there are cores, and
    the seconds from the first batch to the last; that actors start is not in it."""
    results = inputs.map_batches(
        Predictor, fn_constructor_args=[net], batch_size=BATCH, concurrency=cores, num_cpus=1
    )
    rows = results.take_all()
    seconds = max(row["end"] for row in rows) - min(row["begin"] for row in rows)
    return np.stack([row["result"] for row in rows]), seconds


def main() -> None:
    """Compare a cluster with one process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--network", default=str(NETWORK))
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    net = tvmrt.load(options.network)
    shape = net.inputs[0].shape
    rng = np.random.default_rng(0)
    images = rng.random((options.images, *map(int, shape[1:])), np.float32)
    begin = time.perf_counter()
    expected = np.concatenate([net(images[i : i + BATCH]) for i in range(0, len(images), BATCH)])
    alone = len(images) / (time.perf_counter() - begin)

    ray.init(num_cpus=options.cores, log_to_driver=False)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    blocks = max(1, len(images) // BATCH)
    inputs = ray.data.from_numpy(images).repartition(blocks).materialize()
    found, seconds = predict(net, inputs, options.cores)
    each = len(images) / seconds / options.cores
    ray.shutdown()
    np.testing.assert_array_equal(found, expected)
    print(f"one process {alone:,.0f} images/s; {options.cores} cores {each:,.0f} images/s each")


if __name__ == "__main__":
    main()
