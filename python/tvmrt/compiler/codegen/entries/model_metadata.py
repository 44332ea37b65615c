"""Description of a network's functions: parameters and memory, as in TVMModelMetadata."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import ARENA, Buffer, Program
from tvmrt.compiler.ir.sizes import INT_MAX, expected_size, upper_bound
from tvmrt.compiler.ir.tensor_type import TensorType

from ..c.naming import sanitize
from ..c.writer import Function
from .arguments import weight_inputs

VERSION = 1  # TVM_MODEL_METADATA_VERSION
CPU = 1  # kDLCPU


def main_tensors(
    program: Program, sources, options
) -> tuple[list[tuple[str, TensorType]], list[tuple[str, TensorType]]]:
    """Return the inputs and outputs of the main function. Weights that the caller passes are
    inputs."""
    weights = ((b.name, TensorType((b.size,), b.dtype)) for b in weight_inputs(sources, options))
    inputs = [*zip(program.input_names, program.input_types), *weights]
    return inputs, list(zip(program.output_names, program.output_types))


def model_metadata(program: Program, sources, options) -> dict:
    """Return the content of a network's TVMModelMetadata under the names of its members.

    It is printed as C and stored in the Model Library Format. Dynamic dimensions have their
    maximum, tensors of functions their shape in the network whatever their layout in memory is.
    """
    main = _main_function(program, sources, options)
    return {
        "version": VERSION,
        "module_name": options.module_name,
        "functions": [main, *map(_operator_function, sources.functions)],
    }


def _main_function(program: Program, sources, options) -> dict:
    inputs, outputs = main_tensors(program, sources, options)
    constants = len(sources.weights)
    if options.firmware:  # C arrays, without padding
        constants = sum(b.nbytes for b in sources.weight_buffers)
    params = [_parameter(name, sanitize(name), type) for name, type in (*inputs, *outputs)]
    sizes = program.arena_bytes, constants
    types = [type for _, type in (*inputs, *outputs)]
    return _function(f"{sources.prefix}___tvm_main__", params, len(inputs), types, sizes)


def _operator_function(function: Function) -> dict:
    """Describe an operator or a region. Constants are no parameters, but have a size."""
    step = function.step
    values = [*step.read_values, *step.group.outputs]
    operands = function.parameters[: len(values)]
    params = [
        _parameter(v.name, p.name, v.type, p.buffer) for v, p in zip(values, operands, strict=True)
    ]
    weights = dict.fromkeys(p.buffer for p in function.parameters if p.buffer)
    constants = sum(b.nbytes for b in weights if b.data is not None)
    sizes = step.scratch_bytes, constants
    return _function(function.symbol, params, len(step.reads), [v.type for v in values], sizes)


def _function(name: str, params: list, num_inputs: int, types: Sequence[TensorType], sizes) -> dict:
    """Return the members of TVMFunctionInfo; ``sizes``: bytes of the workspace and of constants."""
    workspace, constants = sizes
    return {
        "function_name": name,
        "params": params,
        "num_inputs": num_inputs,
        "num_outputs": len(params) - num_inputs,
        "workspace_size_bytes": expected_size(workspace),
        "io_size_bytes": sum(t.nbytes for t in types),
        "constant_size_bytes": constants,
    }


def _parameter(hint: str, name: str, type: TensorType, buffer: Buffer | None = None) -> dict:
    """Return the members of TVMParameterInfo. A tensor lies in host memory unless the memory plan
    put its buffer on a device."""
    memory = buffer.memory if buffer is not None and buffer.kind == ARENA else None
    device = (CPU, 0) if memory is None else (memory.type, memory.number)
    return {
        "relay_name_hint": hint,
        "tir_name_hint": name,
        "shape": [min(upper_bound(n), INT_MAX) for n in type.shape],
        "dtype": type.dtype.text,
        "device": dict(zip(("device_type", "device_id"), device)),
    }
