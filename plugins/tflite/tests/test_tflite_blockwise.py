"""Test blockwise quantised weights: compare the matmul with exact arithmetic on the real weights,
and with XNNPACK, whose activations have 8 bits."""

from __future__ import annotations

import numpy as np
import pytest
from compilers import Build
from many_networks import STRICT, ManyNetworks
from tflite_case import Net, feeds_for, litert_runs, ours

from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model

pytest.importorskip("ai_edge_litert")

BITS = {"int2": 2, "int4": 4, "int8": 8}
CHOICES = {"signature": None, "dims": None, "shapes": None}


class Blocks(Net):
    """Dense layers in parallel, with the real weights of each."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = np.random.default_rng(3)
        self.right: list = []

    def packed(self, shape, dtype: str, size: int, zero: bool = False) -> tuple[int, np.ndarray]:
        """Return a blockwise quantised constant matrix and its real values."""
        bits = BITS[dtype]
        numbers = self.rng.integers(-(1 << bits - 1), 1 << bits - 1, shape)
        scales = self.rng.uniform(0.01, 0.2, (shape[0], shape[1] // size)).astype(np.float16)
        fields = (numbers.ravel() & ((1 << bits) - 1)).reshape(-1, 8 // bits)
        data = (fields << (np.arange(8 // bits) * bits)).sum(axis=1).astype(np.uint8)
        q = self.schema.QuantizationParametersT()
        q.detailsType = self.schema.QuantizationDetails.BlockwiseQuantization
        q.details = self.schema.BlockwiseQuantizationT()
        q.details.scales, q.details.zeroPoints = self.const(scales), -1
        q.details.blockSize = size
        points = np.zeros(scales.shape, np.int32)
        if zero:
            points = self.rng.integers(-3, 4, scales.shape).astype(np.int32)
            q.details.zeroPoints = self.const(points)
        index = self.tensor(shape, dtype, data)
        self.graph.tensors[index].quantization = q
        real = numbers - np.repeat(points, size, 1)
        return index, real * np.repeat(scales.astype(np.float64), size, 1)

    def dense(self, depth: int, dtype: str, size: int, rows: int = 1, relu=False, **more) -> None:
        x = self.input((rows, depth), "float32")
        w, real = self.packed((7, depth), dtype, size, **more)
        bias = self.rng.standard_normal(7).astype(np.float32)
        y = self.output((rows, 7), "float32")
        self.op("FULLY_CONNECTED", [x, w, self.const(bias)], [y], 1, "FullyConnectedOptions",
                fusedActivationFunction=int(relu))  # fmt: skip
        self.right.append(lambda v: np.maximum(v @ real.T + bias, 0 if relu else -np.inf))


def layers() -> Blocks:
    net = Blocks()
    for dtype in BITS:
        net.dense(64, dtype, 32)
        net.dense(96, dtype, 16, rows=5, relu=True)
        net.dense(64, dtype, 64)
    net.dense(40, "int4", 20)  # not a multiple of sixteen
    net.dense(1024, "int4", 512)
    net.dense(64, "int4", 32, zero=True)
    return net


def check(net: Blocks, feeds: list[np.ndarray], found: list[np.ndarray]) -> None:
    for x, right, y in zip(feeds, net.right, found):
        wanted = right(x.astype(np.float64))
        np.testing.assert_allclose(y, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


def test_blocks_are_weights_times_their_scales(tmp_path):
    net = layers()
    feeds = feeds_for(net.data())
    check(net, feeds, ours(net.data(), feeds, tmp_path))


def test_result_is_within_8_bits_of_xnnpack(tmp_path):
    net = Blocks()
    net.dense(64, "int4", 32)
    net.dense(128, "int4", 64, rows=3)
    feeds = feeds_for(net.data())
    (right,) = litert_runs(net.data(), [feeds], "AUTO")
    for mine, wanted in zip(ours(net.data(), feeds, tmp_path), right):
        assert np.abs(mine - wanted).max() < 0.04 * np.abs(wanted).max()


def test_weights_stay_packed(tmp_path):
    import tvmrt

    net = Blocks()
    net.dense(4096, "int4", 32)
    library = tvmrt.compile(net.data(), target="cortex-m4", interface_api="c")
    assert library.summary.weights_bytes < 7 * 4096 / 2 + 7 * 128 * 4 + 64


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32"])
def test_blocks_on_boards(target, tmp_path):
    build = Build("gcc", "-O2", "plain", target)
    net = layers()
    feeds = feeds_for(net.data())
    networks = ManyNetworks({"blocks": net.data()}, {"blocks": feeds}, target, tmp_path)
    check(net, feeds, networks.results(build, tmp_path, STRICT)["blocks"])


def test_verify_asks_xnnpack(tmp_path):
    from tvmrt.cli.verify import compare_tensors

    net = Blocks()
    net.dense(64, "int4", 32)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data())
    (row,), judge = compare_tensors(path, None, 1, False, CHOICES)
    assert row.verdict.right and "XNNPACK" in judge


def test_verify_reports_that_int2_has_no_reference(tmp_path):
    from tvmrt.cli.verify import compare_tensors

    net = Blocks()
    net.dense(64, "int2", 32)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data())
    with pytest.raises(ValueError, match="no kernel for blockwise weights of int2"):
        compare_tensors(path, None, 1, False, CHOICES)


def test_other_operators_with_blockwise_weights_are_refused():
    net = Blocks()
    w, _ = net.packed((8, 32), "int8", 32)
    net.op("TRANSPOSE", [w, net.const(np.array([1, 0], np.int32))], [net.output((32, 8), "int8")])
    with pytest.raises(UnsupportedError, match="block-wise, which TRANSPOSE does not support"):
        import_model(net.data())


def test_integers_with_weights_in_blocks_are_refused():
    net = Blocks()
    x, (w, _) = net.input((1, 32), "int8", scale=0.1), net.packed((8, 32), "int4", 32)
    net.op("FULLY_CONNECTED", [x, w], [net.output((1, 8), "int8", scale=0.1)], 1,
           "FullyConnectedOptions")  # fmt: skip
    with pytest.raises(UnsupportedError, match="int8 activations with weights of int4 in blocks"):
        import_model(net.data())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"scales": 99}, "the scales of tensor .* are no constants, one for each of 7 x 2 blocks"),
        ({"scales": -5}, "the scales of tensor"),
        ({"blockSize": 5}, "has blocks of 5; only blocks of one size along the rows"),
        ({"blockSize": 0}, "has blocks of 0"),
        ({"blockSize": 16}, "one for each of 7 x 4 blocks"),
        ({"blockShape": [1, 32]}, "has blocks of 32"),
    ],
)
def test_damaged_blocks_are_errors(change, sentence):
    net = Blocks()
    net.dense(64, "int4", 32)
    details = next(t.quantization.details for t in net.graph.tensors
                   if t.quantization is not None and t.quantization.details)  # fmt: skip
    for key, value in change.items():
        setattr(details, key, value)
    with pytest.raises(ValueError, match=sentence):
        import_model(net.data())
