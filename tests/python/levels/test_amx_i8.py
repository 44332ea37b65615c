"""ISA level v4amx of int8 networks. tests/python/kernels checks its kernels on other processors by
a model of the AMX registers."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from dispatch_runs import check, load_at
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.codegen import target

AMX = target._AMX <= processor.flags()
FLAGS = frozenset({*target._AMX, "cx16", "popcnt", "sse4_2"})
pytestmark = pytest.mark.skipif(
    "avx512_vnni" not in processor.flags(), reason="no AVX512_VNNI here"
)


@pytest.fixture(scope="module")
def network():
    """Return a convolution with partly filled tiles and unequal partitions, an int8 matmul with
    per-channel weights, one of two computed operands; and onnxruntime's results."""
    rng = np.random.default_rng(11)
    bytes_of = lambda kind, *shape: rng.integers(  # noqa: E731
        np.iinfo(kind).min, np.iinfo(kind).max + 1, shape
    ).astype(kind)
    feeds = {
        "image": bytes_of(np.uint8, 1, 40, 9, 21),
        "a": bytes_of(np.int8, 37, 196),
        "b": bytes_of(np.uint8, 2, 35, 130),
        "c": bytes_of(np.int8, 2, 130, 50),
    }
    initializers = {
        "s": np.float32(0.5), "zu": np.uint8(113), "zs": np.int8(-9), "none": np.int8(0),
        "kernel": bytes_of(np.int8, 83, 40, 3, 3), "wide": np.float32(700),
        "weights": bytes_of(np.int8, 196, 70), "of_channel": np.zeros(70, np.int8),
        "scales": rng.uniform(0.1, 0.9, 70).astype(np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node(
            "QLinearConv",
            ["image", "s", "zu", "kernel", "s", "none", "wide", "zu"],
            ["convolved"],
            pads=[1] * 4,
        ),
        helper.make_node(
            "QLinearMatMul",
            ["a", "s", "zs", "weights", "scales", "of_channel", "wide", "zs"],
            ["multiplied"],
        ),
        helper.make_node("MatMulInteger", ["b", "c", "zu", "zs"], ["computed"]),
    ]
    outputs = [node.output[0] for node in nodes]
    kinds = [TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in feeds.items()
        ],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in zip(outputs, kinds)],
        [numpy_helper.from_array(np.asarray(x), n) for n, x in initializers.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    return made, feeds, onnxruntime.InferenceSession(made.SerializeToString()).run(outputs, feeds)


@pytest.fixture(scope="module")
def library(network, tmp_path_factory):
    """Compile for the default levels without the narrow ones, to save time."""
    path = tmp_path_factory.mktemp("bytes") / "net.so"
    levels = ["v2", "v3", "v4vbmi", "v4amx"]
    tvmrt.compile(network[0], target="x86-64", levels=levels, executor="aot").export_library(path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("level", ["v2", "v3", "v4vbmi", "v4amx"])
def test_levels_give_equal_int8_results(network, library, level, monkeypatch, tmp_path):
    if level == "v4amx" and not AMX:
        pytest.skip("this processor has no AMX")
    module = load_at(library, level, monkeypatch, tmp_path / "net.so")
    assert module.level == level
    check(module, network)


@pytest.mark.skipif(not AMX, reason="this processor has no AMX")
@pytest.mark.everyday(5)
def test_default_target_uses_amx_if_available(network, monkeypatch):
    monkeypatch.delenv(target.DEFAULT_VARIABLE, raising=False)
    library = tvmrt.compile(network[0], tvmrt.Request().for_here())
    assert [level.name for level in library.target.levels] == ["v4amx"]
    assert "tvmrt_amx_i8_end" in "".join(map(str, library.sources.files.values()))
    outputs = tvmrt.load(network[0], cache=False)(**network[1])
    for found, wanted in zip(outputs, network[2]):
        np.testing.assert_array_equal(found, wanted)


def test_only_int8_matmul_libraries_contain_amx(network):
    names = [level.name for level in tvmrt.compile(network[0], target="x86-64").target.levels]
    assert names == ["v2", "v3", "v4", "v4vnni", "v4vbmi", "v4amx"]
    floats = helper.make_graph(
        [helper.make_node("Sqrt", ["x"], ["y"])],
        "floats",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
    )
    made = helper.make_model(floats, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    assert tvmrt.compile(made, target="x86-64").target.levels[-1].name == "v4vbmi"


@pytest.mark.parametrize(
    ("name", "levels", "flags", "chosen"),
    [
        ("here", (), FLAGS, ["v4amx"]),
        ("here", (), FLAGS - {"amx_int8"}, []),
        ("native", (), FLAGS, []),
        ("x86-64", ("v2", "v3"), FLAGS, ["v2", "v3"]),
        ("x86_64-windows", (), FLAGS, ["v2", "v3", "v4", "v4vnni", "v4vbmi"]),
        ("aarch64-linux", (), FLAGS, ["neon", "dot", "i8mm"]),
    ],
    ids=["default", "no-matmul", "native", "explicit", "Windows", "ARM"],
)
def test_amx_level_is_selected_if_available(name, levels, flags, chosen, monkeypatch):
    monkeypatch.setattr(target.processor, "flags", lambda: flags)
    monkeypatch.setattr(target.processor, "machine", lambda: "x86_64")
    found = target.with_amx_level(target.get_target(name, levels), name, levels)
    assert [level.name for level in found.levels] == chosen
