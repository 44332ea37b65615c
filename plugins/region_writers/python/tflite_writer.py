"""The operators and tensors of a TensorFlow Lite model that a region becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.compiler.devices.region_json import constants_of
from tvmrt.error import UnsupportedError

# Versions of operators of bytes where they are not 2.
BYTE_VERSIONS = {
    "CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 12, "GATHER": 1, "RESHAPE": 1,
}  # fmt: skip
SHIFT = 128  # from signed bytes to unsigned ones of the same meaning
LAST, FIRST = (0, 2, 3, 1), (0, 3, 1, 2)  # of the axes of images: channels innermost, and back


@dataclass(frozen=True)
class Meaning:
    """What bytes stand for: (byte - zero) * scale, where there are many scales along an axis."""

    scale: Any
    zero: int = 0
    axis: int = 0


def signed(array: np.ndarray) -> np.ndarray:
    """Unsigned bytes as signed ones, whose zero is lower by SHIFT; others as they are."""
    return (array ^ SHIFT).view(np.int8) if array.dtype == np.uint8 else array


class TfliteWriter:
    """A model under construction; ``meanings`` are those of the region's tensors of bytes.

    Images have their channels in front in a region, and innermost in TensorFlow Lite: a tensor of
    four axes may be there in both orders, and is turned when somebody reads it in the other one.
    """

    def __init__(
        self, region: Mapping[str, Any], constants: bytes, free_borders: bool = False
    ) -> None:
        """With ``free_borders`` images enter in the order of axes that their first reader wants,
        and leave in the one that they are in; ``last_borders``: those with channels innermost."""
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
        self.meanings: Mapping[int, Meaning] = {}
        self.origins: list[int] = []
        self.last_borders: set[int] = set()
        self._free_borders = free_borders
        self._waiting: dict[int, int] = {}  # inputs that nobody has read, and their places
        self._places: dict[tuple[int, bool], int] = {}
        self._numbers: dict[tuple[str, int], int] = {}

    def kind(self, number: int) -> str:
        """The element type of a tensor of the region: bytes are signed in here."""
        kind: str = self.region["tensors"][number]["dtype"]
        return "int8" if kind == "uint8" else kind

    def shape(self, number: int) -> list[int]:
        """Extents of a tensor of the region, in the region's order."""
        return list(self.region["tensors"][number]["shape"])

    def tensor(
        self,
        shape: Sequence[int],
        kind: str = "float32",
        name: str = "",
        meaning: Meaning | None = None,
    ) -> int:
        """A new tensor; ``meaning`` is that of bytes."""
        made = self.schema.TensorT()
        made.name = name or f"v{len(self.tensors)}"
        made.shape = list(shape)
        made.type = getattr(self.schema.TensorType, kind.upper())
        made.buffer = 0
        if meaning is not None:
            made.quantization = self._quantization(meaning)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def _quantization(self, meaning: Meaning) -> Any:
        made = self.schema.QuantizationParametersT()
        made.scale = np.atleast_1d(np.asarray(meaning.scale, np.float32))
        made.zeroPoint = np.full(len(made.scale), meaning.zero, np.int64)
        made.quantizedDimension = meaning.axis
        return made

    def like(self, number: int, shape: Sequence[int] | None = None, name: str = "") -> int:
        """A new tensor of the type and meaning of one of the region."""
        own = self.shape(number) if shape is None else shape
        return self.tensor(own, self.kind(number), name, self.meanings.get(number))

    def constant(self, array: np.ndarray, meaning: Meaning | None = None) -> int:
        """A new constant."""
        place = self.tensor(array.shape, array.dtype.name, meaning=meaning)
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
        if number in self._waiting:
            self._admit(number, last)
        if (number, last) in self._places:
            return self._places[number, last]
        if number in self.arrays:
            array = signed(self.arrays[number])
            turned = array.transpose(LAST) if last else array
            place = self.constant(turned, self.meanings.get(number))
        else:
            place = self._turned(number, last)
        self._places[number, last] = place
        return place

    def _turned(self, number: int, last: bool) -> int:
        """A tensor that is there in the other order; nothing moves where only extents of 1 do."""
        source, order = self.read(number, not last), LAST if last else FIRST
        given = self.tensors[source].shape
        shape = [given[axis] for axis in order]
        place = self.like(number, shape)
        wide = [axis for axis in order if given[axis] != 1]
        if wide == sorted(wide):
            self.add(
                "RESHAPE", [source, self.numbers(shape)], place, "ReshapeOptions", newShape=shape
            )
        else:
            self.add("TRANSPOSE", [source, self.numbers(order)], place)
        return place

    def rename(self, number: int, last: bool, source: int) -> None:
        """Let a tensor of the region in this order be one that is there: nothing has to move."""
        self._places[number, last] = source

    def result(self, number: int, last: bool = False) -> int:
        """The tensor of the region that an operator is about to give."""
        shape = self.shape(number)
        given = [shape[axis] for axis in LAST] if last else shape
        self._places[number, last] = place = self.like(number, given, f"t{number}")
        return place

    def enter(self, number: int) -> None:
        """An input of the region; unsigned bytes are made signed behind it."""
        self._waiting[number] = len(self.inputs)
        self.inputs.append(-1)
        if not self._free_borders or len(self.shape(number)) != len(LAST):
            self._admit(number, False)

    def _admit(self, number: int, last: bool) -> None:
        place = self._waiting.pop(number)
        result = self.result(number, last)
        if last:
            self.last_borders.add(number)
        if self.region["tensors"][number]["dtype"] == "uint8":
            border = self.unsigned(number, self.tensors[result].shape, f"u{number}")
            self.add("QUANTIZE", [border], result)
            result = border
        self.inputs[place] = result

    def leave(self, number: int) -> None:
        """An output of the region, as it is there."""
        last = self._free_borders and self.is_last(number)
        place = self.read(number, last)
        if last:
            self.last_borders.add(number)
        if self.region["tensors"][number]["dtype"] == "uint8":
            border = self.unsigned(number, self.tensors[place].shape, f"u{number}")
            self.add("QUANTIZE", [place], border)
            place = border
        self.outputs.append(place)

    def close(self) -> None:
        """Let the outputs leave, and the inputs enter that nobody has read."""
        for number in self.region["outputs"]:
            self.leave(number)
        for number in list(self._waiting):
            self._admit(number, False)

    def unsigned(self, number: int, shape: Sequence[int], name: str = "") -> int:
        """A new tensor of the unsigned bytes that mean the same."""
        meaning = self.meanings[number]
        return self.tensor(shape, "uint8", name, Meaning(meaning.scale, meaning.zero + SHIFT))

    def is_last(self, number: int) -> bool:
        """Whether it is there with its channels innermost."""
        return (number, True) in self._places

    def add(
        self, name: str, inputs: Sequence[int], output: int, options: str = "", **fields: Any
    ) -> None:
        """An operator; ``options`` is the name of the table of its fields."""
        made = self.schema.OperatorT()
        whole = any(self.tensors[place].quantization for place in (*inputs, output))
        made.opcodeIndex = self._code(name, BYTE_VERSIONS.get(name, 2) if whole else 1)
        made.inputs, made.outputs = list(inputs), [output]
        if options:
            made.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            made.builtinOptions = getattr(self.schema, f"{options}T")()
            for key, value in fields.items():
                setattr(made.builtinOptions, key, value)
        self.operators.append(made)

    def made_by(self, place: int) -> None:
        """Note that the tensors since the last note are for the node of this place."""
        self.origins += [place] * (len(self.tensors) - len(self.origins))

    def _code(self, name: str, version: int) -> int:
        if (name, version) not in self._numbers:
            code = self.schema.OperatorCodeT()
            code.builtinCode = getattr(self.schema.BuiltinOperator, name)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = version
            self._numbers[name, version] = len(self.codes)
            self.codes.append(code)
        return self._numbers[name, version]

    def model(self) -> bytes:
        """The file."""
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
    """The error of a use of an operator that has no form."""
    return UnsupportedError(f"{node['name']}: {why}")
