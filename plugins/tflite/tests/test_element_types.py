"""Test every ``.tflite`` operator with every element type: correct, or refused with an error that
names operator, tensor and type."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import Net, assert_like, feeds_for, litert_runs, ours
from typed_operators import NETS, TYPES, typed_net, typed_nets
from typed_references import OF_ANY_TYPE, WITHOUT_ELEMENTS, accepted, check_all, inputs_of

from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import element_types, import_model, registry
from tvmrt.plugins.tflite.frontend.options import BUILTIN

pytest.importorskip("ai_edge_litert")

# Operators whose operands have several types; other tests cover them.
MIXED = {
    "BITCAST", "BROADCAST_ARGS", "DENSIFY", "RANGE", "RFFT2D", "LSTM", "RNN", "SVDF",
    "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "UNIDIRECTIONAL_SEQUENCE_RNN", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5",
}  # fmt: skip


def known_operators() -> set[str]:
    """Return all operators with an importer, except custom ones."""
    registry.find("ADD")
    return {name for name in registry._TABLE if name in BUILTIN}


def test_every_operator_says_for_which_types_it_is():
    groups = [set(element_types.TYPES), OF_ANY_TYPE, WITHOUT_ELEMENTS]
    assert set().union(*groups) == known_operators()
    assert sum(map(len, groups)) == len(known_operators())
    assert set(NETS) | MIXED | WITHOUT_ELEMENTS == known_operators()


@pytest.mark.parametrize("kind", TYPES)
def test_an_operator_refuses_a_type_by_a_sentence(kind):
    for operator in set(NETS) - set(accepted(kind)):
        with pytest.raises(UnsupportedError) as problem:
            import_model(typed_net(operator, kind))
        sentence = str(problem.value)
        assert operator in sentence and kind.rpartition(" ")[2] in sentence, sentence
        assert "tensor t" in sentence and "is compiled for" in sentence, sentence


@pytest.mark.slow
@pytest.mark.parametrize("kind", TYPES)
def test_operator_is_right_for_all_supported_types(kind, tmp_path):
    operators = accepted(kind)
    assert len(operators) > 40
    feeds = [each for operator in operators for each in inputs_of(operator, kind)]
    check_all(operators, kind, ours(typed_nets(operators, kind), feeds, tmp_path))


REFUSED = [
    ("POW", "quantised int16", "tensor t0 has elements of quantised int16; POW is compiled for "
     "float32, int32 and int64"),
    ("L2_NORMALIZATION", "quantised int16", "tensor t1 has elements of quantised int16"),
    ("HARD_SWISH", "quantised int16", "tensor t1 has elements of quantised int16; HARD_SWISH is "
     "compiled for float32, quantised int8 and quantised uint8; leave this operator in float32 or "
     "int8 when quantising the network"),
    ("ELU", "quantised int16", "leave this operator in float32 or int8 when quantising"),
    ("COS", "int32", "cast the tensor to float32 before it"),
    ("RELU", "int16", "convert the network again with a scale for this tensor"),
    ("ADD_N", "quantised int8", "tensor t0 has elements of quantised int8"),
    ("RELU", "int8", "tensor t1 has elements of int8 without a scale; RELU is compiled for"),
    ("LOG_SOFTMAX", "quantised int16", "tensor t1 has elements of quantised int16; LOG_SOFTMAX is"),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "kind", "sentence"), REFUSED)
def test_unsupported_element_type_is_named(operator, kind, sentence):
    with pytest.raises(UnsupportedError, match=sentence):
        import_model(typed_net(operator, kind))


def test_quantisation_is_a_property_of_types():
    from tvmrt.plugins.tflite.frontend.arithmetic import is_quantized

    with pytest.raises(TypeError):
        is_quantized(None)


def test_int16_square_equals_tflite_micro(tmp_path):
    """The expected values are from tflite-micro's interpreter; LiteRT has no int16 kernel."""
    a = [100, -2000, 10000, 30000, -30000, 32767, 0, 1234, -32768, 5, -777, 20001]
    b = [100, 2000, -10000, 10000, 10000, -32768, 20000, 1200, 32767, -6, 912, 19999]
    net = Net()
    operands = [net.input((1, 12), "int16", scale=scale) for scale in (0.00035, 0.00041)]
    y = net.output((1, 12), "int16", scale=0.0157)
    net.op("SQUARED_DIFFERENCE", operands, [y], 2, "SquaredDifferenceOptions")
    (found,) = ours(net.data(), [np.array([row], np.int16) for row in (a, b)], tmp_path)
    assert found.tolist() == [[0, 147, 3680, 2609, 13577, 32767, 4283, 0, 32767, 0, 27, 92]]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0001, 3e-9])
def test_int16_is_quantised_to_int32(scale, tmp_path):
    net = Net()
    x = net.input((1, 4096), "int16", scale=0.0003)
    net.op("QUANTIZE", [x], [net.output((1, 4096), "int32", scale=scale)], 4)
    feeds = feeds_for(net.data())
    (right,) = litert_runs(net.data(), [feeds])
    np.testing.assert_array_equal(ours(net.data(), feeds, tmp_path)[0], right[0])


@pytest.mark.slow
@pytest.mark.parametrize("option", ["", "halfPixelCenters", "alignCorners"])
def test_pictures_of_uint8_are_resized_as_by_litert(option, tmp_path):
    net, q = Net(), {"scale": 0.02, "zero": 7}
    for shape, size in (
        ((1, 4, 5, 3), (7, 9)),
        ((2, 9, 8, 1), (3, 5)),
        ((1, 33, 33, 2), (65, 129)),
    ):
        x = net.input(shape, "uint8", **q)
        y = net.output((shape[0], *size, shape[3]), "uint8", **q)
        extents = net.const(np.array(size, np.int32))
        fields = {option: True} if option else {}
        net.op("RESIZE_BILINEAR", [x, extents], [y], 3, "ResizeBilinearOptions", **fields)
    feeds = feeds_for(net.data())
    (right,) = litert_runs(net.data(), [feeds])
    assert_like(ours(net.data(), feeds, tmp_path), right)
