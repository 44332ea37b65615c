"""Networks that run hop by hop, compared with onnxruntime on each whole window."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from firmware_call import Network, build_shared
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.error import UnsupportedError


class Builder:
    """ONNX network of one input under construction, with random weights."""

    def __init__(self, shape, seed=0):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.shape = [], {}, shape

    def const(self, array):
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(array)
        return name

    def random(self, *shape, scale=None):
        wide = scale or 1 / np.sqrt(max(np.prod(shape[1:]), 1))
        return self.const((self.rng.standard_normal(shape) * wide).astype("f"))

    def __getattr__(self, operator):
        def add(*inputs, outputs=1, **attrs):
            names = [f"{operator}_{len(self.nodes)}_{i}" for i in range(outputs)]
            inputs = [self.const(i) if isinstance(i, np.ndarray) else i for i in inputs]
            self.nodes.append(helper.make_node(operator, inputs, names, names[0], **attrs))
            return names[0] if outputs == 1 else names

        return add

    def model(self, *outputs, **inputs):
        float32 = TensorProto.FLOAT
        inputs = {"x": self.shape, **inputs}
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(n, float32, shape) for n, shape in inputs.items()],
            [helper.make_tensor_value_info(name, float32, None) for name in outputs],
            [numpy_helper.from_array(a, n) for n, a in self.weights.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)

    def conv(self, x, channels, inputs, *kernel, **attrs):
        w = self.random(channels, inputs // attrs.get("group", 1), *kernel)
        return self.Conv(x, w, self.random(channels), **attrs)

    def quantized(self, x, scale, zero=0):
        s, z = np.float32(scale), np.int8(zero)
        q = self.QuantizeLinear(x, np.array(s), np.array(z))
        return self.DequantizeLinear(q, np.array(s), np.array(z))

    def quantized_conv(self, x, channels, inputs, *kernel, **attrs):
        shape = (channels, inputs // attrs.get("group", 1), *kernel)
        w = self.const(self.rng.integers(-127, 128, shape).astype(np.int8))
        w = self.DequantizeLinear(w, np.array(np.float32(1 / 512)), np.array(np.int8(0)))
        return self.quantized(self.Relu(self.Conv(x, w, **attrs)), 1 / 32, -128)


def temporal_convolutions():
    b = Builder((1, 4, 30))
    a = b.Relu(b.conv("x", 8, 4, 3))
    c = b.Relu(b.conv(a, 8, 8, 3, dilations=[3]))
    skipped = b.Slice(a, np.array([6]), np.array([2**31]), np.array([2]))
    d = b.Concat(b.Add(c, skipped), skipped, axis=1)
    e = b.MaxPool(d, kernel_shape=[2], strides=[2])
    f = b.Relu(b.conv(e, 6, 16, 3, strides=[2]))
    return b.model(b.Gemm(b.Flatten(f), b.random(5, 30), transB=1)), 2, 4


def all_results_of_causal_convolutions():
    b = Builder((1, 3, 24))
    a = b.Tanh(b.conv("x", 6, 3, 3, pads=[2, 0]))
    padded = b.Pad(a, np.array([0, 0, 4, 0, 0, 0]))
    c = b.Sigmoid(b.conv(padded, 6, 6, 3, dilations=[2]))
    every_step = np.broadcast_to(b.rng.standard_normal((6, 1)).astype("f"), (1, 6, 24))
    d = b.Mul(b.Add(a, c), every_step)
    norm = b.Softmax(b.ReduceMean(d, axes=[1], keepdims=0), axis=0)
    return b.model(d, norm), 2, 1


def spectrogram_image():
    b = Builder((1, 20, 8))
    a = b.Reshape("x", np.array([1, 1, 20, 8]))
    c = b.Relu(b.conv(a, 8, 1, 4, 3, strides=[2, 2], pads=[0, 1, 0, 1]))
    d = b.Relu(b.conv(c, 8, 8, 3, 3, pads=[0, 1, 0, 1], group=8))
    e = b.AveragePool(b.conv(d, 6, 8, 1, 1), kernel_shape=[3, 2], strides=[1, 2])
    f = b.GlobalAveragePool(e)
    return b.model(b.Softmax(b.MatMul(b.Flatten(f), b.random(6, 4)), axis=1)), 1, 2


def attention_over_time():
    b = Builder((1, 16, 6))
    a = b.LayerNormalization(b.MatMul("x", b.random(6, 8)), b.random(8), b.random(8), axis=-1)
    scores = b.MatMul(a, b.Transpose(a, perm=[0, 2, 1]))
    mixed = b.MatMul(b.Softmax(scores, axis=-1), a)
    return b.model(b.Gather(mixed, np.array(15), axis=1)), 1, 1


def last_step():
    b = Builder((12, 1, 5))
    a = b.Relu(b.MatMul("x", b.random(5, 7)))
    return b.model(b.Gather(a, np.array(-1), axis=0), b.Gather(a, np.array([-3, 9]), axis=0)), 0, 1


def gru():
    b = Builder((10, 1, 5))
    a = b.Relu(b.MatMul("x", b.random(5, 7)))
    y, last = b.GRU(a, b.random(1, 12, 7), b.random(1, 12, 4), outputs=2, hidden_size=4)
    return b.model(b.Squeeze(y, np.array([1])), last), 0, 1


def lstm():
    b = Builder((1, 4, 12))
    a = b.Transpose(b.Relu(b.conv("x", 5, 4, 3)), perm=[2, 0, 1])
    _, h, c = b.LSTM(a, b.random(1, 24, 5), b.random(1, 24, 6), outputs=3, hidden_size=6)
    return b.model(h, c), 2, 1


def quantized():
    b = Builder((1, 6, 24))
    a = b.quantized_conv(b.quantized("x", 1 / 32, 3), 8, 6, 3)
    c = b.quantized_conv(a, 8, 8, 3, dilations=[2], group=8)
    d = b.quantized_conv(c, 8, 8, 1)
    skipped = b.Slice(a, np.array([4]), np.array([2**31]), np.array([2]))
    e = b.quantized(b.Concat(b.quantized(b.Add(d, skipped), 1 / 16), skipped, axis=1), 1 / 16)
    f = b.quantized(b.AveragePool(e, kernel_shape=[2], strides=[2]), 1 / 16)
    w = b.const(b.rng.integers(-127, 128, (144, 3)).astype(np.int8))
    w = b.DequantizeLinear(w, np.array(np.float32(1 / 512)), np.array(np.int8(0)))
    return b.model(b.quantized(b.MatMul(b.Flatten(f), w), 1 / 8)), 2, 2


NETWORKS = [
    temporal_convolutions,
    all_results_of_causal_convolutions,
    spectrogram_image,
    attention_over_time,
    last_step,
    gru,
    lstm,
    quantized,
]


def compiled(model, folder, **options):
    path = folder / f"{len(list(folder.iterdir()))}.so"
    tvmrt.compile(model, **options).export_library(path)
    return tvmrt.load(path)


def reference(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return lambda x, **others: session.run(None, {"x": x, **others})


def outputs_of(net, x):
    y = net(x)
    return y if isinstance(y, (list, tuple)) else [y]


def stream_of(shape, axis, extent, seed=7):
    rng = np.random.default_rng(seed)
    return rng.standard_normal([extent if d == axis else n for d, n in enumerate(shape)]).astype(
        "f"
    )


def part(x, axis, start, end):
    return x[tuple(slice(start, end) if d == axis else slice(None) for d in range(x.ndim))]


def newest(array, shape):
    """Return the last elements of an array along each axis."""
    return array[tuple(slice(n - m, n) for n, m in zip(array.shape, shape))]


def assert_close(y, whole, is_exact=False):
    """Compare with the last elements of a result; floats may be added in another order."""
    limit = 0 if is_exact else 3e-6 * max(1, np.abs(whole).max())
    np.testing.assert_allclose(y, newest(whole, y.shape), rtol=0, atol=limit)


def shape_of(model):
    return [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda f: f.__name__)
def test_each_hop_equals_the_whole_window(network, tmp_path):
    model, axis, hop = network()
    shape = shape_of(model)
    window = shape[axis]
    net, expected = compiled(model, tmp_path, stream=axis), reference(model)
    assert net.inputs[0].shape[axis] == hop
    x = stream_of(shape, axis, 2 * window + 3 * hop)
    full = 0
    for end in range(hop, x.shape[axis] + 1, hop):
        found = outputs_of(net, part(x, axis, end - hop, end))
        if end < window:
            continue
        full += 1
        for y, whole in zip(found, expected(part(x, axis, end - window, end))):
            assert_close(y, whole, network is quantized)
    assert full > window // hop // 2
    assert np.abs(y).max() > 0


def same_padding(b, x, is_causal):
    """Convolutions, a pool and a cell; ``is_causal``: with all padding at the start."""
    ends = [2, 0] if is_causal else [1, 1]
    a = b.Relu(b.conv(x, 6, 4, 3, pads=ends))
    c = b.MaxPool(a, kernel_shape=[3], strides=[1], pads=ends)
    c = b.Pad(c, np.array([0, 0, ends[0], 0, 0, ends[1]]), np.array(np.float32(0.5)))
    c = b.Relu(b.conv(c, 6, 6, 3))
    d = b.Relu(b.conv(c, 5, 6, 3, strides=[2], pads=[1, 0] if is_causal else [0, 1]))
    steps = b.Transpose(d, perm=[2, 0, 1])
    y, last = b.GRU(steps, b.random(1, 12, 5), b.random(1, 12, 4), outputs=2, hidden_size=4)
    y = b.Squeeze(y, np.array([1]))
    _, _, cell = b.LSTM(y, b.random(1, 24, 4), b.random(1, 24, 6), outputs=3, hidden_size=6)
    return y, last, cell


def test_causal_form_equals_the_network_on_the_whole_stream(tmp_path):
    b = Builder((1, 4, 24))
    net = compiled(b.model(*same_padding(b, "x", False)), tmp_path, stream="2=4,causal")
    x = stream_of((1, 4, 24), 2, 60)
    for end in range(4, 61, 4):
        b = Builder((1, 4, end))
        whole = reference(b.model(*same_padding(b, "x", True)))(x[:, :, :end])
        found = outputs_of(net, x[:, :, end - 4 : end])
        assert [y.shape for y in found] == [(2, 1, 4), (1, 1, 4), (1, 1, 6)]
        for y, z in zip(found, whole):
            assert_close(y, z)


def padded_at_the_end():
    b = Builder((1, 4, 24))
    return b.model(b.conv(b.conv("x", 6, 4, 3), 6, 6, 3, pads=[1, 1]))


def padded_at_the_start():
    b = Builder((1, 4, 24))
    return b.model(b.GlobalAveragePool(b.conv("x", 6, 4, 3, pads=[2, 0])))


def padded_and_quantized():
    b = Builder((1, 4, 24))
    a = b.quantized(b.Pad("x", np.array([0, 0, 2, 0, 0, 0])), 1 / 32)
    return b.model(b.GlobalAveragePool(b.quantized_conv(a, 6, 4, 3)))


def strided():
    b = Builder((1, 4, 24))
    return b.model(b.conv(b.conv("x", 6, 4, 3, strides=[2]), 6, 6, 3, strides=[3]))


def padded_sigmoid():
    b = Builder((1, 4, 24))
    padded = b.Pad("x", np.array([0, 0, 2, 0, 0, 0]))
    return b.model(b.conv(b.Sigmoid(padded), 6, 4, 3))


REFUSED = {
    "function": (padded_sigmoid, "2,causal", 'layer "Sigmoid_1_0" reads a padded stream'),
    "end": (
        padded_at_the_end,
        "2",
        'layer "Conv_1_0" pads the streamed axis by 1 at its end.*causal form of the layer pads '
        "the start of the stream by 2 and the end by 0, and its results lag by 1",
    ),
    "start": (
        padded_at_the_start,
        "2",
        'layer "Conv_0_0" pads the start.*",causal" to stream: the nearest causal form',
    ),
    "quantized": (padded_and_quantized, "2", 'layer "Conv_\\d+_0" pads the start|"Pad_0_0" pads'),
    "hop": (strided, "2=3", 'layer "Conv_0_0" has a stride that does not divide a hop of 3.*of 6'),
    "long": (strided, "2=30", "hop of 30.*24 elements"),
    "axis": (strided, "3", "axis 3 of the input 'x', which has 3 axes"),
    "name": (strided, "z:1", "names the input 'z'; the network has x"),
    "text": (strided, "time", 'stream="time" is not AXIS'),
    "zero": (strided, "2=0", 'stream="2=0" is not AXIS'),
    "twice": (strided, "x:2,x:1", "stream=\"x:2,x:1\" names the input 'x' twice"),
    "twice without a name": (strided, "2,1", "names the only input twice"),
    "twice, once without a name": (strided, "2,x:1", "names the input 'x' twice"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_layer_and_the_remedy(case):
    network, text, words = REFUSED[case]
    with pytest.raises((ValueError, UnsupportedError), match=words):
        tvmrt.compile(network(), stream=text)


def test_inputs_are_streamed_by_name_and_others_given_whole(tmp_path):
    b = Builder((1, 4, 12))
    a = b.Add(b.conv("x", 6, 4, 3), b.Slice("z", np.array([1]), np.array([11]), np.array([2])))
    y = b.Mul(b.Relu(b.conv(a, 6, 6, 2)), "c")
    model = b.model(y, b.Gemm(b.Flatten(a), b.random(60, 5)), z=(1, 6, 12), c=(1, 6, 1))
    with pytest.raises(ValueError, match="write INPUT:AXIS with one of x, z, c"):
        tvmrt.compile(model, stream=2)
    net, expected = compiled(model, tmp_path, stream="x:2,z:-1"), reference(model)
    assert [t.shape for t in net.inputs] == [(1, 4, 1), (1, 6, 1), (1, 6, 1)]
    x, z = (stream_of((1, n, 1), 2, 30, n) for n in (4, 6))
    for end in range(1, 31):
        c = x[:, :1, end - 1 : end] * np.ones((1, 6, 1), "f")
        found = net(x[:, :, end - 1 : end], z[:, :, end - 1 : end], c)
        if end >= 12:
            whole = expected(x[:, :, end - 12 : end], z=z[:, :, end - 12 : end], c=c)
            for y, w in zip(found, whole):
                assert_close(y, w)


def keywords():
    """Depthwise and pointwise int8 convolutions over 30 frames of 40 features."""
    b = Builder((1, 40, 30))
    a, channels = b.quantized("x", 1 / 32), 40
    for taps, dilation in ((3, 1), (5, 1), (5, 2), (3, 2)):
        a = b.quantized_conv(a, channels, channels, taps, group=channels, dilations=[dilation])
        a = b.quantized_conv(a, 64, channels, 1)
        channels = 64
    return b.model(b.Flatten(b.quantized(b.GlobalAveragePool(a), 1 / 32)))


def test_a_hop_needs_less_memory_than_the_window():
    options = {"target": "cortex-m4", "interface_api": "c"}
    whole, hop = (tvmrt.compile(keywords(), stream=s, **options).summary for s in (None, 2))
    assert [t.shape for t in hop.inputs] == [(1, 40, 1)]
    assert hop.arena_bytes < 0.6 * whole.arena_bytes


def test_the_command_reports_a_refusal(tmp_path, capsys):
    onnx.save(padded_at_the_end(), tmp_path / "net.onnx")
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so")]
    assert main([*command, "--stream", "2"]) == 2
    assert 'layer "Conv_1_0" pads the streamed axis' in capsys.readouterr().err
    assert main([*command, "--stream", "time"]) == 2
    assert "--stream" in capsys.readouterr().err


def test_a_reset_starts_the_stream_over(tmp_path):
    model, axis, _ = temporal_convolutions()
    net = compiled(model, tmp_path, stream=f"{axis}=12,causal")
    x = stream_of(shape_of(model), axis, 36)
    runs = []
    for _ in range(2):
        runs.append([net(part(x, axis, n, n + 12)) for n in (0, 12, 24)])
        net.reset_state()
    np.testing.assert_array_equal(runs[0], runs[1])


def test_streams_have_states_of_their_own(tmp_path):
    """Three at once, each from its own thread, on one loaded network."""
    model, axis, hop = temporal_convolutions()
    shape, expected = shape_of(model), reference(model)
    window = shape[axis]
    with ThreadPoolExecutor(3) as pool:
        net = tvmrt.load(model, stream=f"{axis}={hop}", cache=False)
        streams = [net.stream() for _ in range(3)]
        xs = [stream_of(shape, axis, 2 * window, seed) for seed in range(3)]

        def follow(stream, x):
            parts = [part(x, axis, n, n + hop) for n in range(0, 2 * window, hop)]
            return [stream(each) for each in parts]

        first = list(pool.map(follow, streams, xs))
        for each in streams:
            each.reset()
        again = list(pool.map(follow, streams, xs))
    for x, runs, others in zip(xs, first, again):
        for end, y in zip(range(hop, 2 * window + 1, hop), runs):
            if end >= window:
                assert_close(y, expected(part(x, axis, end - window, end))[0])
        np.testing.assert_array_equal(runs, others)  # also before the window is full
    with net.stream() as fresh:
        assert [t.shape for t in fresh.inputs] == [t.shape for t in net.inputs]
        fresh(x=part(xs[0], axis, 0, hop))
    with pytest.raises(ValueError, match=r"closed; create another with network\.stream\(\)"):
        fresh(x=part(xs[0], axis, 0, hop))


def test_a_part_of_a_wrong_size_or_a_copy_of_a_stream_is_an_error_that_keeps_its_state():
    model, axis, hop = temporal_convolutions()
    x = stream_of((1, 4, 30), axis, 30, 7)
    with tvmrt.load(model, stream=f"{axis}={hop}", cache=False).stream() as stream:
        with pytest.raises(ValueError) as caught:
            stream(x)
        assert str(caught.value).endswith(
            "an array of shape (1, 4, 30) does not match; a call takes 4 elements of axis 2; "
            "call it once for each part, or compile it for parts of another size"
        )
        with pytest.raises(ValueError, match=r"exactly the shape \(1, 4, 4\); call it once"):
            stream(x=x[0, :, :4].tolist())
        first, *later = [x[:, :, n : n + hop] for n in range(0, 28, hop)]
        stream(first)
        for copy_of in (copy.copy, copy.deepcopy, pickle.dumps, lambda s: copy.deepcopy([s])):
            with pytest.raises(TypeError, match=r"cannot be copied or pickled.*another with net"):
                copy_of(stream)
        found = [stream(each) for each in later]
        stream.reset()
        for each, wanted in zip([first, *later], [None, *found]):
            y = stream(each)
            assert wanted is None or np.array_equal(y, wanted)


def test_a_network_without_state_has_no_streams(tmp_path):
    net = compiled(temporal_convolutions()[0], tmp_path)
    with pytest.raises(ValueError, match="keeps no state between calls"):
        net.stream()


def test_boards_compute_the_bits_of_hosts(tmp_path):
    """With the C interface, from the command's archive."""
    model, axis, _ = quantized()
    onnx.save(model, tmp_path / "net.onnx")
    main_of_command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so")]
    assert main([*main_of_command, "--stream", str(axis)]) == 0
    host = tvmrt.load(tmp_path / "net.so")
    options = {"target": "cortex-m0plus", "interface_api": "c"}
    library = tvmrt.compile(model, stream=str(axis), **options)
    library.export_sources(tmp_path / "board")
    board = Network(library, build_shared(tmp_path / "board"))
    x = stream_of(shape_of(model), axis, 60)
    for n in range(0, 60, 2):
        y = board.run({"x": x[:, :, n : n + 2]})
        np.testing.assert_array_equal(*y.values(), host(x[:, :, n : n + 2]))


@pytest.mark.skipif(not plugin.has("importers", ".tflite"), reason="no plug-in reads the file")
def test_tflite_network_computes_its_windows(tmp_path):
    path = Path(__file__).parents[3] / "tests/data/tflite/attention_int8.tflite"
    net, whole = compiled(path, tmp_path, stream="1=2"), compiled(path, tmp_path)
    x = np.random.default_rng(0).integers(-128, 128, (1, 20, 12)).astype(net.inputs[0].dtype)
    for end in range(2, 21, 2):
        y = net(x[:, end - 2 : end])
        if end >= 8:
            np.testing.assert_array_equal(y, whole(x[:, end - 8 : end]))
