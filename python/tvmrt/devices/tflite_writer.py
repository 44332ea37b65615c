"""The operators and tensors of a TensorFlow Lite model that a region becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.error import UnsupportedError

from .region_json import constants_of

LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # of the axes of images: channels innermost, and back


class TfliteWriter:
    """A model under construction.

    Images have their channels in front in a region, and innermost in TensorFlow Lite: a tensor of
    four axes may be there in both orders, and is turned when somebody reads it in the other one.
    """

    def __init__(self, region: Mapping[str, Any], constants: bytes) -> None:
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
        self._places: dict[tuple[int, bool], int] = {}
        self._numbers: dict[str, int] = {}

    def shape(self, number: int) -> list[int]:
        """Extents of a tensor of the region, in the region's order."""
        return list(self.region["tensors"][number]["shape"])

    def tensor(self, shape: Sequence[int], kind: str = "float32", name: str = "") -> int:
        """A new tensor."""
        made = self.schema.TensorT()
        made.name = name or f"v{len(self.tensors)}"
        made.shape = list(shape)
        made.type = getattr(self.schema.TensorType, kind.upper())
        made.buffer = 0
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, array: np.ndarray) -> int:
        """A new constant."""
        place = self.tensor(array.shape, array.dtype.name)
        buffer = self.schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        self.tensors[place].buffer = len(self.buffers)
        self.buffers.append(buffer)
        return place

    def numbers(self, values: Any) -> int:
        """A constant of integers."""
        return self.constant(np.asarray(values, np.int32))

    def read(self, number: int, last: bool = False) -> int:
        """A tensor of the region, with its channels innermost if ``last``."""
        if (number, last) in self._places:
            return self._places[number, last]
        if number in self.arrays:
            array = self.arrays[number]
            place = self.constant(array.transpose(LAST) if last else array)
        else:
            place = self._turned(number, last)
        self._places[number, last] = place
        return place

    def _turned(self, number: int, last: bool) -> int:
        source, order = self.read(number, not last), LAST if last else FIRST
        place = self.tensor([self.tensors[source].shape[axis] for axis in order])
        self.add("TRANSPOSE", [source, self.numbers(order)], place)
        return place

    def result(self, number: int, last: bool = False) -> int:
        """The tensor of the region that an operator is about to give."""
        shape = self.shape(number)
        given = [shape[axis] for axis in LAST] if last else shape
        self._places[number, last] = place = self.tensor(given, name=f"t{number}")
        return place

    def is_last(self, number: int) -> bool:
        """Whether it is there with its channels innermost."""
        return (number, True) in self._places

    def add(
        self, name: str, inputs: Sequence[int], output: int, options: str = "", **fields: Any
    ) -> None:
        """An operator; ``options`` is the name of the table of its fields."""
        made = self.schema.OperatorT()
        made.opcodeIndex = self._code(name)
        made.inputs, made.outputs = list(inputs), [output]
        if options:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            made.builtinOptions = getattr(self.schema, f"{options}T")()
            for key, value in fields.items():
                setattr(made.builtinOptions, key, value)
        self.operators.append(made)

    def _code(self, name: str) -> int:
        if name not in self._numbers:
            code = self.schema.OperatorCodeT()
            code.builtinCode = getattr(self.schema.BuiltinOperator, name)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = 1
            self._numbers[name] = len(self.codes)
            self.codes.append(code)
        return self._numbers[name]

    def model(self) -> bytes:
        """The file."""
        import flatbuffers

        graph = self.schema.SubGraphT()
        graph.name = self.region["name"]
        graph.inputs = [self._places[number, False] for number in self.region["inputs"]]
        graph.outputs = [self.read(number) for number in self.region["outputs"]]
        graph.tensors, graph.operators = self.tensors, self.operators
        made = self.schema.ModelT()
        made.version = 3
        made.buffers, made.operatorCodes, made.subgraphs = self.buffers, self.codes, [graph]
        builder = flatbuffers.Builder(1024)
        builder.Finish(made.Pack(builder), b"TFL3")
        return bytes(builder.Output())


TfliteForm = Callable[[TfliteWriter, Mapping], None]


def refuse(node: Mapping, why: str) -> UnsupportedError:
    """The error of a use of an operator that has no form."""
    return UnsupportedError(f"{node['name']}: {why}")
