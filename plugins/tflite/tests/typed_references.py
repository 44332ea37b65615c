"""Expected results of an operator for one element type: LiteRT's kernels, or arithmetic."""

from __future__ import annotations

from functools import cache

import numpy as np
from tflite_case import assert_like, feeds_for, litert_runs
from typed_operators import NETS, QUANTIZED, typed_net

from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model, load_model

# Operators that move or count elements or reinterpret their bits: any type is supported.
OF_ANY_TYPE = frozenset(
    """BATCH_TO_SPACE_ND BITCAST BROADCAST_ARGS BROADCAST_TO CAST CONCATENATION DENSIFY
    DEPTH_TO_SPACE DYNAMIC_UPDATE_SLICE EMBEDDING_LOOKUP EXPAND_DIMS FILL GATHER GATHER_ND
    MATRIX_DIAG MATRIX_SET_DIAG MIRROR_PAD ONE_HOT PACK PAD PADV2 RANGE RANK RESHAPE
    RESIZE_NEAREST_NEIGHBOR REVERSE_SEQUENCE REVERSE_V2 SELECT SELECT_V2 SHAPE SLICE
    SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPARSE_TO_DENSE SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TILE
    TRANSPOSE UNIQUE UNPACK WHERE""".split()
)
# Operators that call graphs, hold variables, take complex numbers or are always rejected.
WITHOUT_ELEMENTS = frozenset(
    """ASSIGN_VARIABLE CALL CALL_ONCE COMPLEX_ABS FAKE_QUANT IF IMAG READ_VARIABLE REAL
    STABLEHLO_COMPOSITE VAR_HANDLE WHILE""".split()
)

# LiteRT's reference kernels are wrong, its optimised ones are right.
OPTIMIZED = {
    # the reference kernel omits the last channel of each window
    ("LOCAL_RESPONSE_NORMALIZATION", "float32"),
    # the reference kernel reads elements as uint8
    ("SUM", "quantised int8"), ("SUM", "quantised int16"),
}  # fmt: skip
# All LiteRT kernels are wrong, read uninitialised memory, or crash.
NO_KERNEL = {
    ("SUB", "int16"), ("NOT_EQUAL", "int16"), ("MATRIX_DIAG", "bool"), ("MATRIX_SET_DIAG", "bool"),
    ("NEG", "quantised int8"),  # LiteRT negates the integer, whatever the zero point is
}  # fmt: skip
# No LiteRT kernel: expected results by arithmetic on integers and on real values.
KNOWN = (1 + np.arange(24) % 5).reshape(3, 8)  # the second operand of some of them
ARITHMETIC_REFERENCE = {
    "SUB": np.subtract, "NOT_EQUAL": np.not_equal, "ABS": np.abs, "DIV": lambda a: a // KNOWN,
    "SQUARED_DIFFERENCE": lambda a, b: (a - b) * (a - b), "FLOOR_DIV": lambda a: a // KNOWN,
    "POW": lambda a: a**KNOWN, "BITWISE_XOR": np.bitwise_xor, "RIGHT_SHIFT": lambda a: a >> KNOWN,
    "ADD_N": lambda a: 3 * a,
    "MAXIMUM": np.maximum, "MINIMUM": np.minimum,
    "ARG_MAX": lambda a: a.argmax(1), "ARG_MIN": lambda a: a.argmin(1),
    "SEGMENT_SUM": lambda a: np.stack([a[0] + a[1], a[2]]),
    "UNSORTED_SEGMENT_SUM": lambda a: np.stack([a[0] + a[1], a[2]]),
    "UNSORTED_SEGMENT_PROD": lambda a: np.stack([a[0] * a[1], a[2]]),
    "UNSORTED_SEGMENT_MAX": lambda a: np.stack([np.maximum(a[0], a[1]), a[2]]),
    "UNSORTED_SEGMENT_MIN": lambda a: np.stack([np.minimum(a[0], a[1]), a[2]]),
}  # fmt: skip
REAL_RIGHT = {
    "ABS": np.abs, "NEG": np.negative, "EXP": np.exp, "LOG": np.log, "SQRT": np.sqrt,
    "RSQRT": lambda x: 1 / np.sqrt(x), "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "RELU_N1_TO_1": lambda x: np.clip(x, -1, 1),
    "RELU_0_TO_1": lambda x: np.clip(x, 0, 1), "SQUARED_DIFFERENCE": lambda a, b: (a - b) ** 2,
    "BATCH_MATMUL": lambda a, b: a @ b,
}  # fmt: skip


