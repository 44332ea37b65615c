"""Compare functions computed by tables over every input, including poles and overflow, with
LiteRT's reference kernels."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from tflite_case import Net, litert_runs, ours

import tvmrt
from tvmrt.compiler.ir.dtype import to_integers

EVERY = {
    "int8": np.arange(256, dtype=np.uint8).view(np.int8),
    "int16": np.arange(-(2**15), 2**15).astype(np.int16),
}
# Operator, scale of the operand, scale of the result: usual ones, then some with which the function
# overflows, or is steep within one step of the table.
INT16 = (
    ("EXP", 3e-4, 1e-3), ("EXP", 100 / 2**15, 1.0), ("EXP", 89 / 2**15, 1e30),
    ("LOG", 0.0042, 1.5e-4), ("LOG", 1e-4, 3e-4), ("LOG", 1e-30, 3e-3),
    ("RSQRT", 0.0042, 9.65e-5), ("RSQRT", 1e-4, 1e-3), ("RSQRT", 1e-20, 1e5),
    ("GELU", 3e-4, 2e-4), ("GELU", 1e-3, 1e-3), ("GELU", 1e30, 1e30),
    ("LOGISTIC", 1e-3, 2.0**-15), ("LOGISTIC", 3.0, 2.0**-15),
    ("TANH", 1e-3, 2.0**-15), ("TANH", 3.0, 2.0**-15),
)  # fmt: skip
INT8 = (
    ("EXP", 0.03, 0.1), ("EXP", 0.5, 1.0), ("EXP", 30.0, 1e-30),
    ("LOG", 0.1, 0.05), ("LOG", 1e-30, 1.0), ("RSQRT", 0.1, 0.02), ("RSQRT", 1e-20, 1e5),
    ("SQRT", 0.1, 0.02), ("GELU", 1.0, 0.5), ("GELU", 1e30, 1e30),
    ("HARD_SWISH", 0.05, 0.04), ("HARD_SWISH", 5.0, 6.0),
    ("LOGISTIC", 0.1, 2.0**-8), ("LOGISTIC", 50.0, 2.0**-8),
    ("TANH", 0.1, 2.0**-7), ("TANH", 50.0, 2.0**-7),
)  # fmt: skip
# Scales that are powers of two, with which entries are halfway between two integers.
HALVES = tuple(
    (name, x_scale, y_scale)
    for name, y_scales in (("LOGISTIC", (2.0**-8,)), ("TANH", (2.0**-7,)), ("EXP", (2.0**-6, 1.0)),
                           ("GELU", (2.0**-8, 2.0**-4)), ("SQRT", (2.0**-6,)),
                           ("RSQRT", (2.0**-6, 2.0**-3)), ("LOG", (2.0**-6,)),
                           ("HARD_SWISH", (2.0**-8, 2.0**-4)), ("ABS", (2.0**-6,)))
    for y_scale in y_scales
    for x_scale in (2.0**-10, 2.0**-9, 2.0**-8, 2.0**-7, 2.0**-6, 2.0**-5, 2.0**-4, 2.0**-2)
)  # fmt: skip
VERSIONS = {"HARD_SWISH": 1, "GELU": 1}


def tables(rows, dtype: str, zero: int) -> tuple[bytes, list[np.ndarray]]:
    """Make a network of tables in parallel, and every input that LiteRT accepts for each."""
    net, feeds = Net(), []
    for name, x_scale, y_scale in rows:
        every = EVERY[dtype]
        if name in ("RSQRT", "SQRT"):  # LiteRT refuses operands below the zero point
            least = zero + (dtype == "int16")
            every = np.maximum(every, np.asarray(least, every.dtype))
        result = {"LOGISTIC": -128, "TANH": 0}.get(name, -20) if dtype == "int8" else 0
        x = net.input(every.shape, dtype, scale=x_scale, zero=zero)
        y = net.output(every.shape, dtype, scale=y_scale, zero=result)
        options = "GeluOptions" if name == "GELU" else ""
        net.op(name, [x], [y], VERSIONS.get(name, 2), options)
        feeds.append(every)
    return net.data(), feeds


@pytest.mark.parametrize(
    ("rows", "dtype", "zero"),
    [pytest.param(INT16, "int16", 0, id="int16"), pytest.param(INT8, "int8", -100, id="int8"),
     pytest.param(INT8, "int8", -128, id="int8 of positive numbers"),
     pytest.param(HALVES, "int8", -128, id="int8 halves"),
     pytest.param(HALVES, "int8", -3, id="int8 halves about zero")],
)  # fmt: skip
def test_tables_equal_litert_for_every_input(rows, dtype, zero, tmp_path):
    pytest.importorskip("ai_edge_litert")
    data, feeds = tables(rows, dtype, zero)
    (right,) = litert_runs(data, [feeds])
    for row, mine, wanted in zip(rows, ours(data, feeds, tmp_path), right):
        np.testing.assert_array_equal(mine, wanted, err_msg=str(row))


@pytest.mark.parametrize("to", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_every_float_has_an_integer(source, to):
    limits = np.iinfo(to)
    floats = [0.0, 0.9, -0.9, 3.5, -7.5, 1e6, -1e6, 2.0**31, 2.0**63, -(2.0**63), 1e30, -1e30]
    x = np.array([*floats, np.inf, -np.inf, np.nan, limits.min, limits.max], source)
    exact = [int(v) if np.isfinite(v) else 0 if np.isnan(v) else int(np.sign(v)) << 70
             for v in x.tolist()]  # fmt: skip
    with np.errstate(all="raise"):
        found = to_integers(x, to)
    assert found.dtype == to
    assert found.tolist() == [min(max(v, limits.min), limits.max) for v in exact]


# Functions whose result is always a float.
COORDINATES = ("onnx", "resize.py")
FLOATS = {"rint", "round", "floor", "ceil", "trunc", "sqrt", "exp", "log", "log2", "round_away"}


def is_float(node: ast.AST) -> bool:
    """Return True if an expression is computed by a division or a float function."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "to_integers":
        return False
    for part in ast.walk(node):
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div):
            return True
        if isinstance(part, ast.Call) and isinstance(part.func, (ast.Attribute, ast.Name)):
            name = part.func.attr if isinstance(part.func, ast.Attribute) else part.func.id
            if name in FLOATS:
                return True
    return False


def casts_of_floats(text: str) -> list[int]:
    """Return the lines on which ``astype`` converts a float expression to integers."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr != "astype" or not node.args or not is_float(node.func.value):
            continue
        to = ast.unparse(node.args[0])
        if any(f"{kind}{bits}" in to for kind in ("int", "<i", "<u") for bits in (8, 16, 32, 64)):
            found.append(node.lineno)
    return found


def test_all_float_to_integer_casts_are_defined():
    """to_integers() makes all of them, except for coordinates, which are bounded."""
    assert casts_of_floats("y = np.rint(x).astype(np.int32)") == [1]
    assert casts_of_floats("y = (x / 3).astype('uint8')") == [1]
    assert not casts_of_floats("y = np.rint(x).astype(np.float32)\nz = (x * 3).astype(np.int8)")
    folders = Path(tvmrt.__file__).parent, Path(__file__).parents[1] / "python"
    paths = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    others = [path for path in paths if path.parts[-2:] != COORDINATES]
    found = [f"{path}:{line}" for path in others
             for line in casts_of_floats(path.read_text())]  # fmt: skip
    assert not found
