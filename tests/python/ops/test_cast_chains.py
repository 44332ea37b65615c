"""Consecutive casts round at each step, even with data movement between them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from nn_case import run_compiled
from onnx import TensorProto, helper

ml_dtypes = pytest.importorskip("ml_dtypes")

KINDS = {
    "f16": (TensorProto.FLOAT16, np.dtype(np.float16)),
    "bf16": (TensorProto.BFLOAT16, np.dtype(ml_dtypes.bfloat16)),
    "f32": (TensorProto.FLOAT, np.dtype(np.float32)),
    "f64": (TensorProto.DOUBLE, np.dtype(np.float64)),
    "bool": (TensorProto.BOOL, np.dtype(bool)),
    "i8": (TensorProto.INT8, np.dtype(np.int8)),
    "u8": (TensorProto.UINT8, np.dtype(np.uint8)),
    "i32": (TensorProto.INT32, np.dtype(np.int32)),
    "i64": (TensorProto.INT64, np.dtype(np.int64)),
    "u64": (TensorProto.UINT64, np.dtype(np.uint64)),
}
FLOATS = np.array(
    [0.0, -0.0, 1e5, 0.1, 1.001, -7.3, 65519.9, 65520, 6e-8, 3e-8, 1e-40, -1e-45, 3.3e38]
)
FLOATS = np.append(FLOATS, [np.inf, -np.inf, np.nan])
SMALL = np.array([0.0, 1.0, -1.0, 2.5, -2.5, 100.9, -100.9, 126.5, 0.4, -0.4])
INTS = np.array([0, 1, -1, 2**24 + 1, 2**53 + 1, -(2**53) - 1, 2**62 + 1, 300, -300, 2**33 + 5])
# chains of types, beginning with the input's; an operator is between the first casts
CHAINS = [
    *(f"f32 {half} f32" for half in ("f16", "bf16")),
    *(f"f32 {op} {half} {op} f32" for half in ("f16", "bf16") for op in ("Identity", "Reshape")),
    *(f"f32 {half} {op} f32" for half in ("f16", "bf16") for op in ("Concat", "Gather", "Neg")),
    "f64 f16 f64",
    "f32 f16 bf16 f32",
    "f32 bf16 f16 f32",
    "f16 f32",
    "f16 Neg f32",
    "f16 bf16",
    "f32 f16",
    "f64 f32 f64",
    "f32 f64 f32",
    "f32 bool f32",
    "f16 bool i8",
    *(f"small {kind} f32" for kind in ("i8", "i32", "i64", "bool")),
    "small f16 i8 f16 f32",
    *(f"ints {kind} i64" for kind in ("f32", "f64", "i8", "u8", "i32", "u64", "bool")),
]


def source(word: str) -> np.ndarray:
    if word in ("small", "ints"):
        return SMALL.astype(np.float32) if word == "small" else INTS
    with np.errstate(over="ignore"):
        return FLOATS.astype(np.float32).astype(KINDS[word][1])


def moved(word: str, x: np.ndarray) -> np.ndarray:
    return {"Concat": lambda: np.concatenate([x, x]), "Gather": lambda: x[[2, 1, 0]]}.get(
        word, lambda: -x if word == "Neg" else x
    )()


def node(word: str, name: str, out: str) -> onnx.NodeProto:
    if word in KINDS:
        return helper.make_node("Cast", [name], [out], to=KINDS[word][0])
    more = {"Concat": [name], "Gather": ["places"], "Reshape": ["flat"]}.get(word, [])
    attributes = {"axis": 0} if word == "Concat" else {}
    return helper.make_node(word, [name, *more], [out], **attributes)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the results of all chains, computed in one network."""
    nodes, inputs, outputs, feeds = [], [], [], {}
    for number, chain in enumerate(CHAINS):
        words = chain.split()
        x = feeds[f"x{number}"] = source(words[0])
        kind = helper.np_dtype_to_tensor_dtype(x.dtype)
        inputs.append(helper.make_tensor_value_info(f"x{number}", kind, x.shape))
        name = f"x{number}"
        for i, word in enumerate(words[1:]):
            nodes.append(node(word, name, f"t{number}_{i}"))
            name = f"t{number}_{i}"
        last = KINDS[words[-1]][0]
        outputs.append(helper.make_tensor_value_info(name, last, None))
    weights = [
        onnx.numpy_helper.from_array(np.array([2, 1, 0]), "places"),
        onnx.numpy_helper.from_array(np.array([-1]), "flat"),
    ]
    graph = helper.make_graph(nodes, "chains", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    values = run_compiled(model, feeds, tmp_path_factory.mktemp("chains"))
    return {chain: values[outputs[i].name] for i, chain in enumerate(CHAINS)}


@pytest.mark.parametrize("chain", CHAINS, ids=[chain.replace(" ", "-") for chain in CHAINS])
def test_each_cast_rounds(found, chain):
    words = chain.split()
    wanted = source(words[0])
    with np.errstate(all="ignore"):
        for word in words[1:]:
            if word not in KINDS:
                wanted = moved(word, wanted)
                continue
            to = KINDS[word][1]
            by_way = np.float32 if "f16" in word and wanted.dtype != to else wanted.dtype
            wanted = wanted.astype(by_way).astype(to)
    assert found[chain].dtype == wanted.dtype
    floats = [f if f.dtype.kind in "iu" else f.astype(np.float64) for f in (found[chain], wanted)]
    np.testing.assert_array_equal(*floats)
    if any(word in chain for word in ("small", "ints")):
        return  # a zero cast from an integer may keep its sign, see docs/reference/accuracy.md
    number = ~np.isnan(floats[1])
    np.testing.assert_array_equal(*(np.signbit(f)[number] for f in floats))


LIMITS = {"i8": (-128, 127), "u8": (0, 255), "i32": (-(2**31), 2**31 - 1), "u64": (0, 2**64 - 1)}


@pytest.mark.parametrize("fixed", [False, True], ids=["computed", "constant"])
@pytest.mark.parametrize("width", ["f32", "f64", "f16"])
def test_out_of_range_casts_are_defined(tmp_path, width, fixed):
    """Casts saturate and NaN becomes 0, at run time and in constant folding."""
    x = np.array([np.nan, np.inf, -np.inf, 4e4, -4e4, -1.5], np.float32).astype(KINDS[width][1])
    nodes = [helper.make_node("Cast", ["x"], [kind], to=KINDS[kind][0]) for kind in LIMITS]
    outputs = [helper.make_tensor_value_info(kind, KINDS[kind][0], [6]) for kind in LIMITS]
    value = helper.make_tensor_value_info("x", KINDS[width][0], [6])
    weights = [onnx.numpy_helper.from_array(x, "x")] if fixed else []
    graph = helper.make_graph(nodes, "limits", [] if fixed else [value], outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    found = run_compiled(model, {} if fixed else {"x": x}, tmp_path)
    for kind, (low, high) in LIMITS.items():
        small = [min(max(int(n), low), high) for n in (40000 // 32 * 32, -40000 // 32 * 32, -1)]
        wanted = [0, high, low, *small]
        assert found[kind].tolist() == wanted, kind


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_cast_like_rounds_to_the_other_tensors_type(tmp_path, kind):
    code, dtype = KINDS[kind]
    nodes = [
        helper.make_node("Cast", ["like"], ["half"], to=code),
        helper.make_node("Add", ["half", "half"], ["sum"]),
        helper.make_node("CastLike", ["x", "sum"], ["h"]),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("like", TensorProto.FLOAT, [1]),
    ]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])]
    graph = helper.make_graph(nodes, "like", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    x = np.array([1e5, 0.1, 1.001], np.float32)
    found = run_compiled(model, {"x": x, "like": np.zeros(1, np.float32)}, tmp_path)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found["y"], x.astype(dtype).astype(np.float32))
