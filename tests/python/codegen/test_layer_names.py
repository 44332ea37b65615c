"""Layers in generated C have the names of the network's nodes."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.codegen.c.naming import layer_name, work_name

CONVOLUTIONS = ("m/stem/Relu;m/stem/BiasAdd;m/stem/Conv2D", "m/block_1/Conv", "m/block_2/Conv")


def network():
    """Return three convolutions of equal shape with activations."""
    nodes, tensors, x = [], [], "x"
    for i, name in enumerate(CONVOLUTIONS):
        weights = np.random.default_rng(i).standard_normal((8, 8, 3, 3)).astype(np.float32)
        tensors.append(numpy_helper.from_array(weights, f"w{i}"))
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], name, pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"activation_{i}"))
        x = f"r{i}"
    shape = [1, 8, 10, 10]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", x)]
    graph = helper.make_graph(nodes, "three", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_functions_and_structs_are_named_after_convolutions(target, tmp_path):
    model = network()
    onnx.checker.check_model(model)
    tvmrt.compile(model, target=target).export_sources(tmp_path)
    text = "\n".join(path.read_text() for path in tmp_path.glob("*_lib[1-9].c"))
    for name in ("m_stem", "block_1_Conv", "block_2_Conv"):
        assert re.search(rf"^int32_t tvmgen_default_(m_)?{name}\(", text, re.MULTILINE), name
    assert not re.search(r"^int32_t tvmgen_\w*activation", text, re.MULTILINE)
    assert not re.search(r"\w_[0-9a-f]{12,16}\b", text)  # no hashes
    structs = re.findall(r"^static const \w+ (\w+_layer) = ", text, re.MULTILINE)
    assert len(structs) == len(set(structs))
    if target == "cortex-m4":  # equal layers share the struct of the first one
        assert [name.removeprefix("tvmgen_default_") for name in structs] == ["m_stem_layer"]
        assert text.count("&tvmgen_default_m_stem_layer") == len(CONVOLUTIONS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m/act/Relu;m/bn/FusedBatchNormV3;m/conv_3/BiasAdd;m/conv_5/Conv2D", "m/conv_3"),
        ("m/pw/Relu6;m/pw/Conv2D", "m/pw/Conv2D"),
        ("m/dense/MatMul;m/dense/Relu;m/dense/BiasAdd", "m/dense"),
        ("block/Conv_12", "block/Conv_12"),
        ("m/conv_3/BiasAdd", "m/conv_3"),
        ("m/dense/BiasAdd_prequant", "m/dense"),
    ],
)
def test_a_fused_layer_has_the_name_of_its_convolution_or_matmul(name, expected):
    assert layer_name(name) == expected


WORK_NAMES = [
    ("add", "n2/FusedBatchNormV3", "n2/add"),
    ("qadd", "block/Relu_quant", "block/add"),
    ("softmax", "Identity_int8_prequant", "softmax"),
    ("qconv", "m/Conv2d_0/Relu6_prequant", "m/Conv2d_0"),
    ("quantize", "m/act/Relu;m/conv/BiasAdd_quantize", "m/act/quantize"),
    ("matmul", "Times212", "Times212"),
    ("identity", "block/Transpose_copy", "block/Transpose_copy"),
    ("reduce_mean", "top/AvgPool", "top/AvgPool"),
]


def test_a_step_is_not_named_after_the_work_of_another_operator():
    found = [(op, name, work_name(op, name)) for op, name, _ in WORK_NAMES]
    assert found == WORK_NAMES
