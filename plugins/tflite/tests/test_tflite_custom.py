"""Test custom operators of files, declared by the user."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import Net, assert_like, litert_runs, ours

import tvmrt
from tvmrt.custom import C, Kernel, Tensor, composed
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map

pytest.importorskip("ai_edge_litert")

BODY = r"""
static int32_t shifted(const int8_t *x, const tvmrt_shape *x_shape, int8_t *y,
                       const tvmrt_shape *y_shape, int32_t by) {
  (void)y_shape;
  for (int64_t i = 0; i < x_shape->size; ++i) y[i] = (int8_t)(x[i] >> by);
  return 0;
}
"""


def _custom(net: Net, name: str, inputs: list, outputs: list, options: bytes, version=1) -> None:
    net.op("CUSTOM", inputs, outputs, version)
    net.model.operatorCodes[-1].customCode = name
    net.graph.operators[-1].customOptions = np.frombuffer(options, np.uint8)


def _flex(**entries) -> bytes:
    from flatbuffers import flexbuffers

    return bytes(flexbuffers.Dumps(entries))


def _network() -> Net:
    net = Net()
    x = net.input((5,), "int8", scale=0.5, zero=1)
    y = net.output((5,), "int8", scale=0.5, zero=1)
    _custom(net, "Shift", [x], [y], b"\x02\x03")
    a, b = net.input((2, 3), "float32"), net.output((2, 3), "float32")
    _custom(net, "Gain", [a], [b], _flex(gain=2.5, offset=3, name="n", on=True, list=[1, 2]), 2)
    return net


def test_options_become_attributes_and_raw_bytes(tmp_path):
    seen = {}

    def scalars(given, types):
        seen.update(given)
        return {"by": given["custom_options"][0]}

    shift = Kernel(
        "Shift",
        domain="tflite",
        inputs=[Tensor("x", "int8")],
        outputs=[Tensor("y", "int8")],
        scalars={"by": "int"},
        attributes=scalars,
        c=C(BODY, "shifted"),
    )

    @composed("Gain", domain="tflite", version=2)
    def gain(g, x, *, gain=1.0, offset=0, name="", on=False, list=()):
        assert (name, on, list) == ("n", True, [1, 2])
        return g.Add(g.Mul(x, gain), float(offset))

    x = np.array([-128, -5, 0, 9, 127], np.int8)
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = ours(_network().data(), [x, a], tmp_path, operators=[shift, gain])
    np.testing.assert_array_equal(got[0], x >> 2)
    np.testing.assert_allclose(got[1], a * 2.5 + 3, rtol=1e-6)
    assert seen["scales"] == [0.5, 0.5] and seen["zero_points"] == [1, 1]


def test_undeclared_custom_operators_are_listed():
    with pytest.raises(UnsupportedError) as refusal:
        tvmrt.compile(_network().data())
    said = str(refusal.value)
    assert "custom operator Shift version 1" in said and "custom operator Gain version 2" in said


def test_maps_round_trip_and_damage_only_drops_entries():
    entries = {"i": -70000, "u": 7, "f": 0.25, "s": "text", "b": True, "v": [1, 2, 300], "k": 2**40}
    data = _flex(**entries, nested={"a": 1}, mixed=[1, "x"])
    assert read_map(data) == entries
    rng = np.random.default_rng(1)
    for _ in range(2000):
        changed = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        read_map(bytes(changed[: rng.integers(1, len(data) + 1)]))
    assert read_map(b"") == read_map(b"\0\0\0") == {}
    # as many entries could refer to one large value
    assert read_map(_flex(**dict.fromkeys(map("k{:04}".format, range(2000)), 1))) == {}


@pytest.mark.parametrize("kinds", [1, 2])
def test_detection_postprocess_equals_litert(kinds, tmp_path):
    """Decode boxes in floats, with int8 scores that have a background class."""
    rng, count, most = np.random.default_rng(kinds), 24, 6
    net = Net()
    boxes = net.input((1, count, 4), "float32")
    scores = net.input((1, count, 4), "uint8", scale=1 / 256)
    anchors = rng.uniform(0.2, 0.8, (count, 4)).astype(np.float32)
    m = most * kinds
    outs = [net.output(shape, "float32") for shape in ((1, m, 4), (1, m), (1, m), (1,))]
    options = {"max_detections": most, "max_classes_per_detection": kinds, "num_classes": 3,
               "nms_score_threshold": 0.3, "nms_iou_threshold": 0.4, "y_scale": 10.0,
               "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}  # fmt: skip
    _custom(net, "TFLite_Detection_PostProcess", [boxes, scores, net.const(anchors)], outs,
            _flex(**options))  # fmt: skip
    values = np.stack([rng.permutation(250)[: count * 4 // 2] for _ in range(2)]).astype(np.uint8)
    feeds = [rng.standard_normal((1, count, 4)).astype(np.float32), values.reshape(1, count, 4)]
    mine, right = ours(net.data(), feeds, tmp_path), litert_runs(net.data(), [feeds])[0]
    assert 2 <= right[3][0] <= most
    kept = int(right[3][0]) * kinds  # LiteRT does not write the elements after them
    assert_like([v[:, :kept] for v in mine[:3]], [v[:, :kept] for v in right[:3]])
    assert_like(mine[3:], right[3:])
    assert not mine[0][:, kept:].any()
