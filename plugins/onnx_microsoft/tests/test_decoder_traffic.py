"""Memory traffic of a decoder with 4-bit weights and GroupQueryAttention in ``tvmrt bench``."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.cli import decoder_speed
from tvmrt.compiler.pipeline import compile as compile_network

WIDTH, WORDS, DEPTH = 256, 1000, 64
BLOCK = 32  # operands with one scale
CONSTANTS = 4096  # bytes for masks, at most


def decoder(past: int, total: int) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((WORDS, WIDTH)).astype(np.float32)
    constants = {"table": table, "total": np.array(total, np.int32)}
    nodes = [helper.make_node("Gather", ["table", "ids"], ["x"])]

    def project(name: str, x: str, width: int) -> None:
        blocks = WIDTH // BLOCK
        bits = rng.integers(0, 256, (width, blocks, BLOCK // 2), np.uint8)
        constants[f"{name}_bits"] = bits
        constants[f"{name}_scales"] = rng.random(width * blocks, np.float32)
        inputs = [x, f"{name}_bits", f"{name}_scales"]
        sizes = {"K": WIDTH, "N": width, "bits": 4, "block_size": BLOCK}
        nodes.append(
            helper.make_node("MatMulNBits", inputs, [name], domain="com.microsoft", **sizes)
        )

    for name, width in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2)):
        project(name, "x", width)
    nodes.append(
        helper.make_node(
            "GroupQueryAttention",
            ["q", "k", "v", "past_k", "past_v", "last", "total"],
            ["attended", "present_k", "present_v"],
            domain="com.microsoft", num_heads=4, kv_num_heads=2,
        )
    )  # fmt: skip
    project("logits", "attended", WORDS)
    value = helper.make_tensor_value_info
    caches = [
        [value(f"{side}_{n}", TensorProto.FLOAT, [1, 2, length, DEPTH]) for n in "kv"]
        for side, length in (("past", past), ("present", max(past, total)))
    ]
    ids = value("ids", TensorProto.INT64, [1, 1])
    graph = helper.make_graph(
        nodes, "decoder", [ids, *caches[0], value("last", TensorProto.INT32, [1])],
        [value("logits", TensorProto.FLOAT, [1, 1, WORDS]), *caches[1]],
        [numpy_helper.from_array(each, name) for name, each in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("past, total", [(64, 40), (63, 64)])
def test_preallocated_and_growing_caches(past, total):
    cache = np.zeros((1, 2, past, DEPTH), np.float32)
    feeds = {"ids": np.zeros((1, 1), np.int64), "past_k": cache, "past_v": cache}
    traffic = decoder_speed.traffic_of(compile_network(decoder(past, total)), feeds)
    assert traffic is not None
    assert (traffic.tokens, traffic.cache_bytes) == (1, 2 * cache.nbytes)
    columns = 2 * WIDTH + WORDS
    stored = columns * (WIDTH // 2 + WIDTH // BLOCK * 4) + WIDTH * 4
    assert stored <= traffic.weights_bytes <= stored + CONSTANTS
