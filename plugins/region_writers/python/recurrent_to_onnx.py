"""Recurrent cells as unidirectional ONNX LSTM, GRU or RNN, with the preceding matmul merged."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvmrt.compiler.sdk.graph import ACTIVATIONS, Node
from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.onnx_writer import Form, Writer

# ONNX operator and number of gates.
CELLS = {"lstm": ("LSTM", 4), "gru": ("GRU", 3), "rnn": ("RNN", 1)}
_STATES = {"lstm": 4, "gru": 4, "rnn": 3}  # operands before the peepholes and lengths


def cell_refusal(node: Node) -> str | None:
    """Return why a cell cannot be written, or None if it can."""
    attrs = node.attrs
    functions = ACTIVATIONS[node.op]
    if tuple(attrs["activations"]) != tuple((name, None, None) for name in functions):
        return f"{node.op} has other functions than {', '.join(functions)}"
    if np.isfinite(attrs.get("clip", np.inf)) or attrs.get("input_forget"):
        return f"{node.op} clips, or couples its gates"
    if any(v is not None for v in node.inputs[_STATES[node.op] :]):
        return f"{node.op} has peepholes, or lengths of sequences"
    return None


def _preceding_matmul(w: Writer, tensor_id: int) -> tuple[str, np.ndarray, np.ndarray] | None:
    """Return input, weights and bias of the constant-weight matmul that computes a tensor."""
    for node in w.region["nodes"]:
        if node["outputs"] != [tensor_id]:
            continue
        x, weights, bias = [*node["inputs"], -1, -1][:3]
        if node["op"] != "matmul" or weights not in w.arrays or len(w.shape(weights)) != 2:
            return None
        gates = w.shape(weights)[1]
        if bias >= 0 and (bias not in w.arrays or w.arrays[bias].size != gates):
            return None
        if len(w.shape(x)) != 3:
            return None
        none = np.zeros(gates, np.float32)
        return f"t{x}", w.arrays[weights].T, w.arrays[bias].reshape(-1) if bias >= 0 else none
    return None


def _cell(w: Writer, node: Mapping, inputs: list[str], _: str) -> None:
    """Write a cell with the preceding matmul merged; without one, use identity weights."""
    name, gates = CELLS[node["op"]]
    inputs = [*inputs, "", ""]
    recurrence = node["inputs"][1]
    if recurrence not in w.arrays:
        raise UnsupportedError(f"{node['name']}: its weights are not constant")
    batch, hidden = w.shape(node["outputs"][1])
    gate_width = gates * hidden
    product = _preceding_matmul(w, node["inputs"][0])
    x, weights, bias = product or (
        inputs[0],
        np.eye(gate_width, dtype=np.float32),
        np.zeros(gate_width),
    )
    of_state = np.zeros(gate_width)
    attributes = {
        "hidden_size": hidden,
        "direction": "reverse" if node["attrs"]["reverse"] else "forward",
    }
    states = inputs[2:4] if node["op"] == "lstm" else inputs[2:3]
    if node["op"] == "gru":
        attributes["linear_before_reset"] = node["attrs"]["linear_before_reset"]
        if inputs[3]:
            if node["inputs"][3] not in w.arrays:
                raise UnsupportedError(f"{node['name']}: its bias is not constant")
            of_state[2 * hidden :] = w.arrays[node["inputs"][3]]
    operands = [
        x,
        w.constant(weights[None]),
        w.constant(w.arrays[recurrence][None]),
        w.constant(np.concatenate([bias, of_state])[None].astype(np.float32)),
        "",
        *(_state(w, state, (1, batch, hidden)) for state in states),
    ]
    results = [w.fresh() for _ in node["outputs"]]
    w.add_many(name, operands, results, **attributes)
    for tensor_id, result in zip(node["outputs"], results):
        w.add("Reshape", [result, w.integers(w.shape(tensor_id))], f"t{tensor_id}")


def _state(w: Writer, name: str, shape: tuple[int, ...]) -> str:
    return w.add("Reshape", [name, w.integers(shape)]) if name else ""


CELL_FORMS: dict[str, Form] = dict.fromkeys(CELLS, _cell)
