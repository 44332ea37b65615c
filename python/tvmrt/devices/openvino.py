"""OpenVINO as a device: it gets regions as ONNX. `pip install openvino` brings the library."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Node, Region

from .base import Context, Refusal
from .python_device import PythonDevice
from .region_json import Constants, describe_region
from .registry import register
from .to_onnx import FORMS, region_to_onnx

ABSENT = "the package openvino is not installed"


@register
class OpenVino(PythonDevice):
    """Float32 networks by Intel's OpenVINO on the CPU, from its package for Python.

    A program that loads such a library imports ``tvmrt.devices.openvino`` before.
    """

    name = "openvino"
    heavy = frozenset({"conv", "matmul"})  # of which a region has one at least

    def __init__(self) -> None:
        self._compiled: WeakValueDictionary[bytes, _Compiled] = WeakValueDictionary()
        self._core: Any = None

    def absent(self) -> str | None:
        """Whether the package is installed; it is not imported."""
        return None if importlib.util.find_spec("openvino") else ABSENT

    def refuses(self, context: Context) -> str | None:
        """Python runs it, and the package must be there."""
        return super().refuses(context) or self.absent()

    def supports(self, node: Node) -> str | None:
        if node.op not in FORMS or len(node.outputs) != 1:
            return f"openvino gets no {node.op}"
        for value in (*node.operands(), node.output):
            if value.dtype.name != "float32":
                return f"openvino gets float32 alone, not {value.dtype}"
            if value.type.rank > 5:
                return "openvino gets at most five dimensions"
        return None

    def evaluate(self, region: Region) -> str | None:
        """Regions without heavy work are quicker in place; a node without a form is lost alone."""
        constants = Constants()
        try:
            region_to_onnx(describe_region(region, constants), constants.tobytes())
        except UnsupportedError as problem:
            return Refusal(str(problem), region.nodes[problem.place])
        if self.heavy and not self.heavy.intersection(node.op for node in region.nodes):
            return "there is no convolution and no product in it"
        return None

    def enter_runtime(self) -> None:
        """Register the run-time half in this process: one compiled model for all contexts."""
        from tvmrt.runtime import register_func

        def pre_run(symbol: str, text: str, constants: Any, options: str) -> Callable[..., None]:
            return _request(self._model(str(text), bytes(constants), str(options)))

        def run(*_: Any) -> None:
            raise RuntimeError("device openvino: a region was not prepared")

        register_func("device.openvino.pre_run", pre_run, override=True)
        register_func("device.openvino.run", run, override=True)

    def _model(self, text: str, constants: bytes, options: str) -> _Compiled:
        key = hashlib.sha256(f"{text}\0{options}\0".encode() + constants).digest()
        compiled = self._compiled.get(key)
        if compiled is None:
            import openvino

            if self._core is None:
                self._core = openvino.Core()
            compiled = _Compiled(self._core, json.loads(text), constants, json.loads(options))
            self._compiled[key] = compiled
        return compiled


class _Compiled:
    """A model that OpenVINO has compiled, shared by the contexts of a region."""

    def __init__(self, core: Any, region: dict, constants: bytes, options: dict) -> None:
        model = core.read_model(region_to_onnx(region, constants).SerializeToString())
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        if "threads" in options:
            config["INFERENCE_NUM_THREADS"] = int(options["threads"])
        self.model = core.compile_model(model, "CPU", config)
        self.num_inputs = len(region["inputs"])


def _request(compiled: _Compiled) -> Callable[..., None]:
    """A region's function in one context: its inputs are read, its outputs written in place."""
    import openvino

    request = compiled.model.create_infer_request()
    count = compiled.num_inputs
    bound: list[int] = [0] * (count + len(compiled.model.outputs))

    def bind(place: int, tensor: Any) -> None:
        whole = (ctypes.c_float * tensor.size).from_address(tensor.data_address)
        array = np.frombuffer(whole, np.float32).reshape(tensor.shape)
        memory = openvino.Tensor(array, shared_memory=True)
        if place < count:
            request.set_input_tensor(place, memory)
        else:
            request.set_output_tensor(place - count, memory)
        bound[place] = tensor.data_address

    def run(symbol: str, *tensors: Any) -> None:
        for place, tensor in enumerate(tensors):
            if tensor.data_address != bound[place]:  # executors' tensors stay where they are
                bind(place, tensor)
        request.infer()

    run.compiled = compiled  # which lives as long as the context
    return run
