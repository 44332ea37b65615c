"""Builder of the operators and tensors of a region's TensorFlow Lite model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.devices import constants_of
from tvmrt.error import UnsupportedError

# Versions of int8 operators other than version 2.
BYTE_VERSIONS = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 12, "GATHER": 1, "RESHAPE": 1,
}  # fmt: skip
SHIFT = 128  # difference between uint8 and int8 values with the same meaning
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # axis orders: to channels-last, and back


@dataclass(frozen=True)
class TensorQuantization:
    """Quantisation of an 8-bit tensor: (q - zero) * scale; several scales are along ``axis``."""

    scale: Any
    zero: int = 0
    axis: int = 0


def signed(array: np.ndarray) -> np.ndarray:
    """Convert uint8 to int8, with the zero point lower by SHIFT; return other arrays unchanged."""
    return (array ^ SHIFT).view(np.int8) if array.dtype == np.uint8 else array


class TfliteWriter:
    """TensorFlow Lite model under construction; ``quantizations`` has those of 8-bit tensors.

    Images are channels-first in a region and channels-last in TensorFlow Lite. A tensor with four
    axes may exist in both orders; it is transposed when an operator reads it in the other one.
    """

    def __init__(
        self, region: Mapping[str, Any], constants: bytes, free_boundaries: bool = False
    ) -> None:
        """With ``free_boundaries``, images enter in the axis order of their first reader and leave
        in their current one; ``channels_last_boundaries`` collects those that are channels-last."""
        try:
            from ai_edge_litert import schema_py_generated as schema
        except ImportError as problem:
            raise ImportError(
                "writing TensorFlow Lite files needs the package ai-edge-litert; install it by "
                "pip install ai-edge-litert"
            ) from problem
        self.schema = schema
        self.region = region
        self.arrays = constants_of(region, constants)
        self.buffers = [schema.BufferT()]
        self.codes: list[Any] = []
        self.tensors: list[Any] = []
        self.operators: list[Any] = []
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.quantizations: Mapping[int, TensorQuantization] = {}
        self.origins: list[int] = []
        self.channels_last_boundaries: set[int] = set()
        self._free_boundaries = free_boundaries
        self._unread_inputs: dict[int, int] = {}  # inputs not read yet, and their indices
        self._tensor_indices: dict[tuple[int, bool], int] = {}
        self._integer_constants: dict[tuple[str, int], int] = {}

    def kind(self, tensor_id: int) -> str:
        """Return the element type of a region tensor; uint8 is int8 inside the model."""
        kind: str = self.region["tensors"][tensor_id]["dtype"]
        return "int8" if kind == "uint8" else kind

    def shape(self, tensor_id: int) -> list[int]:
        """Return the shape of a region tensor, in the region's axis order."""
        return list(self.region["tensors"][tensor_id]["shape"])

    def tensor(
        self,
        shape: Sequence[int],
        kind: str,
        name: str = "",
        params: TensorQuantization | None = None,
    ) -> int:
        """Add a tensor; ``meaning`` is the quantisation of an 8-bit one."""
        made = self.schema.TensorT()
        made.name = name or f"v{len(self.tensors)}"
        made.shape = list(shape)
        made.type = getattr(self.schema.TensorType, kind.upper())
        made.buffer = 0
        if params is not None:
            made.quantization = self._quantization(params)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def _quantization(self, params: TensorQuantization) -> Any:
        made = self.schema.QuantizationParametersT()
        made.scale = np.atleast_1d(np.asarray(params.scale, np.float32))
        made.zeroPoint = np.full(len(made.scale), params.zero, np.int64)
        made.quantizedDimension = params.axis
        return made

    def like(self, tensor_id: int, shape: Sequence[int] | None = None, name: str = "") -> int:
        """Add a tensor with the type and quantisation of a region tensor."""
        own = self.shape(tensor_id) if shape is None else shape
        return self.tensor(own, self.kind(tensor_id), name, self.quantizations.get(tensor_id))

    def constant(self, array: np.ndarray, params: TensorQuantization | None = None) -> int:
        """Add a constant."""
        index = self.tensor(array.shape, array.dtype.name, params=params)
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.tensors[index].buffer = len(self.buffers)
        self.buffers.append(buffer)
        return index

    def integers(self, values: Any) -> int:
        """Add a constant of integers."""
        return self.constant(np.asarray(values, np.int32))

    def read(self, tensor_id: int, last: bool = False) -> int:
        """Return a region tensor, channels-last if ``last``."""
        if tensor_id in self._unread_inputs:
            self._admit(tensor_id, last)
        if (tensor_id, last) in self._tensor_indices:
            return self._tensor_indices[tensor_id, last]
        if tensor_id in self.arrays:
            array = signed(self.arrays[tensor_id])
            transposed = array.transpose(LAST) if last else array
            index = self.constant(transposed, self.quantizations.get(tensor_id))
        else:
            index = self._transpose(tensor_id, last)
        self._tensor_indices[tensor_id, last] = index
        return index

    def _transpose(self, tensor_id: int, last: bool) -> int:
        """Transpose an existing tensor to the other order; reshape if only axes of size 1 move."""
        source, order = self.read(tensor_id, not last), LAST if last else FIRST
        given = self.tensors[source].shape
        shape = [given[axis] for axis in order]
        index = self.like(tensor_id, shape)
        nontrivial = [axis for axis in order if given[axis] != 1]
        if nontrivial == sorted(nontrivial):
            self.add(
                "RESHAPE", [source, self.integers(shape)], index, "ReshapeOptions", newShape=shape
            )
        else:
            self.add("TRANSPOSE", [source, self.integers(order)], index)
        return index

    def rename(self, tensor_id: int, last: bool, source: int) -> None:
        """Use an existing tensor as a region tensor in the given order, without a transpose."""
        self._tensor_indices[tensor_id, last] = source

    def result(self, tensor_id: int, last: bool = False) -> int:
        """Add the tensor for the region tensor that the next operator computes."""
        shape = self.shape(tensor_id)
        given = [shape[axis] for axis in LAST] if last else shape
        self._tensor_indices[tensor_id, last] = index = self.like(tensor_id, given, f"t{tensor_id}")
        return index

    def enter(self, tensor_id: int) -> None:
        """Add an input of the region; uint8 is converted to int8 after it."""
        self._unread_inputs[tensor_id] = len(self.inputs)
        self.inputs.append(-1)
        if not self._free_boundaries or len(self.shape(tensor_id)) != len(LAST):
            self._admit(tensor_id, False)

    def _admit(self, tensor_id: int, last: bool) -> None:
        index = self._unread_inputs.pop(tensor_id)
        result = self.result(tensor_id, last)
        if last:
            self.channels_last_boundaries.add(tensor_id)
        if self.region["tensors"][tensor_id]["dtype"] == "uint8":
            border = self.unsigned(tensor_id, self.tensors[result].shape, f"u{tensor_id}")
            self.add("QUANTIZE", [border], result)
            result = border
        self.inputs[index] = result

    def leave(self, tensor_id: int) -> None:
        """Add an output of the region."""
        last = self._free_boundaries and self.is_last(tensor_id)
        index = self.read(tensor_id, last)
        if last:
            self.channels_last_boundaries.add(tensor_id)
        if self.region["tensors"][tensor_id]["dtype"] == "uint8":
            border = self.unsigned(tensor_id, self.tensors[index].shape, f"u{tensor_id}")
            self.add("QUANTIZE", [index], border)
            index = border
        self.outputs.append(index)

    def close(self) -> None:
        """Add all outputs, and the inputs that were never read."""
        for tensor_id in self.region["outputs"]:
            self.leave(tensor_id)
        for tensor_id in list(self._unread_inputs):
            self._admit(tensor_id, False)

    def unsigned(self, tensor_id: int, shape: Sequence[int], name: str = "") -> int:
        """Add a uint8 tensor with the same meaning as an int8 one."""
        params = self.quantizations[tensor_id]
        return self.tensor(
            shape, "uint8", name, TensorQuantization(params.scale, params.zero + SHIFT)
        )

    def is_last(self, tensor_id: int) -> bool:
        """Return whether a tensor exists channels-last."""
        return (tensor_id, True) in self._tensor_indices

    def add(
        self, name: str, inputs: Sequence[int], output: int, options: str = "", **fields: Any
    ) -> None:
        """Add an operator; ``options`` is the name of the table with its fields."""
        made = self.schema.OperatorT()
        whole = any(self.tensors[index].quantization for index in (*inputs, output))
        made.opcodeIndex = self._code(name, BYTE_VERSIONS.get(name, 2) if whole else 1)
        made.inputs, made.outputs = list(inputs), [output]
        if options:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            made.builtinOptions = getattr(self.schema, f"{options}T")()
            for key, value in fields.items():
                setattr(made.builtinOptions, key, value)
        self.operators.append(made)

    def made_by(self, index: int) -> None:
        """Assign the tensors added since the last call to the node with this index."""
        self.origins += [index] * (len(self.tensors) - len(self.origins))

    def _code(self, name: str, version: int) -> int:
        if (name, version) not in self._integer_constants:
            code = self.schema.OperatorCodeT()
            code.builtinCode = getattr(self.schema.BuiltinOperator, name)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = version
            self._integer_constants[name, version] = len(self.codes)
            self.codes.append(code)
        return self._integer_constants[name, version]

    def model(self) -> bytes:
        """Return the bytes of the file."""
        import flatbuffers

        graph = self.schema.SubGraphT()
        graph.name = self.region["name"]
        graph.inputs, graph.outputs = self.inputs, self.outputs
        graph.tensors, graph.operators = self.tensors, self.operators
        made = self.schema.ModelT()
        made.version = 3
        made.buffers, made.operatorCodes, made.subgraphs = self.buffers, self.codes, [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(made.Pack(builder), b"TFL3")
        return bytes(builder.Output())


TfliteForm = Callable[[TfliteWriter, Mapping], None]


def refuse(node: Mapping, why: str) -> UnsupportedError:
    """Return the error for an operator, or a use of it, that cannot be written."""
    return UnsupportedError(f"{node['name']}: {why}")
