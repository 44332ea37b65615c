"""Import of a complete ``.tflite`` file as a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.frontend import Dims, parse_dim, track_sizes
from tvmrt.compiler.sdk.graph import (
    DTYPES,
    Graph,
    PerTensor,
    TensorType,
    Value,
    constant,
    max_unrolled_nodes,
)
from tvmrt.error import NameNotFoundError, UnexpectedImportError, UnsupportedError
from tvmrt.option_syntax import option
from tvmrt.plugins.tflite.frontend import custom
from tvmrt.plugins.tflite.frontend.complex_numbers import import_by
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.element_types import check_types
from tvmrt.plugins.tflite.frontend.import_state import ImportState
from tvmrt.plugins.tflite.frontend.io_names import aliases_of, by_input, distinct, names_of
from tvmrt.plugins.tflite.frontend.model_file import (
    Model,
    Operator,
    Signature,
    Subgraph,
    Tensor,
    load_model,
)
from tvmrt.plugins.tflite.frontend.options import BUILTIN
from tvmrt.plugins.tflite.frontend.registry import ImporterEntry, find

NARROW = {"int4": "int8", "int2": "int8", "uint4": "uint8"}  # storage of sub-byte constants
NON_TENSOR_TYPES = (
    "resource",
    "complex64",
)  # types without an IR tensor, allowed between operators
OPERATORS_PER_NODE = 4  # of the limit for unrolled nodes: every known trip count is unrolled


@dataclass(frozen=True)
class AllTensorsModel:
    """A ``.tflite`` file imported with every tensor that an operator computes as an additional
    output; these outputs have the names of the tensors."""

    source: str | os.PathLike | bytes


def import_model(
    source: str | os.PathLike | bytes | AllTensorsModel,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    rounding: str = "reference",
    signature: str | None = None,
    operators: Any = None,
    dims: Mapping[str, Any] | None = None,
) -> Graph:
    """Read a ``.tflite`` file as a graph.

    ``shapes`` sets input shapes by name, for dimensions that the file leaves open.
    ``rounding`` selects the kernels whose integer rounding is matched where they differ:
    LiteRT's reference kernels or those for microcontrollers.
    Raises OSError (file), ValueError (damaged or contradictory), KeyError (a shape for an unknown
    input) or UnsupportedError, which lists all unsupported operators together.
    """
    every = isinstance(source, AllTensorsModel)
    model = load_model(source.source if every else source)
    entry = entry_of(model, signature)
    importer = GraphImporter(model, dict(shapes or {}), rounding, entry, Dims(dims))
    importer.operators = operators
    with np.errstate(all="ignore"):  # values computed from scales are range-checked afterwards
        return importer.run(every)


def entry_of(model: Model, signature: str | None) -> tuple[int, Signature | None]:
    """Return the index of the graph to compile, and the signature that names its inputs and
    outputs (the first graph's if ``signature`` is None). Raises KeyError for an unknown name."""
    if signature is None:
        return 0, next((s for s in model.signatures if s.subgraph == 0), None)
    for found in model.signatures:
        if found.key == signature:
            return found.subgraph, found
    names = ", ".join(s.key for s in model.signatures) or "none"
    raise NameNotFoundError(f"{option('signature', signature)} is not known; the file has {names}")


class GraphImporter(ImportState):
    """Importer of one network, operator by operator."""

    def run(self, every: bool = False) -> Graph:
        main = self.model.subgraphs[self.entry[0]]
        inputs, outputs = names_of(self.model, self.entry)
        self.graph.aliases = aliases_of(self.model, self.entry)
        self.shapes = by_input(self.shapes, self.graph.aliases)
        unknown = set(self.shapes) - set(inputs)
        if unknown:
            raise KeyError(
                f"there is no input {min(unknown)}; the inputs are {', '.join(inputs) or 'none'}"
            )
        self._declare(dict(zip(inputs, (main.tensors[i] for i in main.inputs))))
        scope: dict[int, Value | None] = {}
        for index, name in zip(main.inputs, inputs):
            scope[index] = self._input(main.tensors[index], name)
        self.graph.input_quantization = per_tensor(main, main.inputs, inputs)
        self.graph.output_quantization = per_tensor(main, main.outputs, outputs)
        self.import_operators(main, scope)
        if self.problems:
            count = len(self.problems)
            raise UnsupportedError(
                f"{count} operator{'s' if count > 1 else ''} of the network cannot be compiled: "
                + "; ".join(self.problems)
            )
        indices = list(main.outputs)
        if every:
            indices += made_by_operators(main)
            outputs = distinct([*outputs, *(main.tensors[i].name for i in made_by_operators(main))])
        for index, name in zip(indices, outputs):
            self.graph.outputs.append(self.value(main, index, scope))
            self.graph.output_names.append(name)
        self.states.close()
        return self.graph

    def _declare(self, inputs: dict[str, Tensor]) -> None:
        """Declare the symbolic dimensions written in shapes, such as ``N<=8``, and keep the names.
        One that no shape uses becomes the batch of all inputs with an open first dimension."""
        for name, shape in self.shapes.items():
            parts = list(shape)
            for i, part in enumerate(parts):
                if isinstance(part, str) and part not in self.dims:
                    parts[i], bounds = parse_dim(part)
                    self.dims.declare(parts[i], bounds)
            self.shapes[name] = tuple(parts)
        used = [n for shape in self.shapes.values() for n in shape if isinstance(n, str)]
        unused = self.dims.unused(used)
        batched = [n for n, t in inputs.items() if t.open[:1] == (-1,) and n not in self.shapes]
        only_batch = bool(batched) and all(-1 not in inputs[n].open[1:] for n in batched)
        if len(unused) == 1 and only_batch:
            self.shapes |= {n: (unused[0], *inputs[n].shape[1:]) for n in batched}
        elif unused:
            raise KeyError(
                f"no input has the dimension {unused[0]}: dimensions of a .tflite network have no "
                f"names; give them some in a shape, such as INPUT={unused[0]},..."
            )
        elif only_batch:
            axes = {n: ["batch", *[None] * (len(inputs[n].shape) - 1)] for n in batched}
            self.graph.open_axes = dict(axes)

    def _input(self, tensor: Tensor, name: str) -> Value:
        if tensor.dtype not in DTYPES:
            raise UnsupportedError(f"input {name} has elements of type {tensor.dtype}")
        given = self.shapes.get(name)
        shape = tensor.shape if given is None else tuple(given)
        if len(shape) != len(tensor.shape):
            raise ValueError(f"input {name} has {len(tensor.shape)} dimensions, not {len(shape)}")
        extents = tuple(n if isinstance(n, int) else self.dims.extent(n) for n in shape)
        value = Value(name, TensorType(extents, DTYPES[tensor.dtype]))
        self.graph.inputs.append(value)
        return value

    def value(self, subgraph: Subgraph, index: int, scope: dict[int, Value | None]) -> Value | None:
        """Return the value of a tensor, or None if an unsupported operator computes it.

        Raises ValueError if the tensor is read before it is computed.
        """
        if index in scope:
            return scope[index]
        tensor = subgraph.tensors[index]
        if tensor.data is None and not tensor.is_variable and 0 not in tensor.shape:
            raise ValueError(
                f"{self.model.what}: tensor {tensor.name} is read before an operator produces it; "
                "convert it again"
            )
        name = NARROW.get(tensor.dtype, tensor.dtype)
        if name not in DTYPES:
            raise UnsupportedError(f"tensor {tensor.name} has elements of type {tensor.dtype}")
        if tensor.is_variable:
            return self.states.current_value(self._state(subgraph, index))
        data = tensor.data
        if data is None:
            data = np.zeros(tensor.shape, DTYPES[name].numpy)
        elif name == "bfloat16":
            data = data.view(DTYPES[name].numpy)
        scope[index] = constant(data.astype(DTYPES[name].numpy, copy=False), tensor.name)
        return scope[index]

    def import_subgraph(self, index: int, inputs: Sequence[Value | None]) -> list[Value | None]:
        """Import a subgraph in place of the operator that calls it; return its outputs.

        Raises ValueError for an unknown or recursive subgraph, and UnsupportedError if nested
        calls expand to too many operators.
        """
        if not 0 <= index < len(self.model.subgraphs):
            raise ValueError(
                f"it calls graph {index}, but the file has {len(self.model.subgraphs)}"
            )
        subgraph = self.model.subgraphs[index]
        if index in self.subgraph_stack:
            raise ValueError(f"graph {subgraph.name or index} calls itself")
        if len(inputs) != len(subgraph.inputs):
            raise ValueError(
                f"graph {subgraph.name or index} takes {len(subgraph.inputs)} tensors, not "
                f"{len(inputs)}"
            )
        self.unrolled_operators += len(subgraph.operators) + 1
        limit = OPERATORS_PER_NODE * max_unrolled_nodes(self.model.nbytes)
        if self.unrolled_operators > limit:
            raise UnsupportedError(
                f"loops, branches and calls expand to more than {limit} operators, the maximum "
                "for a network of this size"
            )
        self.subgraph_stack.append(index)
        scope = dict(zip(subgraph.inputs, inputs))
        self.import_operators(subgraph, scope)
        result = [self.value(subgraph, i, scope) for i in subgraph.outputs]
        self.subgraph_stack.pop()
        return result

    def import_operators(self, subgraph: Subgraph, scope: dict[int, Value | None]) -> None:
        """Import a graph's operators in order; their results are added to ``scope``."""
        for op in subgraph.operators:
            inputs = [None if i < 0 else self.value(subgraph, i, scope) for i in op.inputs]
            lost = any(i >= 0 and v is None for i, v in zip(op.inputs, inputs))
            outputs = self._import_operator(subgraph, op, inputs, lost)
            for index, value in zip(op.outputs, outputs):
                scope[index] = value

    def _import_operator(
        self, subgraph: Subgraph, op: Operator, inputs: list[Value | None], lost: bool
    ) -> Sequence[Value | None]:
        nothing: list[Value | None] = [None] * len(op.outputs)
        name = subgraph.tensors[op.outputs[0]].name if op.outputs else op.name
        row = self._custom(op) if op.is_custom else find(op.name)
        if row is None or op.version > row.newest:
            kind = "custom operator " if op.is_custom else ""
            note = "" if row is None else f", known are those up to {row.newest}"
            self.problems.append(f"{name} ({kind}{op.name} version {op.version}{note})")
            return nothing
        if lost:
            return nothing
        self.builder.sources = (name,)
        self.graph.op_types[name] = op.name
        where = f"operator {name} ({op.name})"
        try:
            context = OpContext(self, subgraph, op, name, inputs)
            check_types(context)
            start = len(self.graph.nodes)
            made = import_by(row.importer, context)
            outputs = made if isinstance(made, list) else [made]
            if not op.is_custom:
                outputs = track_sizes(context, outputs, start)
            self._check(subgraph, op, outputs)
        except UnsupportedError as problem:
            self.problems.append(f"{name} ({op.name} version {op.version}: {problem})")
            return nothing
        except (ValueError, MemoryError) as problem:
            why = str(problem) or "there is not enough memory for it"
            raise ValueError(f"{where}: {why}") from problem
        except Exception as problem:
            what = f"it cannot be read ({type(problem).__name__}: {problem})"
            raise UnexpectedImportError(f"{where}: {what}; check its operands") from problem
        return outputs

    def _custom(self, op: Operator) -> ImporterEntry | None:
        """Return the table row of a user-declared or built-in custom operator."""
        operator = self.operators and self.operators.find(custom.DOMAIN, op.name, op.version)
        if operator:
            return ImporterEntry(custom.importer_of(operator), op.version)
        return None if op.name in BUILTIN else find(op.name)

    def _check(self, subgraph: Subgraph, op: Operator, outputs: Sequence[Value]) -> None:
        """Check an importer's results against the types and shapes that the file declares."""
        if len(outputs) != len(op.outputs):
            raise ValueError(f"it has {len(op.outputs)} outputs, not {len(outputs)}")
        for index, value in zip(op.outputs, outputs):
            tensor = subgraph.tensors[index]
            if tensor.dtype in NON_TENSOR_TYPES:
                continue
            if value is None:
                raise UnsupportedError("the graph that it calls is not supported")
            if value.dtype.name != tensor.dtype:
                raise ValueError(f"{tensor.name} is declared {tensor.dtype}, not {value.dtype}")
            declared = tensor.open or tensor.shape
            counted = not all(isinstance(n, int) for n in value.shape)
            fits = len(declared) == len(value.shape) and all(
                n < 0 or counted or n == m for n, m in zip(declared, value.shape)
            )
            # converters omit unknown shapes
            if not fits and declared and not self.shapes:
                raise ValueError(
                    f"{tensor.name} is declared {list(declared)}, not {list(value.shape)}"
                )


def made_by_operators(subgraph: Subgraph) -> list[int]:
    """Return the indices of tensors that operators compute and that are not graph outputs."""
    made = dict.fromkeys(i for op in subgraph.operators for i in op.outputs)
    shown = [i for i in made if subgraph.tensors[i].dtype not in NON_TENSOR_TYPES]
    return [i for i in shown if i not in subgraph.outputs]


def per_tensor(
    subgraph: Subgraph, indices: Sequence[int], names: Sequence[str]
) -> dict[str, PerTensor]:
    """Return the quantisation of integer tensors that have one scale, by the names."""
    tensors = {name: subgraph.tensors[i] for i, name in zip(indices, names)}
    return {
        name: PerTensor(float(tensor.quantization.scale[0]), int(tensor.quantization.zero[0]))
        for name, tensor in tensors.items()
        if tensor.quantization is not None
        and not tensor.quantization.per_axis
        and "int" in tensor.dtype
    }
