"""Compare bfloat16 with float32, onnxruntime in float32, and OpenVINO, which uses bfloat16 by
default if the processor supports it.

    TVM_NUM_THREADS=1 python tests/bench/bench_bf16.py NETWORK.onnx... [--rounds N]

Inputs and weights are random (``--own`` keeps the weights), one thread, numpy arrays in and out.
In each round all run in turns. Printed are the median ratio to tvmrt in bfloat16 (above 1: bfloat16
is faster) and the difference of its results from onnxruntime's. Without
OpenVINO (``pip install openvino``) its column is left out.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper

import tvmrt
from tvmrt.runtime.executor import AotModule

Run = Callable[[], "list[np.ndarray]"]


def with_random_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace all float32 tensors with two or more axes by random weights of a sensible scale;
    those computed by ConstantOfShape become initializers."""
    rng = np.random.default_rng(0)
    held = {each.name: each for each in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in held:
            shape = numpy_helper.to_array(held[node.input[0]])
            value = np.zeros(shape, np.float32)
            model.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        shape = tuple(tensor.dims)
        if len(shape) > 1:
            scale = math.sqrt(2 / max(1, math.prod(shape[1:])))
            value = rng.normal(0, scale, shape)
        else:
            value = rng.uniform(0.5, 1.5, shape)
        tensor.CopyFrom(numpy_helper.from_array(value.astype(np.float32), tensor.name))
    return model


def feeds_of(session: onnxruntime.InferenceSession) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    sizes = {
        i.name: [n if isinstance(n, int) else 1 for n in i.shape] for i in session.get_inputs()
    }
    return {name: rng.normal(0, 1, shape).astype(np.float32) for name, shape in sizes.items()}


def ours(model: onnx.ModelProto, feeds: dict, path: str, precision: str, target: str) -> Run:
    library = tvmrt.compile(model, executor="aot", target=target, precision=precision)
    library.export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))

    def run() -> list[np.ndarray]:
        for name, array in feeds.items():
            executor.set_input(name, array)
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    return run


def openvinos(path: str, feeds: dict) -> Run | None:
    try:
        import openvino
    except ImportError:
        return None
    options = {"INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY"}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    print(f"  OpenVINO computes in {compiled.get_property('INFERENCE_PRECISION_HINT')}")
    request = compiled.create_infer_request()
    return lambda: list(request.infer(feeds).values())


def measure(path: Path, own: bool, rounds: int, target: str) -> dict[str, float]:
    model = onnx.load(path)
    if not own:
        model = with_random_weights(model)
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/net.onnx"
        onnx.save(model, file)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3  # unused copies of weights that the file also contains
        session = onnxruntime.InferenceSession(file, options)
        feeds = feeds_of(session)
        runs = {
            "bf16": ours(model, feeds, f"{folder}/bf16.so", "bf16", target),
            "float32": ours(model, feeds, f"{folder}/f32.so", "float32", target),
            "onnxruntime": lambda: session.run(None, feeds),
        }
        rival = openvinos(file, feeds)
        if rival:
            runs["openvino"] = rival
        right, found = runs["onnxruntime"](), runs["bf16"]()
        times = {name: [] for name in runs}
        order = list(runs)
        for _ in range(rounds):
            for name in order:
                runs[name]()
                start = time.perf_counter()
                runs[name]()
                times[name].append(time.perf_counter() - start)
            order.append(order.pop(0))
    off = max(np.abs(f - r).max() / max(np.abs(r).max(), 1e-30) for f, r in zip(found, right))
    mine = times["bf16"]
    ratios = {name: median(b / a for a, b in zip(mine, other)) for name, other in times.items()}
    fastest = {f"{name}, fastest": min(other) / min(mine) for name, other in times.items()}
    return {"ms": 1e3 * median(mine), "off": float(off), **ratios, **fastest}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("networks", nargs="+", type=Path)
    parser.add_argument("--own", action="store_true", help="keep the weights of the files")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--target", default="native")
    given = parser.parse_args()
    rows: dict[str, dict[str, float]] = {}
    for path in given.networks:
        rows[path.stem] = measure(path, given.own, given.rounds, given.target)
        columns = "  ".join(f"{key} {value:.3g}" for key, value in rows[path.stem].items())
        print(f"{path.stem}: {columns}")
        sys.stdout.flush()
    for key in ("float32", "onnxruntime", "openvino"):
        values = [row[key] for row in rows.values() if key in row]
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{key}: geometric mean {mean:.2f}, minimum {min(values):.2f}")


if __name__ == "__main__":
    main()
