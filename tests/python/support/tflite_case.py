"""Small ``.tflite`` files made in a test, and networks compared with LiteRT tensor by tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.cli.session import Session
from tvmrt.compiler.pipeline import compile as compile_network

FILES = Path(__file__).parents[2] / "data" / "tflite"


class Net:
    """A file's graph; tensors are indices. With ``of``, another subgraph of that file."""

    def __init__(self, of: Net | None = None) -> None:
        from ai_edge_litert import schema_py_generated as schema

        self.schema = schema
        if of is None:
            self.model = schema.ModelT()
            self.model.version = 3
            self.model.buffers = [schema.BufferT()]
            self.model.operatorCodes = []
            self.model.subgraphs = []
        else:
            self.model = of.model
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.graph.inputs, self.graph.outputs = [], []
        self.model.subgraphs.append(self.graph)

    def tensor(self, shape, dtype, data=None, scale=None, zero=0, axis=0, name=None) -> int:
        tensor = self.schema.TensorT()
        index = len(self.graph.tensors)
        tensor.name = name or f"t{index}"
        tensor.shape = list(shape)
        tensor.type = getattr(self.schema.TensorType, dtype.upper())
        tensor.buffer = 0
        if data is not None:
            buffer = self.schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            tensor.buffer = len(self.model.buffers)
            self.model.buffers.append(buffer)
        if scale is not None:
            q = tensor.quantization = self.schema.QuantizationParametersT()
            q.scale = np.atleast_1d(np.asarray(scale, np.float32))
            q.zeroPoint = np.broadcast_to(np.asarray(zero, np.int64), q.scale.shape).copy()
            q.quantizedDimension = axis
        self.graph.tensors.append(tensor)
        return index

    def input(self, shape, dtype, **quantization) -> int:
        index = self.tensor(shape, dtype, **quantization)
        self.graph.inputs.append(index)
        return index

    def output(self, shape, dtype, **quantization) -> int:
        index = self.tensor(shape, dtype, **quantization)
        self.graph.outputs.append(index)
        return index

    def const(self, data, scale=None, zero=0, axis=0) -> int:
        data = np.asarray(data)
        return self.tensor(data.shape, data.dtype.name, data, scale, zero, axis)

    def op(self, name: str, inputs, outputs, version=1, options: str = "", **fields: Any) -> None:
        """Add an operator. ``options``: name of its options table, if not the operator's."""
        schema = self.schema
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        code.version = version
        self.model.operatorCodes.append(code)
        op = schema.OperatorT()
        op.opcodeIndex = len(self.model.operatorCodes) - 1
        op.inputs, op.outputs = list(inputs), list(outputs)
        if options:
            op.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            op.builtinOptions = getattr(schema, f"{options}T")()
            for key, value in fields.items():
                assert hasattr(op.builtinOptions, key), key
                setattr(op.builtinOptions, key, value)
        self.graph.operators.append(op)

    def data(self) -> bytes:
        import flatbuffers

        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def random_bytes(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-127, 128, shape).astype(np.int8)


class Bytes(Net):
    """A quantised graph: all results are outputs, with random quantisation parameters."""

    def __init__(self, rng: np.random.Generator, dtype: str = "int8") -> None:
        super().__init__()
        self.rng = rng
        self.dtype = dtype
        self.wide = dtype == "int16"

    def scale(self) -> dict:
        low, high = (0, 0) if self.wide else (0, 256) if self.dtype == "uint8" else (-128, 128)
        zero = 0 if self.wide else int(self.rng.integers(low, high))
        size = 1 / 256 if self.wide else 1.0
        return {"scale": float(self.rng.uniform(0.02, 0.12)) * size, "zero": zero}

    def given(self, *shape: int, **q) -> int:
        return self.input(shape, self.dtype, **(q or self.scale()))

    def made(self, *shape: int, dtype: str = "", **q) -> int:
        index = self.tensor(shape, dtype or self.dtype, **(q or self.scale()))
        self.graph.outputs.append(index)
        return index


def feeds_for(data: bytes, seed: int = 0) -> list[np.ndarray]:
    """Return inputs: normal floats, full-range 8-bit and 16-bit integers, small others."""
    from ai_edge_litert import schema_py_generated as schema

    rng = np.random.default_rng(seed)
    codes = vars(schema.TensorType).items()
    names = {code: name.lower() for name, code in codes if name.isupper()}
    main = schema.ModelT.InitFromPackedBuf(data, 0).subgraphs[0]
    feeds = []
    for index in main.inputs:
        tensor = main.tensors[index]
        dtype, shape = np.dtype(names[tensor.type]), () if tensor.shape is None else tensor.shape
        if dtype.kind == "f":
            values = rng.standard_normal(shape)
        elif dtype.itemsize < 4 and dtype.kind in "iu":
            info = np.iinfo(dtype)
            values = rng.integers(info.min, info.max, shape, endpoint=True)
        else:
            values = rng.integers(0, 2 if dtype.kind == "b" else 9, shape)
        feeds.append(np.asarray(values).astype(dtype))
    return feeds


def litert_runs(
    data: bytes, runs: list[list[np.ndarray]], kernels: str = "BUILTIN_REF"
) -> list[list[np.ndarray]]:
    """Return the outputs of LiteRT's reference kernels in consecutive runs without a reset."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    kind = OpResolverType[kernels]
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind)
    interpreter.allocate_tensors()
    found = []
    for feeds in runs:
        for detail, value in zip(interpreter.get_input_details(), feeds):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        indices = [detail["index"] for detail in interpreter.get_output_details()]
        found.append([interpreter.get_tensor(index).copy() for index in indices])
    return found


def assert_like(mine: list[np.ndarray], right: list[np.ndarray], tolerance: float = 1e-5) -> None:
    """Compare integers bitwise, and floats relative to the largest."""
    assert len(mine) == len(right)
    for number, (a, b) in enumerate(zip(mine, right)):
        assert a.shape == b.shape and a.dtype == b.dtype, number
        scale = max(1.0, float(np.abs(b).max(initial=0))) if b.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=str(number))


def ours(source: Any, feeds: list[np.ndarray], folder: Path, **options: Any) -> list[np.ndarray]:
    """Return the outputs of a compiled network in order."""
    path = folder / "network.so"
    compile_network(source, executor="aot", **options).export_library(str(path))
    session = Session(path, 1)
    return list(session.run({i.name: a for i, a in zip(session.inputs, feeds)}).values())
