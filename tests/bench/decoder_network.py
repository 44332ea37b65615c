"""A decoder of Qwen2.5-0.5B's shape with random weights: grouped-query attention, rotary positions,
SwiGLU, tied embeddings. As ONNX, with caches that are updated in place and any number of steps at a
time, and as GGUF."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).parents[1] / "python" / "support"))

from transformer_files import Net


@dataclass(frozen=True)
class Shape:
    layers: int = 24
    width: int = 896
    heads: int = 14
    shared: int = 2  # heads of keys and values
    inner: int = 4864  # of the feed-forward layers
    words: int = 151936
    length: int = 256  # of the caches
    theta: float = 1e6

    @property
    def depth(self) -> int:
        return self.width // self.heads

    @property
    def cache(self) -> tuple[int, ...]:
        return (1, self.shared, self.length, self.depth)


class Decoder(Net):
    """The graph; weights are drawn in the order of ``gguf_file``."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(0)
        self.shape = shape

    def floats(self, *shape: int, spread: float = 0.02) -> np.ndarray:
        return self.rng.standard_normal(shape, np.float32) * np.float32(spread)

    def project(self, x: str, width: int, to: int) -> str:
        """Multiply by weights [to, width], as GGUF stores them."""
        return self.node("MatMul", x, self.const(np.ascontiguousarray(self.floats(to, width).T)))

    def rms_norm(self, x: str) -> str:
        scale = self.const(np.ones(self.shape.width, np.float32))
        return self.node("RMSNormalization", x, scale, axis=-1, epsilon=1e-6)

    def split(self, x: str, heads: int) -> str:
        apart = self.const(np.array([1, -1, heads, self.shape.depth]))
        return self.node("Transpose", self.node("Reshape", x, apart), perm=[0, 2, 1, 3])

    def attend(self, x: str, i: int) -> str:
        """Add attention of layer i over its caches."""
        of, at = self.shape, self.at
        rotary = (self.cos, self.sin, at["positions"])
        q = self.split(self.biased(x, of.width), of.heads)
        k = self.split(self.biased(x, of.shared * of.depth), of.shared)
        v = self.split(self.biased(x, of.shared * of.depth), of.shared)
        q, k = (self.node("RotaryEmbedding", part, *rotary) for part in (q, k))
        caches = []
        for name, new in ((f"k{i}", k), (f"v{i}", v)):
            old = self.input(name, np.zeros(of.cache, np.float32))
            caches.append(self.node("TensorScatter", old, new, "start", axis=2))
        y = self.node("Attention", q, *caches, at["mask"])
        joined = self.const(np.array([1, -1, of.width]))
        y = self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), joined)
        self.caches += caches
        return self.project(y, of.width, of.width)

    def biased(self, x: str, to: int) -> str:
        y = self.project(x, self.shape.width, to)
        return self.node("Add", y, self.const(np.zeros(to, np.float32)))

    def feed_forward(self, x: str) -> str:
        of = self.shape
        gate, up = (self.project(x, of.width, of.inner) for _ in range(2))
        gate = self.node("Mul", gate, self.node("Sigmoid", gate))
        return self.project(self.node("Mul", gate, up), of.inner, of.width)

    def build(self) -> onnx.ModelProto:
        """Return the network: ids [1, S], start [1], caches -> logits of the last id, caches."""
        of = self.shape
        self.caches: list[str] = []
        angles = np.arange(of.length)[:, None] / of.theta ** (np.arange(0, of.depth, 2) / of.depth)
        self.cos, self.sin = (self.const(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
        zero, one = self.const(np.int64(0)), self.const(np.int64(1))
        steps = self.node("Squeeze", self.node("Shape", "ids", start=1))
        row = self.node("Add", self.node("Range", zero, steps, one), "start")
        positions = self.node("Unsqueeze", row, self.const(np.array([0])))
        column = self.node("Unsqueeze", row, self.const(np.array([1])))
        mask = self.node("LessOrEqual", self.const(np.arange(of.length)[None]), column)
        self.at = {"positions": positions, "mask": mask}
        table = self.const(self.floats(of.words, of.width))
        x = self.node("Gather", table, "ids")
        for i in range(of.layers):
            x = self.node("Add", x, self.attend(self.rms_norm(x), i))
            x = self.node("Add", x, self.feed_forward(self.rms_norm(x)))
        last = self.node("Gather", x, self.const(np.array([-1])), axis=1)
        head = self.node("Transpose", table, perm=[1, 0])
        logits = self.node("MatMul", self.rms_norm(last), head)
        return self.finished(logits)

    def finished(self, logits: str) -> onnx.ModelProto:
        info = helper.make_tensor_value_info
        inputs = [info("ids", TensorProto.INT64, [1, "S"]), info("start", TensorProto.INT64, [1])]
        outputs = [info(logits, TensorProto.FLOAT, [1, 1, self.shape.words])]
        outputs += [info(name, TensorProto.FLOAT, self.shape.cache) for name in self.caches]
        graph = helper.make_graph(
            self.nodes, "decoder", inputs + self.inputs, outputs, self.weights
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)


def gguf_file(shape: Shape, kind: str, path: str) -> None:
    """Write the same decoder for llama.cpp, in ``q4_0``, ``q8_0`` or ``f32``."""
    import gguf

    dtype = {"f32": "F32", "q4_0": "Q4_0", "q8_0": "Q8_0"}[kind]
    quantised = gguf.GGMLQuantizationType[dtype]
    draw = Decoder(shape).floats
    w = gguf.GGUFWriter(path, "qwen2")
    w.add_context_length(shape.length)
    w.add_embedding_length(shape.width)
    w.add_block_count(shape.layers)
    w.add_feed_forward_length(shape.inner)
    w.add_head_count(shape.heads)
    w.add_head_count_kv(shape.shared)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(shape.theta)
    w.add_vocab_size(shape.words)
    w.add_file_type(gguf.LlamaFileType[{"f32": "ALL_F32"}.get(kind, f"MOSTLY_{dtype}")])
    w.add_tokenizer_model("none")

    def matrix(name: str, *sizes: int) -> None:
        w.add_tensor(
            f"{name}.weight", gguf.quants.quantize(draw(*sizes), quantised), raw_dtype=quantised
        )

    def vector(name: str, size: int, value: float) -> None:
        w.add_tensor(name, np.full(size, value, np.float32))

    matrix("token_embd", shape.words, shape.width)
    for i in range(shape.layers):
        block, keys = f"blk.{i}", shape.shared * shape.depth
        vector(f"{block}.attn_norm.weight", shape.width, 1)
        for name, to in (("q", shape.width), ("k", keys), ("v", keys)):
            matrix(f"{block}.attn_{name}", to, shape.width)
            vector(f"{block}.attn_{name}.bias", to, 0)
        matrix(f"{block}.attn_output", shape.width, shape.width)
        vector(f"{block}.ffn_norm.weight", shape.width, 1)
        matrix(f"{block}.ffn_gate", shape.inner, shape.width)
        matrix(f"{block}.ffn_up", shape.inner, shape.width)
        matrix(f"{block}.ffn_down", shape.width, shape.inner)
    vector("output_norm.weight", shape.width, 1)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
