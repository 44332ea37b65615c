"""Measure a decoder of Qwen2.5-0.5B's shape with random weights in float32, int8 and int4: tokens
per second of a prompt and of single steps, and the speed at which the steps read weights, relative
to a plain sum of as many bytes. llama.cpp is the rival if the packages llama-cpp-python and gguf
are installed.

Run: ``python tests/bench/bench_decoder.py --threads 1``. Contenders take turns; the table has the
least time of each: processor time for one thread, so that other processes disturb less. Fewer
layers (``--layers``) need less memory and time to compile.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from decoder_network import Decoder, Shape, gguf_file
from read_bandwidth import MemoryReader


@dataclass
class Contender:
    """``prompt`` computes all tokens from position 0 on, ``step`` one more."""

    name: str
    nbytes: int
    prompt: Callable[[], None]
    step: Callable[[], None]
    times: dict[str, float] = field(default_factory=dict)
    memory: MemoryReader | None = None
    fastest: float = 0.0  # bytes per second of a sum

    def measure(self, steps: int, clock: Callable[[], float]) -> None:
        for kind, function, count in (("prompt", self.prompt, 1), ("step", self.step, steps)):
            for _ in range(count):
                start = clock()
                function()
                taken = clock() - start
                self.times[kind] = min(taken, self.times.get(kind, taken))
        for _ in range(2):  # the first read fills the caches, as the first step does
            self.fastest = max(self.fastest, self.memory.read(clock))


def tvmrt_decoder(shape: Shape, model, name: str, folder: str, tokens: int, **options) -> Contender:
    import tvmrt
    from tvmrt.runtime.executor import AotModule

    library = tvmrt.compile(
        model, executor="aot", target="native", dims={"S": (1, tokens)}, **options
    )
    path = f"{folder}/{name.replace(' ', '_')}.so"
    library.export_library(path)
    executor = AotModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    for i in range(2 * shape.layers):
        cache = tvmrt.nd.empty(shape.cache, "float32")
        cache.copyfrom(np.zeros(shape.cache, np.float32))
        executor.set_input_zero_copy(f"{'kv'[i % 2]}{i // 2}", cache)
        executor.set_output_zero_copy(1 + i, cache)
    ids = np.arange(1, tokens + 1)[None]

    def run(ids: np.ndarray, start: int) -> None:
        executor.set_input("ids", ids)
        executor.set_input("start", np.array([start]))
        executor.run()

    return Contender(
        name,
        library.summary.weights_bytes,
        lambda: run(ids, 0),
        lambda: run(ids[:, :1], tokens),
    )


def llama_decoder(shape: Shape, kind: str, folder: str, tokens: int, threads: int) -> Contender:
    from llama_cpp import Llama

    path = f"{folder}/{kind}.gguf"
    gguf_file(shape, kind, path)
    model = Llama(
        path, n_ctx=shape.length, n_threads=threads, n_threads_batch=threads, verbose=False
    )

    def prompt() -> None:
        model.reset()
        model.eval(range(1, tokens + 1))

    return Contender(f"llama.cpp {kind}", os.path.getsize(path), prompt, lambda: model.eval([1]))


def contenders(shape: Shape, folder: str, given: argparse.Namespace) -> list[Contender]:
    found = []
    model = Decoder(shape).build()
    for kind in given.kinds:
        options = {} if kind == "float32" else {"weights": kind}
        found.append(tvmrt_decoder(shape, model, f"tvmrt {kind}", folder, given.tokens, **options))
        for precision in ("bf16", "int8") if kind != "float32" else ():
            name, more = f"tvmrt {kind} {precision}", {**options, "precision": precision}
            found.append(tvmrt_decoder(shape, model, name, folder, given.tokens, **more))
    del model
    if all(importlib.util.find_spec(name) for name in ("llama_cpp", "gguf")):
        rivals = {"float32": "f32", "int8": "q8_0", "int4": "q4_0"}
        for kind in given.kinds:
            args = (folder, given.tokens, given.threads)
            found.append(llama_decoder(shape, rivals[kind], *args))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--words", type=int, default=Shape.words)
    parser.add_argument("--tokens", type=int, default=128, help="of the prompt")
    parser.add_argument("--steps", type=int, default=8, help="per round")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", default=["float32", "int8", "int4"])
    given = parser.parse_args()
    os.environ["TVM_NUM_THREADS"] = str(given.threads)
    shape = Shape(layers=given.layers, words=given.words)
    with tempfile.TemporaryDirectory() as folder:
        found = contenders(shape, folder, given)
        clock = time.process_time if given.threads == 1 else time.perf_counter
        for each in found:
            each.memory = MemoryReader(Path(folder), given.threads, nbytes=each.nbytes)
        for _ in range(given.rounds):
            for each in found:
                each.measure(given.steps, clock)
    print("| network | MB | prompt, tokens/s | steps, tokens/s | GB/s | sum, GB/s | share |")
    print("|---|---|---|---|---|---|---|")
    for each in found:
        prompt, step = given.tokens / each.times["prompt"], 1 / each.times["step"]
        speed = each.nbytes * step
        print(
            f"| {each.name} | {each.nbytes / 1e6:.0f} | {prompt:.0f} | {step:.1f} "
            f"| {speed / 1e9:.1f} | {each.fastest / 1e9:.1f} | {100 * speed / each.fastest:.0f} % |"
        )


if __name__ == "__main__":
    main()
