"""Simulated Ethos-U for the tests: LiteRT computes the networks that vela was given."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tvmrt.plugins.ethos_u import vela

HERE = Path(__file__).parent
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(ctypes.c_uint8), ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
    ctypes.POINTER(ctypes.c_size_t), ctypes.c_int,
)  # fmt: skip


class Places(NamedTuple):
    """Location of the tensors of a command stream: index of the base address and offset in
    bytes."""

    inputs: list[tuple[int, int]]
    outputs: list[tuple[int, int]]
    weights_bytes: int
    scratch_bytes: int


def places_in(model: bytes, arguments, folder: Path) -> dict[bytes, Places]:
    """Return the tensor locations that vela reports for a file in its other output format."""
    folder.mkdir()
    (folder / "n.tflite").write_bytes(model)
    command = [sys.executable, "-m", "ethosu.vela", "n.tflite", *arguments]
    subprocess.run(
        [*command, "--output-format", "raw", "--output-dir", "."], cwd=folder, check=True,
        capture_output=True, env={**os.environ},
    )  # fmt: skip
    (path,) = folder.glob("*.npz")
    origin = np.load(path, allow_pickle=True)

    def pairs(kind):
        numbers = origin[f"{kind}_region"], origin[f"{kind}_offset"]
        return [(int(base), int(at)) for base, at in zip(*numbers)]

    sizes = len(origin["weight_data"].tobytes()), int(origin["scratch_size"])
    return {origin["cmd_data"].tobytes(): Places(pairs("input"), pairs("output"), *sizes)}


class Call(NamedTuple):
    """One call of the driver: the stream, base addresses, their sizes, the inputs and outputs."""

    commands: bytes
    bases: list[int]
    sizes: list[int]
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]


class Device:
    """Computes in place of an Ethos-U; ``models`` are the files given to vela, by their streams."""

    def __init__(self, shared: ctypes.CDLL, models, places) -> None:
        self.calls: list[Call] = []
        self.problems: list[str] = []
        self._models, self._tensor_addresses = models, places
        self._keep = SIGNATURE(self._answer)
        ctypes.c_void_p.in_dll(shared, "ethosu_answer").value = ctypes.cast(
            self._keep, ctypes.c_void_p
        ).value

    def _answer(self, data, size, base, sizes, count):
        try:
            self._compute(ctypes.string_at(data, size), base[:count], sizes[:count])
        except Exception as problem:  # a C callback cannot raise an exception
            self.problems.append(repr(problem))
            return -20
        return 0

    def _compute(self, commands, bases, sizes):
        from ai_edge_litert.interpreter import Interpreter

        net = Interpreter(model_content=self._models[commands])
        net.allocate_tensors()
        places = self._tensor_addresses[commands]
        given, results = [], []
        for row, (base, at) in zip(net.get_input_details(), places.inputs):
            nbytes = int(np.prod(row["shape"])) * np.dtype(row["dtype"]).itemsize
            assert at + nbytes <= sizes[base], "an input reaches beyond its memory"
            found = ctypes.string_at(bases[base] + at, nbytes)
            given.append(np.frombuffer(found, row["dtype"]).reshape(row["shape"]))
            net.set_tensor(row["index"], given[-1])
        net.invoke()
        ctypes.memset(bases[1], 0xA5, sizes[1])
        for row, (base, at) in zip(net.get_output_details(), places.outputs):
            results.append(net.get_tensor(row["index"]))
            assert at + results[-1].nbytes <= sizes[base], "an output reaches beyond its memory"
            ctypes.memmove(bases[base] + at, results[-1].tobytes(), results[-1].nbytes)
        self.calls.append(Call(commands, bases, sizes, given, results))


def record(monkeypatch) -> list[tuple[bytes, tuple[str, ...]]]:
    """Record the files and options given to vela from now on."""
    seen: list[tuple[bytes, tuple[str, ...]]] = []
    run = vela.run

    def recorded(model, arguments):
        seen.append((model, arguments))
        return run(model, arguments)

    monkeypatch.setattr(vela, "run", recorded)
    return seen


def answers_header(calls: list[Call], places) -> str:
    """Return the header ANSWERS of the mock driver: the calls of a run."""
    arrays, rows = [], []
    for i, call in enumerate(calls):
        where = places[call.commands]
        parts = []
        for kind, tensors, at in (("in", call.inputs, where.inputs),
                                  ("out", call.outputs, where.outputs)):  # fmt: skip
            texts = []
            for j, (tensor, (_, place)) in enumerate(zip(tensors, at)):
                data = ",".join(map(str, tensor.tobytes()))
                arrays.append(f"static const uint8_t {kind}{i}_{j}[] = {{{data}}};")
                texts.append(f"{{{place}, {tensor.nbytes}, {kind}{i}_{j}}}")
            parts.append(f"{{{', '.join(texts)}}}")
        sizes = f"{len(call.commands)}, {call.sizes[0]}, {call.sizes[1]}"
        rows.append(f"  {{{sizes}, {', '.join(parts)}}},")
    return "\n".join([*arrays, "static const struct call calls[] = {", *rows, "};", ""])
