"""Operators with a state per sequence, for sequences of an open length."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvmrt

RNG = np.random.default_rng(75)
WIDTH, HEADS, BATCH = 8, 2, 2


def array(*shape: int) -> np.ndarray:
    return RNG.normal(0, 0.5, shape).astype(np.float32)


def _model(nodes: list, inputs: dict, outputs: dict, weights: dict) -> onnx.ModelProto:
    ends = [
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in side.items()
        ]
        for side in (inputs, outputs)
    ]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "net", *ends, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _node(op: str, inputs: list[str], outputs: list[str], **attrs):
    return helper.make_node(op, inputs, outputs, op.lower(), domain="com.microsoft", **attrs)


def gated_delta_layer() -> tuple[onnx.ModelProto, dict]:
    """A layer of Gated DeltaNet: convolution, gates and recurrence, each with its state."""
    names = ("qkv", "past_conv", "past_state", "a", "b")
    shapes = [
        [BATCH, 3 * WIDTH, "steps"],
        [BATCH, 3 * WIDTH, 3],
        [BATCH, HEADS, WIDTH // HEADS, WIDTH // HEADS],
        [BATCH, "steps", HEADS],
        [BATCH, "steps", HEADS],
    ]
    nodes = [
        _node(
            "CausalConvWithState",
            ["qkv", "w", "", "past_conv"],
            ["mixed", "conv"],
            activation="silu",
        ),
        helper.make_node("Transpose", ["mixed"], ["rows"], perm=[0, 2, 1]),
        helper.make_node("Split", ["rows"], ["q", "k", "v"], axis=2, num_outputs=3),
        _node("LinearAttentionGate", ["a", "bias", "scale", "b"], ["decay", "beta"]),
        _node(
            "LinearAttention",
            ["q", "k", "v", "past_state", "decay", "beta"],
            ["y", "state"],
            q_num_heads=HEADS,
            kv_num_heads=HEADS,
        ),
    ]
    outputs = {"y": [BATCH, "steps", WIDTH], "conv": shapes[1], "state": shapes[2]}
    weights = {"w": array(3 * WIDTH, 1, 4), "bias": array(HEADS), "scale": -abs(array(HEADS))}
    return _model(nodes, dict(zip(names, shapes)), outputs, weights), {
        "conv": "past_conv",
        "state": "past_state",
    }


def expert_layer() -> tuple[onnx.ModelProto, dict]:
    """Experts of gpt-oss."""
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["tokens"]),
        helper.make_node("MatMul", ["tokens", "router"], ["logits"]),
        _node(
            "MoE",
            ["x", "logits", "w1", "b1", "w2", "b2"],
            ["y"],
            k=2,
            normalize_routing_weights=1,
            activation_type="swiglu",
            swiglu_fusion=1,
            swiglu_limit=7.0,
            activation_alpha=1.702,
            activation_beta=1.0,
        ),
    ]
    weights = {"router": 4 * array(WIDTH, 4), "w1": array(4, 12, WIDTH), "b1": array(4, 12)}
    weights |= {"w2": array(4, WIDTH, 6), "b2": array(4, WIDTH), "flat": np.array([-1, WIDTH])}
    shape = [BATCH, "steps", WIDTH]
    return _model(nodes, {"x": shape}, {"y": shape}, weights), {}


@pytest.mark.parametrize("layer", [gated_delta_layer, expert_layer])
def test_prompt_and_steps_of_any_length(layer):
    """A prompt, further tokens and single steps give what onnxruntime gives, with its states."""
    model, states = layer()
    net = tvmrt.load(model, cache=False)
    judge = onnxruntime.InferenceSession(model.SerializeToString())
    results = [output.name for output in model.graph.output]
    feeds = {}
    for steps in (11, 4, 1, 1):
        for info in model.graph.input:
            shape = [d.dim_value or steps for d in info.type.tensor_type.shape.dim]
            if info.name not in feeds or info.name not in states.values():
                feeds[info.name] = array(*shape)
        wanted = dict(zip(results, judge.run(None, feeds)))
        found = net(**feeds)
        found = dict(zip(results, found if isinstance(found, (list, tuple)) else [found]))
        for name in results:
            np.testing.assert_allclose(found[name], wanted[name], 1e-4, 1e-5, err_msg=name)
        feeds |= {past: wanted[name] for name, past in states.items()}
