"""Networks with run-time indices or lengths, and extreme values for them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import parser

_HEAD = '<ir_version: 10, opset_import: ["" : %d, "com.microsoft" : 1]>\n'


def network(signature: str, body: str, constants: str = "", opset: int = 21) -> onnx.ModelProto:
    constants = f"<{constants}>" if constants else ""
    return parser.parse_model(_HEAD % opset + f"g ({signature} {constants} {{ {body} }}")


def _indexing() -> dict[str, onnx.ModelProto]:
    found = {}
    for kind in ("int32", "int64"):
        for name, signature, body in (
            ("gather", "float[5,3] d, {}[4] i) => (float[4,3] y)", "y = Gather<axis=0>(d, i)"),
            (
                "gather_inner",
                "float[5,3] d, {}[2,2] i) => (float[5,2,2] y)",
                "y = Gather<axis=1>(d, i)",
            ),
            (
                "gather_elements",
                "float[5,3] d, {}[2,3] i) => (float[2,3] y)",
                "y = GatherElements<axis=0>(d, i)",
            ),
            (
                "scatter_elements",
                "float[5,3] d, {}[2,3] i, float[2,3] u) => (float[5,3] y)",
                'y = ScatterElements<axis=1, reduction="add">(d, i, u)',
            ),
        ):
            found[f"{name}_{kind}"] = network(signature.format(kind), body)
        found[f"one_hot_{kind}"] = network(
            f"{kind}[4] i, float[2] v) => (float[4,5] y)", "y = OneHot(i, n, v)", "int64 n = {5}"
        )
    return found


NETWORKS: dict[str, onnx.ModelProto] = {
    **_indexing(),
    "gather_nd": network("float[5,3,2] d, int64[4,2] i) => (float[4,2] y)", "y = GatherND(d, i)"),
    "gather_nd_batch": network(
        "float[2,3,2] d, int64[2,2] i) => (float[2] y)", "y = GatherND<batch_dims=1>(d, i)"
    ),
    "gather_int8": network("int8[5,3] d, int64[4] i) => (int8[4,3] y)", "y = Gather(d, i)"),
    "gather_computed": network(
        "float[5,3] d, int64[4] i) => (float[4,3] y)", "t = Mul(i, i) b = Gather(d, t) y = Relu(b)"
    ),
    "gather_cast": network(
        "float[5,3] d, float[4] i) => (float[4,3] y)", "t = Cast<to=7>(i) y = Gather(d, t)"
    ),
    "scatter_nd": network(
        "float[5,3,2] d, int64[4,2] i, float[4,2] u) => (float[5,3,2] y)", "y = ScatterND(d, i, u)"
    ),
    "scatter_nd_max": network(
        "float[5,3,2] d, int64[4,1] i, float[4,3,2] u) => (float[5,3,2] y)",
        'y = ScatterND<reduction="max">(d, i, u)',
    ),
    "reverse_sequence": network(
        "float[5,2,2] d, int64[2] i) => (float[5,2,2] y)",
        "y = ReverseSequence<batch_axis=1, time_axis=0>(d, i)",
    ),
    "tensor_scatter": network(
        "float[2,1,6,2] d, float[2,1,3,2] u, int64[2] i) => (float[2,1,6,2] y)",
        "y = TensorScatter(d, u, i)",
        opset=24,
    ),
    "tensor_scatter_circular": network(
        "float[2,1,6,2] d, float[2,1,3,2] u, int64[2] i) => (float[2,1,6,2] y)",
        'y = TensorScatter<mode="circular">(d, u, i)',
        opset=24,
    ),
    "max_unpool": network(
        "float[1,1,2,2] d, int64[1,1,2,2] i) => (float[1,1,4,4] y)",
        "y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(d, i)",
    ),
    "roi_align": network(
        "float[2,3,5,5] d, float[2,4] r, int64[2] i) => (float[2,3,2,2] y)",
        "y = RoiAlign<output_height=2, output_width=2, sampling_ratio=2>(d, r, i)",
    ),
    "roi_align_adaptive": network(
        "float[2,3,5,5] d, float[2,4] r, int64[2] i) => (float[2,3,2,2] y)",
        'y = RoiAlign<output_height=2, output_width=2, mode="max">(d, r, i)',
    ),
    "max_roi_pool": network(
        "float[2,3,5,5] d, float[2,5] r) => (float[2,3,2,2] y)",
        "y = MaxRoiPool<pooled_shape=[2,2]>(d, r)",
    ),
    **{
        f"grid_sample_{mode}_{outside}": network(
            "float[1,2,4,4] d, float[1,3,3,2] r) => (float[1,2,3,3] y)",
            f'y = GridSample<mode="{mode}", padding_mode="{outside}">(d, r)',
        )
        for mode in ("linear", "nearest", "cubic")
        for outside in ("zeros", "border", "reflection")
    },
    "deform_conv": network(
        "float[1,2,4,4] d, float[1,8,3,3] o) => (float[1,2,3,3] y)",
        "y = DeformConv(d, w, o)",
        "float[2,2,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}",
        22,
    ),
    "rotary_embedding": network(
        "float[1,2,3,4] x, float[5,2] c, float[5,2] s, int64[1,3] i) => (float[1,2,3,4] y)",
        "y = RotaryEmbedding(x, c, s, i)",
        opset=23,
    ),
    "attention_lengths": network(
        "float[1,2,3,4] q, float[1,2,6,4] k, float[1,2,6,4] v, int64[1] i) => (float[1,2,3,4] y)",
        "y = Attention(q, k, v, , , , i)",
        opset=24,
    ),
    **{
        f"{op.lower()}_lengths": network(
            "float[3,2,4] x, int32[2] i) => (float[3,1,2,2] y)",
            f"y = {op}<hidden_size=2>(x, w, r, , i)",
            f"float[1,{2 * gates},4] w = {{{', '.join(['0.5'] * 8 * gates)}}},"
            f" float[1,{2 * gates},2] r = {{{', '.join(['0.25'] * 4 * gates)}}}",
        )
        for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))
    },
    "top_k": network(
        "float[3,8] d) => (float[3,4] v, int64[3,4] y)", "v, y = TopK(d, k)", "int64[1] k = {4}"
    ),
    "arg_max_gather": network(
        "float[3,8] d, float[8,2] e) => (float[3,1,2] y)",
        "i = ArgMax<axis=1>(d) y = Gather<axis=0>(e, i)",
    ),
    # extreme floats, whose NaN and infinities must be equal in every build
    "max_pool": network(
        "float[1,21,5,5] a) => (float[1,21,3,3] y)", "y = MaxPool<kernel_shape=[3,3]>(a)"
    ),
    "global_max_pool": network("float[1,3,5,5] a) => (float[1,3,1,1] y)", "y = GlobalMaxPool(a)"),
    **{
        f"{op.lower()}_{axis}": network(
            f"float[70,90] a) => (float[{shape}] y)", f"y = {op}(a, x)", f"int64[1] x = {{{axis}}}"
        )
        for op in ("ReduceMax", "ReduceMin")
        for axis, shape in ((0, "1,90"), (1, "70,1"))
    },
    **{
        f"{op.lower()}_{axis}": network(
            f"float[70,90] a) => (int64[{shape}] y)", f"y = {op}<axis={axis}>(a)"
        )
        for op in ("ArgMax", "ArgMin")
        for axis, shape in ((0, "1,90"), (1, "70,1"))
    },
    "cast_to_int": network("float[24] a) => (int32[24] y)", "y = Cast<to=6>(a)"),
    "quantize": network(
        "float[24] a, float s, int8 z) => (int8[24] y)", "y = QuantizeLinear(a, s, z)"
    ),
}


def _arithmetic() -> dict[str, onnx.ModelProto]:
    found = {}
    for kind in ("int32", "int64"):
        for op in (
            "ReduceSum",
            "ReduceProd",
            "ReduceMean",
            "ReduceSumSquare",
            "ReduceL1",
            "ReduceMax",
        ):
            for axis, shape in ((1, "3,1"), (0, "1,8")):
                found[f"{op.lower()}_{axis}_{kind}"] = network(
                    f"{kind}[3,8] a) => ({kind}[{shape}] y)",
                    f"y = {op}(a, x)",
                    f"int64[1] x = {{{axis}}}",
                )
        for op in ("CumSum", "CumProd"):
            found[f"{op.lower()}_{kind}"] = network(
                f"{kind}[3,8] a) => ({kind}[3,8] y)", f"y = {op}(a, x)", "int64 x = {1}", 26
            )
        found[f"matmul_{kind}"] = network(
            f"{kind}[3,4] a, {kind}[4,3] b) => ({kind}[3,3] y)", "y = MatMul(a, b)"
        )
        found[f"gemm_{kind}"] = network(
            f"{kind}[3,4] a, {kind}[4,3] b, {kind}[3] c) => ({kind}[3,3] y)", "y = Gemm(a, b, c)"
        )
        found[f"einsum_{kind}"] = network(
            f"{kind}[3,4] a, {kind}[4,3] b) => ({kind}[3,3] y)",
            'y = Einsum<equation="ij,jk->ik">(a, b)',
        )
        found[f"scatter_mul_{kind}"] = network(
            f"{kind}[5] d, {kind}[3] u) => ({kind}[5] y)",
            'y = ScatterElements<reduction="mul">(d, i, u)',
            "int64[3] i = {1, 1, 4}",
        )
    found["matmul_integer"] = network(
        "uint8[3,4] a, uint8[4,3] b, uint8 c, uint8 d) => (int32[3,3] y)",
        "y = MatMulInteger(a, b, c, d)",
    )
    found["conv_integer"] = network(
        "uint8[1,2,5,5] a, uint8 c) => (int32[1,2,4,4] y)",
        "y = ConvInteger(a, w, c)",
        f"uint8[2,2,2,2] w = {{{', '.join(['255'] * 16)}}}",
    )
    return found


# integer arithmetic at the limits of its types, where every result is defined: it wraps
ARITHMETIC = _arithmetic()

_INT_LIMITS = (-1, 0, 1, 2, 3, 4, 5, 6, -2, -3, -4, -5, -6, 100, -100)
_FLOATS = (
    "nan inf -inf 1e38 -1e38 3.4e38 1e-45 1e-40 -0.0 0.0 1.0 -1.0 2147483648 -2147483904 9.3e18"
    " -9.3e18 0.5 2.5 4.0 5.0 1.8e19 1e10"
).split()


def pool(dtype: np.dtype) -> np.ndarray:
    """Return values of a type at which arithmetic and lookups may overflow."""
    if dtype == np.float32:
        return np.array(_FLOATS, np.float64).astype(np.float32)
    info = np.iinfo(dtype)
    wide = (
        info.min,
        info.max,
        info.min + 1,
        info.max - 1,
        info.max // 2,
        1 << 32,
        1 << 31,
        -(1 << 31),
    )
    return np.array(sorted({n for n in (*wide, *_INT_LIMITS) if info.min <= n <= info.max}), dtype)


def feeds(model: onnx.ModelProto, count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """Return inputs: ordinary data with extreme indices, then extreme values everywhere."""
    rng = np.random.default_rng(seed)
    found = []
    for k in range(count):
        arrays = {}
        for value in model.graph.input:
            tensor = value.type.tensor_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            shape = [d.dim_value for d in tensor.shape.dim]
            values = rng.choice(pool(dtype), shape)
            if k % 2 and dtype == np.float32 and value.name in "duxcsqkve":
                values = rng.uniform(-2, 2, shape)
            arrays[value.name] = np.asarray(values, dtype)
        found.append(arrays)
    return found
