"""Comparison of a compiled ``.tflite`` network with LiteRT, tensor by tensor."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import tolerance
from tvmrt.plugins.tflite import litert

if TYPE_CHECKING:
    import numpy as np

    from tvmrt.plugins.tflite.frontend.model_file import Subgraph


def rows_of(
    path: Path,
    inputs_file: Path | None,
    threads: int,
    outputs_only: bool,
    choices: Mapping[str, Any],
) -> tuple[list[tolerance.TensorComparison], str]:
    """Compare every tensor; return the rows, and the name of LiteRT's kernels that were used.

    Raises ImportError if LiteRT is not installed, and ValueError if it rejects the network.
    """
    from tvmrt.plugins.tflite.frontend import (
        AllTensorsModel,
        entry_of,
        load_model,
        made_by_operators,
        names_of,
    )

    feeds = litert.inputs_of(path, choices, inputs_file)
    model = load_model(path)
    entry = entry_of(model, choices["signature"])
    main = model.subgraphs[entry[0]]
    inputs, outputs = names_of(model, entry)
    in_blocks = _types_of_blocks(main)
    # LiteRT exposes tensors of the first graph only, XNNPACK none but the outputs
    outputs_only = outputs_only or entry[0] != 0 or bool(in_blocks)
    indices = [*main.outputs, *([] if outputs_only else made_by_operators(main))]
    names = [*outputs, *(main.tensors[i].name for i in indices[len(outputs) :])]
    given = [feeds[name] for name in inputs]
    if in_blocks:
        judge, right = _run_xnnpack(path.read_bytes(), given, indices, in_blocks)
    elif entry[0]:
        judge, right = _run_signature(path.read_bytes(), choices["signature"], feeds, outputs)
    else:
        judge, right = litert_tensors(path.read_bytes(), given, indices)
    source = str(path) if outputs_only else AllTensorsModel(str(path))
    actual = _run(source, feeds, threads, choices)
    makers = {i: op.name for op in main.operators for i in op.outputs}
    rows = []
    for position, (index, name) in enumerate(zip(indices, names)):
        part = "outputs" if position < len(outputs) else "every tensor"
        value = right[position]
        if value is None:  # LiteRT keeps no buffer for this tensor
            continue
        if in_blocks:
            verdict = tolerance.judge(
                actual[position], value, rounded=tolerance.INT8_ACTIVATION_TOLERANCE
            )
        else:
            verdict = tolerance.compare_exactly(actual[position], value)
        shape = tuple(value.shape)
        rows.append(
            tolerance.TensorComparison(
                part, name, makers.get(index, "input"), str(value.dtype), shape, verdict
            )
        )
    return rows, judge


def _types_of_blocks(graph: Subgraph) -> set[str]:
    """Return the types of weights with blockwise quantisation."""
    return {tensor.dtype for tensor in graph.tensors if tensor.blocks is not None}


def _run_xnnpack(
    data: bytes, feeds: Sequence[np.ndarray], indices: Sequence[int], kinds: set[str]
) -> tuple[str, list[np.ndarray | None]]:
    """Return (kernel name, outputs). LiteRT's own kernels ignore blockwise weight scales."""
    if kinds != {"int4"}:
        raise ValueError(
            f"LiteRT has no kernel for blockwise weights of {', '.join(sorted(kinds - {'int4'}))}; "
            "compare the network with its float32 original"
        )
    try:
        interpreter = litert.interpreter(data, litert.FAST)
        litert.allocate(interpreter, feeds)
        litert.set_inputs(interpreter, feeds)
        interpreter.invoke()
    except (ValueError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        raise ValueError(f"LiteRT cannot run the network: {reason}") from None
    return "XNNPACK, whose activations have 8 bits", [_tensor(interpreter, i) for i in indices]


def _run_signature(
    data: bytes, signature: str, feeds: Mapping[str, np.ndarray], outputs: Sequence[str]
) -> tuple[str, list[np.ndarray]]:
    """Return (kernel name, outputs) of a signature."""
    one = litert.interpreter(data, litert.REFERENCE)
    try:
        found = one.get_signature_runner(signature)(**feeds)
    except (ValueError, RuntimeError) as problem:
        reason = " ".join(str(problem).split())
        raise ValueError(f"LiteRT cannot run the network: {reason}") from None
    return "LiteRT's reference kernels", [found[name] for name in outputs]


def _run(
    source: Any, feeds: Mapping[str, np.ndarray], threads: int, choices: Mapping[str, Any]
) -> list[np.ndarray]:
    from tvmrt.cli.session import Session
    from tvmrt.compiler.sdk.pipeline import compile as compile_network

    with tempfile.TemporaryDirectory(prefix="tvmrt-verify-") as folder:
        path = Path(folder) / "network.so"
        compile_network(source, **choices).export_library(str(path))
        session = Session(path, threads)
        return list(session.run(session.checked_inputs(feeds, "inputs")).values())


def litert_tensors(
    data: bytes, feeds: Sequence[np.ndarray], indices: Sequence[int]
) -> tuple[str, list[np.ndarray | None]]:
    """Return (kernel name, main-graph tensors by index), with None for tensors without a buffer.

    Uses LiteRT's reference kernels, or its other kernels if those lack an operator.
    """
    reason = ""
    for judge, kernels in (
        ("LiteRT's reference kernels", litert.REFERENCE),
        ("LiteRT", litert.PLAIN),
    ):
        try:
            interpreter = litert.interpreter(data, kernels)
            litert.allocate(interpreter, feeds)
            litert.set_inputs(interpreter, feeds)
            interpreter.invoke()
        except (ValueError, RuntimeError) as problem:
            reason = " ".join(str(problem).split())
            continue
        return judge, [_tensor(interpreter, index) for index in indices]
    raise ValueError(f"LiteRT cannot run the network: {reason}")


def _tensor(interpreter: Any, index: int) -> np.ndarray | None:
    try:
        return interpreter.get_tensor(index).copy()
    except ValueError:
        return None
