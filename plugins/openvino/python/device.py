"""OpenVINO as a device; regions are passed as ONNX. It needs `pip install openvino`."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.devices import Constants, PackageDevice, Refusal, describe_region, register
from tvmrt.compiler.sdk.graph import DTYPES, Node, Region, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.to_onnx import form_of, region_to_onnx

OPTIONS = {"threads": "INFERENCE_NUM_THREADS", "streams": "NUM_STREAMS"}
INTEGERS = ("gather", "pick")  # operators that may have integer constants
MAX_CONCURRENT_RUNS = (
    8  # maximum concurrent runs of regions; a model with fewer streams queues them
)


@register
class OpenVinoDevice(PackageDevice):
    """Float32 networks by Intel's OpenVINO on the CPU, from its Python package.

    Quantised layers and recurrent cells stay on the CPU: its kernels take a third to a twentieth of
    the time of OpenVINO's for the former, and at most the same for the latter.
    """

    name = "openvino"
    # a region must contain at least one of these
    heavy = frozenset({"conv", "conv_transpose", "matmul"})
    lacks = frozenset({"det", "max_roi_pool"})  # OpenVINO has none, or rounds another way

    def __init__(self) -> None:
        super().__init__()
        self._core: Any = None

    def supports(self, node: Node) -> str | None:
        if form_of(node.op) is None or node.op in self.lacks or len(node.outputs) != 1:
            return f"openvino gets no {node.op}"
        for value in (*node.operands(), *node.outputs):
            if not self._takes(node.op, value):
                return f"openvino gets no {node.op} of {value.dtype}"
            if value.type.rank > 5:
                return "openvino gets at most five dimensions"
        return None

    def _takes(self, op: str, value: Value) -> bool:
        kind = value.dtype.name
        return kind == "float32" or (
            kind in ("int32", "int64") and op in INTEGERS and value.is_constant
        )

    def evaluate(self, region: Region) -> str | None:
        """Reject a node that ONNX cannot express, and regions without heavy operators."""
        constants = Constants()
        try:
            region_to_onnx(describe_region(region, constants), constants.tobytes())
        except UnsupportedError as problem:
            return Refusal(str(problem), region.nodes[problem.node_index])
        if self.heavy and not self.heavy.intersection(node.op for node in region.nodes):
            return "there is no convolution and no product in it"
        return None

    def enter_runtime(self) -> None:
        """Register the runtime functions in this process, with support for concurrent runs."""
        from tvmrt.runtime import register_func

        super().enter_runtime()
        register_func("device.openvino.num_queues", lambda: MAX_CONCURRENT_RUNS, override=True)

    def _prepare(self, text: str, constants: bytes, options: str) -> list[Callable]:
        request = _Request(self._load_once(text, constants, options))
        return [request.run, request.start]

    def _load(self, region: dict[str, Any], constants: bytes, options: dict[str, Any]) -> _Compiled:
        import openvino

        if self._core is None:
            self._core = openvino.Core()
        return _Compiled(self._core, region, constants, options)


class _Compiled:
    """Compiled OpenVINO model of a region, shared by its contexts."""

    def __init__(self, core: Any, region: dict, constants: bytes, options: dict) -> None:
        model = core.read_model(region_to_onnx(region, constants).SerializeToString())
        config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
        for option, key in OPTIONS.items():
            if option in options:
                config[key] = int(options[option])
        self.model = core.compile_model(model, "CPU", config)
        self.num_inputs = len(region["inputs"])
        boundaries = [region["tensors"][i] for i in (*region["inputs"], *region["outputs"])]
        self.dtypes = [np.dtype(DTYPES[row["dtype"]].numpy) for row in boundaries]


class _Request:
    """Region in one context; inputs are read and outputs written in place."""

    def __init__(self, compiled: _Compiled) -> None:
        import openvino

        self._compiled = compiled  # keeps the model alive as long as the context
        self._request = compiled.model.create_infer_request()
        self._bound = [0] * len(compiled.dtypes)
        # the base class's infer() does not build a dictionary of results
        below = super(openvino.InferRequest, self._request).infer
        self._infer = functools.partial(below, {}, True, False)

    def _bind(self, index: int, tensor: Any) -> None:
        import openvino

        dtype, count = self._compiled.dtypes[index], self._compiled.num_inputs
        whole = (ctypes.c_byte * (tensor.size * dtype.itemsize)).from_address(tensor.data_address)
        array = np.frombuffer(whole, dtype).reshape(tensor.shape)
        memory = openvino.Tensor(array, shared_memory=True)
        if index < count:
            self._request.set_input_tensor(index, memory)
        else:
            self._request.set_output_tensor(index - count, memory)
        self._bound[index] = tensor.data_address

    def run(self, symbol: str, *tensors: Any) -> None:
        """Run synchronously on the calling thread."""
        bound = self._bound
        for index, tensor in enumerate(tensors):
            if tensor.data_address != bound[index]:  # executors rarely move their tensors
                self._bind(index, tensor)
        self._infer()

    def start(self, symbol: str, *tensors: Any) -> Callable[[int], int]:
        """Start an asynchronous run in one of the model's streams."""
        for index, tensor in enumerate(tensors):
            if tensor.data_address != self._bound[index]:
                self._bind(index, tensor)
        self._request.start_async()
        return self._wait

    def _wait(self, poll_only: int) -> int:
        if poll_only:
            return int(not self._request.wait_for(0))
        self._request.wait()
        return 0
