"""A compiled ``.tflite`` network beside LiteRT, tensor by tensor."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.cli import files, networks, tolerance

if TYPE_CHECKING:
    import numpy as np

    from tvmrt.frontend.tflite.model_file import Model


def rows_of(
    path: Path,
    inputs_file: Path | None,
    threads: int,
    outputs_only: bool,
    choices: Mapping[str, Any],
) -> tuple[list[tolerance.Row], str]:
    """Every tensor compared, and who judged.

    Raises ImportError where LiteRT is not installed, and ValueError where it refuses the network.
    """
    from tvmrt.frontend.tflite import EveryTensor, load_model, made_by_operators, names_of

    files.check_file(path)
    model = load_model(path)
    main = model.subgraphs[0]
    inputs, outputs = names_of(model)
    indices = [*main.outputs, *([] if outputs_only else made_by_operators(main))]
    names = [*outputs, *(main.tensors[i].name for i in indices[len(outputs) :])]
    feeds = _inputs(model, inputs, choices["shapes"], inputs_file)
    judge, right = litert_tensors(path.read_bytes(), [feeds[name] for name in inputs], indices)
    source = str(path) if outputs_only else EveryTensor(str(path))
    actual = _run(source, feeds, threads, choices)
    makers = {i: op.name for op in main.operators for i in op.outputs}
    rows = []
    for position, (index, name) in enumerate(zip(indices, names)):
        part = "outputs" if position < len(outputs) else "every tensor"
        value = right[position]
        if value is None:  # one that LiteRT keeps in no memory of its own
            continue
        verdict = tolerance.same(actual[position], value)
        shape = tuple(value.shape)
        rows.append(
            tolerance.Row(part, name, makers.get(index, "input"), str(value.dtype), shape, verdict)
        )
    return rows, judge


def _inputs(
    model: Model, names: Sequence[str], shapes: Mapping[str, Any], inputs_file: Path | None
) -> dict[str, np.ndarray]:
    tensors = [model.subgraphs[0].tensors[i] for i in model.subgraphs[0].inputs]
    infos = [
        networks.TensorInfo(name, t.dtype, tuple(shapes.get(name, t.shape)))
        for name, t in zip(names, tensors)
    ]
    if inputs_file is None:
        return networks.random_inputs(infos)
    arrays = files.load_inputs(inputs_file)
    networks.check_inputs(arrays, infos, str(inputs_file))
    return arrays


def _run(
    source: Any, feeds: Mapping[str, np.ndarray], threads: int, choices: Mapping[str, Any]
) -> list[np.ndarray]:
    from tvmrt.cli.session import Session
    from tvmrt.pipeline import compile as compile_network

    with tempfile.TemporaryDirectory(prefix="tvmrt-verify-") as folder:
        path = Path(folder) / "network.so"
        compile_network(source, **choices).export_library(str(path))
        session = Session(path, threads)
        return list(session.run(session.fit(feeds, "inputs")).values())


def litert_tensors(
    data: bytes, feeds: Sequence[np.ndarray], indices: Sequence[int]
) -> tuple[str, list[np.ndarray | None]]:
    """Who computed, and tensors of the main graph by their indices, None for one that is nowhere.

    By LiteRT's reference kernels; by its others where these lack an operator.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise ImportError(
            "LiteRT, which judges .tflite networks, is not installed; get it with 'pip install "
            "ai-edge-litert'"
        ) from None
    reason = ""
    for judge, kind in (
        ("LiteRT's reference kernels", OpResolverType.BUILTIN_REF),
        ("LiteRT", OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES),
    ):
        try:
            interpreter = Interpreter(
                model_content=data,
                experimental_op_resolver_type=kind,
                experimental_preserve_all_tensors=True,
            )
            for detail, value in zip(interpreter.get_input_details(), feeds):
                if tuple(detail["shape"]) != value.shape:
                    interpreter.resize_tensor_input(detail["index"], value.shape)
            interpreter.allocate_tensors()
            for detail, value in zip(interpreter.get_input_details(), feeds):
                interpreter.set_tensor(detail["index"], value)
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
