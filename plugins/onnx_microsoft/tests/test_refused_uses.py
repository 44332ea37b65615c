"""Uses of the operators of language models that are refused, each with its reason."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from nn_case import build_model, case
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.registry import find
from tvmrt.error import UnsupportedError

REFUSALS = (ValueError, UnsupportedError)
X, LOGITS, W1, W2 = (3, 8), (3, 4), (4, 16, 8), (4, 8, 16)
EXPERTS = (X, LOGITS, W1, None, W2)
Q, STATE, GATE = (2, 5, 8), (2, 2, 4, 4), (2, 5, 2)
HEADS = {"q_num_heads": 2, "kv_num_heads": 2}
DELTA = ((6, 2, 4), (6, 2, 4), (6, 2, 4), None, (6, 2), (6, 2))
ROWS = (1, 3, 16)
CACHE = (ROWS, ROWS, ROWS, (1, 2, 4, 8), (1, 2, 4, 8))

USES = [
    ("MoE", EXPERTS, {"use_sparse_mixer": 1}, "use_sparse_mixer is 1; only 0"),
    ("MoE", EXPERTS, {"k": 5}, "k is 5 for 4 experts"),
    ("MoE", EXPERTS, {"activation_type": "swiglu"}, "needs swiglu_fusion=1 or 2"),
    ("MoE", EXPERTS, {"activation_type": "tanh"}, "activation_type"),
    ("MoE", (X, (2, 4), W1, None, W2), {}, "for 3 tokens"),
    ("LinearAttention", (Q, Q, Q), {**HEADS, "update_rule": "gated"}, "input decay is missing"),
    ("LinearAttention", (Q, Q, Q, None, GATE, GATE), {**HEADS, "state_window": 2}, "state_window"),
    ("LinearAttention", (Q, Q, Q), {"q_num_heads": 3, "kv_num_heads": 2}, "do not share"),
    ("LinearAttention", (Q, Q, Q, (2, 2, 5, 4), GATE, GATE), HEADS, "the initial state is"),
    ("GatedDeltaNet", DELTA, {}, "initial_state is missing"),
    ("GatedDeltaNet", (*DELTA, STATE), {"gate_activation": "kda"}, "a_log or dt_bias is missing"),
    ("CausalConvWithState", ((2, 3, 6), (3, 1, 4)), {"state_window": 1}, "state_window"),
    ("CausalConvWithState", ((2, 3, 6), (4, 1, 4)), {}, "3 channels in the input and 4"),
    ("CausalConvWithState", ((2, 3, 6), (3, 1, 4), None, (2, 3, 4)), {}, "expected 3 positions"),
    ("MoEGroupRouter", (LOGITS, (4,)), {"top_k": 3, "n_group": 2}, "of 4 experts in 1"),
    ("HyperConnectionPreMix", ((2, 3, 4), (2, 4)), {}, "for streams of"),
    ("VarlenCausalConvWithState", (X,), {}, "packed without padding"),
    ("SparseAttention", (X,), {}, "use Attention or GroupQueryAttention"),
]


@pytest.mark.parametrize("op, shapes, attrs, words", USES)
def test_a_refused_use_is_a_sentence(op, shapes, attrs, words):
    inputs = [None if shape is None else np.zeros(shape, np.float32) for shape in shapes]
    one = case(op, op, inputs, domain="com.microsoft", **attrs)
    with pytest.raises(REFUSALS, match="case0") as caught:
        import_model(build_model([one], 17)[0])
    assert words in str(caught.value)


def test_bits_of_experts_that_have_no_kernel():
    packed, scales = np.zeros((4, 16, 3), np.uint8), np.ones((4, 16), np.float32)
    x, logits = np.zeros(X, np.float32), np.zeros(LOGITS, np.float32)
    inputs = [x, logits, packed, scales, None, np.zeros((4, 8, 6), np.uint8), scales[:, :8]]
    one = case("3 bits", "QMoE", inputs, range(2, 7), expert_weight_bits=3, domain="com.microsoft")
    with pytest.raises(REFUSALS, match="fc1 has weights of 3 bits; 2, 4, 8 are supported"):
        import_model(build_model([one], 17)[0])


def test_scale_of_a_cache_without_quantisation():
    inputs = [np.zeros(shape, np.float32) for shape in CACHE]
    inputs += [np.array([6], np.int32), np.array(7, np.int32), *[None] * 5, np.ones(1, np.float32)]
    attrs = {"num_heads": 2, "kv_num_heads": 2, "domain": "com.microsoft"}
    one = case("scale", "GroupQueryAttention", inputs, [6], **attrs)
    with pytest.raises(REFUSALS, match="k_quant_type is NONE"):
        import_model(build_model([one], 17)[0])


def test_every_operator_of_onnxruntime_is_known():
    """Each operator that onnxruntime computes on CPUs is imported or has a reason."""
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) > (1, 32):
        pytest.skip("a later onnxruntime has further operators")
    names = {
        kernel.op_name
        for kernel in get_all_opkernel_def()
        if (kernel.domain, kernel.provider) == ("com.microsoft", "CPUExecutionProvider")
    }
    assert sorted(name for name in names if find("com.microsoft", name) is None) == []
