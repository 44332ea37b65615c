"""Inputs of ``.tflite`` networks for the commands, and LiteRT's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import files, onnx_reference

if TYPE_CHECKING:
    import numpy as np

REFERENCE, PLAIN, FAST = "reference kernels", "kernels", "kernels and XNNPACK"


def inputs_of(
    path: Path, choices: Mapping[str, Any], inputs_file: Path | None
) -> dict[str, np.ndarray]:
    """Return inputs by name, read from a file or generated; open dimensions have their maximum.

    Raises the same errors as ``networks.inputs_for``.
    """
    from tvmrt.plugins.tflite.frontend import aliases_of, by_input, entry_of, load_model, names_of

    files.check_file(path)
    model = load_model(path)
    entry = entry_of(model, choices["signature"])
    aliases = aliases_of(model, entry)
    shapes = by_input(_largest(choices), aliases)
    graph, names = model.subgraphs[entry[0]], names_of(model, entry)[0]
    tensors = [graph.tensors[i] for i in graph.inputs]
    infos = [
        onnx_reference.TensorInfo(name, t.dtype, tuple(shapes.get(name, t.shape)))
        for name, t in zip(names, tensors)
    ]
    if inputs_file is None:
        return onnx_reference.random_inputs(infos)
    arrays = by_input(files.load_inputs(inputs_file), aliases)
    onnx_reference.check_inputs(arrays, infos, str(inputs_file))
    return arrays


def _largest(choices: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shapes that the user set, with symbolic dimensions at their maximum."""
    from tvmrt.compiler.sdk.frontend import Dims, parse_dim
    from tvmrt.compiler.sdk.graph import upper_bound

    dims, shapes = Dims(choices["dims"]), choices["shapes"] or {}

    def size(extent: int | str) -> int:
        if isinstance(extent, int):
            return extent
        if extent not in dims:
            extent, bounds = parse_dim(extent)
            dims.declare(extent, bounds)
        return upper_bound(dims.extent(extent))

    return {name: tuple(map(size, shape)) for name, shape in shapes.items()}


def interpreter(data: bytes, kernels: str, threads: int = 1) -> Any:
    """Create LiteRT's interpreter of a network. Raises ImportError if LiteRT is not installed, and
    ValueError or RuntimeError if it rejects the network."""
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise ImportError(
            "LiteRT, the reference for .tflite networks, is not installed: "
            "pip install ai-edge-litert"
        ) from None
    kinds = {
        REFERENCE: OpResolverType.BUILTIN_REF,
        PLAIN: OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        FAST: OpResolverType.AUTO,
    }
    return Interpreter(
        model_content=data,
        experimental_op_resolver_type=kinds[kernels],
        experimental_preserve_all_tensors=kernels != FAST,
        num_threads=threads,
    )


def allocate(interpreter: Any, feeds: Sequence[np.ndarray]) -> None:
    """Resize an interpreter's inputs to the shapes of ``feeds`` and allocate its tensors."""
    for detail, value in zip(interpreter.get_input_details(), feeds):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()


def set_inputs(interpreter: Any, feeds: Sequence[np.ndarray]) -> None:
    """Set an interpreter's inputs."""
    for detail, value in zip(interpreter.get_input_details(), feeds):
        interpreter.set_tensor(detail["index"], value)


def call_of(
    path: Path, inputs: Mapping[str, np.ndarray], signature: str | None, threads: int
) -> Callable[[], Any]:
    """Return a function that runs the network with LiteRT's fastest kernels."""
    one = interpreter(path.read_bytes(), FAST, threads)
    if signature is not None:
        runner = one.get_signature_runner(signature)
        return lambda: runner(**inputs)
    feeds = list(inputs.values())
    allocate(one, feeds)
    outputs = [detail["index"] for detail in one.get_output_details()]

    def call() -> list[np.ndarray]:
        set_inputs(one, feeds)
        one.invoke()
        return [one.get_tensor(index) for index in outputs]

    return call
