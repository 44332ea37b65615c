"""Compare networks written by onnxruntime's transformer optimiser and quantisers with
onnxruntime."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnxruntime
import pytest
from nn_case import run_compiled
from quantizer_files import quantized_files, side_by_side
from transformer_files import BUILDERS, optimized

# operators that must have been fused in a network, or the test would not cover them
FUSED = {
    "bert": {
        "EmbedLayerNormalization": 1,
        "Attention": 2,
        "SkipLayerNormalization": 4,
        "BiasGelu": 2,
    },
    "gpt2": {"Attention": 2, "SkipLayerNormalization": 4, "FastGelu": 2},
    "vit": {"Attention": 2, "SkipLayerNormalization": 4, "BiasGelu": 2},
}
QUANTIZED = {
    "dynamic, fused": {"DynamicQuantizeMatMul"},
    "operators": {"QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearConcat",
                  "QLinearGlobalAveragePool", "QLinearAveragePool", "QGemm"},
    "pairs, fused": {"QGemm", "QLinearGlobalAveragePool"},
    "4 bits": {"MatMulNBits"},
}  # fmt: skip


def operators(model) -> Counter:
    return Counter(n.op_type for n in model.graph.node if n.domain == "com.microsoft")


def by_onnxruntime(model, feeds: dict) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BUILDERS)
def test_optimised_transformer(tmp_path, kind):
    pytest.importorskip("sympy", reason="the optimiser needs it")
    model, feeds = BUILDERS[kind](layers=2, width=32, heads=2)
    fused = optimized(model, kind, tmp_path, 2, 32)
    found = operators(fused)
    if found != FUSED[kind]:
        pytest.skip(f"this onnxruntime fuses other nodes: {dict(found)}")
    result = run_compiled(fused, feeds, tmp_path)[fused.graph.output[0].name]
    np.testing.assert_allclose(result, by_onnxruntime(model, feeds), rtol=1e-4, atol=2e-5)


@pytest.mark.slow
def test_quantised_networks(tmp_path):
    """Results are probabilities and sums of floats; one step of an int8 layer changes them by a
    hundredth of their range."""
    files = quantized_files(tmp_path)
    for name, wanted in QUANTIZED.items():
        made = set(operators(files[name])) if name in files else wanted
        assert wanted <= made, f"{name}: {made}"
    rng, feeds, right = np.random.default_rng(6), {}, {}
    for i, (name, model) in enumerate(files.items()):
        shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
        x = rng.normal(0, 1, shape).astype(np.float32)
        feeds[f"{i}_x"], right[name] = x, by_onnxruntime(model, {"x": x})
    found = run_compiled(side_by_side(files), feeds, tmp_path)
    for i, (name, expected) in enumerate(right.items()):
        result, spread = found[f"{i}_y"], float(np.ptp(expected))
        assert result.shape == expected.shape
        bound = spread * (1e-5 if "bits" in name or "dynamic" in name else 0.02)
        assert np.abs(result - expected).max() <= bound, name