@cache
def inputs_of(operator: str, kind: str) -> list[np.ndarray]:
    """Return inputs; for roots and logarithms above zero."""
    data = typed_net(operator, kind)
    feeds = feeds_for(data)
    if operator in ("SQRT", "RSQRT", "LOG") and kind in QUANTIZED:
        main = load_model(data).subgraphs[0]
        tensor = main.tensors[main.inputs[0]]
        feeds = [np.maximum(feeds[0], int(tensor.quantization.zero[0]) + 1).astype(feeds[0].dtype)]
    return feeds


@cache
def by_litert(operator: str, kind: str, kernels: str) -> list[np.ndarray] | None:
    try:
        feeds = inputs_of(operator, kind)
        return litert_runs(typed_net(operator, kind), [feeds], kernels)[0]
    except (RuntimeError, ValueError):
        return None


def by_reals(operator: str, kind: str) -> list[np.ndarray]:
    """Return the result's integer that is nearest to the real value."""
    main = load_model(typed_net(operator, kind)).subgraphs[0]
    feeds = []
    for index, integers in zip(main.inputs, inputs_of(operator, kind)):
        q = main.tensors[index].quantization
        feeds.append((integers - np.float64(q.zero[0])) * np.float64(q.scale[0]))
    result = main.tensors[main.outputs[0]]
    real = REAL_RIGHT[operator](*feeds) / result.quantization.scale[0] + result.quantization.zero[0]
    limits = np.iinfo(result.dtype)
    return [np.clip(np.rint(real), limits.min, limits.max).astype(result.dtype)]


def by_another_type(operator: str, kind: str) -> list[np.ndarray]:
    """Move elements as float32, which represents all of these integers exactly."""
    dtype = np.dtype(kind.rpartition(" ")[2])
    given, other = inputs_of(operator, kind), inputs_of(operator, "float32")
    feeds = [a.astype(b.dtype) for a, b in zip(given, other)]
    (found,) = litert_runs(typed_net(operator, "float32"), [feeds])
    return [a.astype(dtype) if a.dtype == np.float32 else a for a in found]


def judged(operator: str, kind: str, mine: list[np.ndarray]) -> None:
    """Compare results with LiteRT's, or with the arithmetic reference."""
    where, right = f"{operator} of {kind}", None
    if (operator, kind) not in OPTIMIZED | NO_KERNEL:
        right = by_litert(operator, kind, "BUILTIN_REF")
    if right is None and (operator, kind) not in NO_KERNEL:
        right = by_litert(operator, kind, "BUILTIN_WITHOUT_DEFAULT_DELEGATES")
    if right is not None:
        assert_like(mine, right)
    elif operator in OF_ANY_TYPE | {"SCATTER_ND", "ARG_MAX", "ARG_MIN"}:
        assert_like(mine, by_another_type(operator, kind))
    elif kind in QUANTIZED:
        steps = np.abs(mine[0].astype(int) - by_reals(operator, kind)[0])
        assert steps.max() <= (3 if kind == "quantised int16" else 1), where
    else:
        right = ARITHMETIC_REFERENCE[operator](
            *(f.astype(np.int64) for f in inputs_of(operator, kind))
        )
        np.testing.assert_array_equal(mine[0], right.astype(mine[0].dtype), err_msg=where)


def results_of(operator: str, kind: str) -> int:
    """Return the number of results."""
    return len(load_model(typed_net(operator, kind)).subgraphs[0].outputs)


def accepted(kind: str, apart: tuple[str, ...] = ()) -> list[str]:
    """Return the operators that accept an element type, except excluded ones."""
    found = []
    for operator in NETS:
        try:
            import_model(typed_net(operator, kind))
        except UnsupportedError:
            continue
        if operator not in apart:
            found.append(operator)
    return found


def check_all(operators: list[str], kind: str, results: list[np.ndarray]) -> None:
    """Compare the results of all operators of a network."""
    rest = iter(results)
    for operator in operators:
        judged(operator, kind, [next(rest) for _ in range(results_of(operator, kind))])
    assert not list(rest)
