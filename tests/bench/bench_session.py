"""Measure steps of decoders whose caches are states of a session, and onnxruntime's with IO
binding, which binds the caches that a step returns as inputs of the next one.

Run: ``python tests/bench/bench_session.py``; one thread. The networks take turns, and the table has
the medians of processor times: the executor's ``run`` alone, which is the layers, a step of the
session, and onnxruntime's. ``TVMRT_MODELS`` names a folder with ``stories260k_step_f32.onnx``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ["TVM_NUM_THREADS"] = "1"
import numpy as np
import onnx
import onnxruntime
from decoder_network import Decoder, Shape

import tvmrt

LENGTH = 1024  # of the caches


def appending(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a decoder of one token at a time whose caches grow instead."""
    for node in model.graph.node:
        if node.op_type == "TensorScatter":
            node.op_type = "Concat"
            del node.input[2:]
        elif node.op_type == "Attention":
            del node.input[3:]  # no mask: all that the caches have precedes the token
    for name, infos in (("past", model.graph.input[2:]), ("total", model.graph.output[1:])):
        for info in infos:
            info.type.tensor_type.shape.dim[2].dim_param = name
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 1
    return model


Inputs = Callable[[int], dict[str, np.ndarray]]  # of step i


def networks() -> dict[str, tuple[onnx.ModelProto, Inputs]]:
    """Return networks with their inputs of step i."""
    shape = Shape(layers=4, words=4096, length=LENGTH)
    first = LENGTH // 2

    def inputs(i: int) -> dict[str, np.ndarray]:
        return {"ids": np.array([[1 + i % 9]]), "start": np.array([first + i])}

    decoder = Decoder(shape).build()
    result = {
        "Qwen2.5-0.5B's width, 4 layers, updated": (decoder, inputs),
        "the same, appended": (appending(Decoder(shape).build()), inputs),
    }
    file = Path(os.environ.get("TVMRT_MODELS", "")) / "stories260k_step_f32.onnx"
    if file.is_file():
        result["stories260k, updated"] = (
            onnx.load(file),
            lambda i: {"tokens": np.array([[1]]), "pos": np.array([i % 64])},
        )
    return result


class Rival:
    """onnxruntime, with results bound as the next inputs; one tensor for an updated cache."""

    def __init__(self, model: onnx.ModelProto, states: dict[str, np.ndarray], grows: bool) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self.session = onnxruntime.InferenceSession(model.SerializeToString(), options)
        self.inputs = [e.name for e in self.session.get_inputs() if e.name in states]
        self.outputs = [each.name for each in self.session.get_outputs()]
        self.plain = len(self.outputs) - len(states)
        self.caches = [onnxruntime.OrtValue.ortvalue_from_numpy(states[n]) for n in self.inputs]
        self.grows = grows

    def step(self, feed: dict[str, np.ndarray]) -> np.ndarray:
        binding = self.session.io_binding()
        for name, value in feed.items():
            binding.bind_cpu_input(name, value)
        for name, cache in zip(self.inputs, self.caches):
            binding.bind_ortvalue_input(name, cache)
        for i, name in enumerate(self.outputs):
            if i < self.plain or self.grows:
                binding.bind_output(name)
            else:
                binding.bind_ortvalue_output(name, self.caches[i - self.plain])
        self.session.run_with_iobinding(binding)
        results = binding.get_outputs()
        if self.grows:
            self.caches = results[self.plain :]
        return results[0].numpy()


def layers_of(
    net: tvmrt.Network, states: dict[str, np.ndarray], grows: bool
) -> tuple[Any, Callable[[], None]]:
    """Return functions that run the layers alone, and that feed the caches back."""
    executor = net.new_executor()
    numbers = []
    for k, (name, value) in enumerate(states.items(), 1):  # the first output is the result
        cache = tvmrt.nd.array(value)
        executor.set_input_zero_copy(name, cache)
        if grows:
            numbers += [k, executor.get_input_index(name)]
        else:
            executor.set_output_zero_copy(k, cache)
    return executor, lambda: executor.module["feed_back"](*numbers)


def measure(name: str, model: onnx.ModelProto, inputs: Inputs, steps: int) -> str:
    grows = name.endswith("appended")
    dims = {"S": (1, 64)} if "S" in str(model.graph.input[0]) else {}
    net = tvmrt.load(model, cache=False, threads=1, dims=dims)
    session = net.session()
    session(**inputs(0))
    states = session.states
    if grows:
        states = {key: np.zeros((1, 2, LENGTH // 2, 64), np.float32) for key in states}
    session.reset(states)
    rival = Rival(model, states, grows)
    executor, feed_back = layers_of(net, states, grows)
    times: dict[str, list[float]] = {"run": [], "session": [], "rival": []}
    run = executor.module["run"]
    for i in range(steps):
        feed = inputs(i)
        for key, value in feed.items():
            executor.set_input(key, value)
        calls = {
            "run": run,
            "session": partial(session, **feed),
            "rival": partial(rival.step, feed),
        }
        results = {}
        for k in range(3):  # each is the first of the three as often as the others
            key = (*calls,)[(i + k) % 3]
            start = time.process_time_ns()
            results[key] = calls[key]()
            times[key].append((time.process_time_ns() - start) / 1e3)
        feed_back()
        np.testing.assert_allclose(results["session"], results["rival"], rtol=1e-3, atol=1e-3)
    run_us, session_us, rival_us = (median(each[steps // 10 :]) for each in times.values())
    share = 100 * (session_us - run_us) / session_us
    return (
        f"| {name} | {run_us:.1f} | {session_us:.1f} | {share:.1f} % | {rival_us:.1f} "
        f"| {rival_us / session_us:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    print("| decoder, caches | layers, us | session, us | besides | onnxruntime, us | ratio |")
    print("|---|---|---|---|---|---|")
    for name, (model, inputs) in networks().items():
        print(measure(name, model, inputs, steps), flush=True)


if __name__ == "__main__":
    main()
