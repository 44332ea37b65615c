"""Constraints of ONNX operators that no other check knows, as onnxruntime enforces them.

A row has an operator's name, its first opset, and a contract in the notation of
``tvmrt.compiler.ir.contract``. It states only what neither the operator's schema and inference of
the onnx package nor the contracts of the IR's operators and the importers refuse in good words.
Rows describe malformed nodes, not the limits of tvmrt.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from tvmrt.compiler.ir import TensorType
from tvmrt.compiler.ir.contract import Contract, Rule, holds
from tvmrt.compiler.ir.sizes.assumptions import are_equal, are_equal_shapes

Row = tuple[str, str, tuple[Rule, ...]]  # operands, attributes, rules

_ANY = "operand*: any[*]"


def _row(operands: str, attributes: str = "", *rules: Rule) -> Row:
    return operands, attributes, rules


def _broadcasts_to(small: TensorType | None, large: Sequence[int]) -> bool:
    """Return whether a shape broadcasts to another one without a change of the latter."""
    return small is None or (
        len(small.shape) <= len(large)
        and all(n == 1 or are_equal(n, m) for n, m in zip(reversed(small.shape), reversed(large)))
    )


_LENGTHS = holds(
    "lengths are from 0 to the number of steps",
    lambda x, lengths_data, time_axis: (
        (lengths_data >= 0) & (lengths_data <= x.shape[time_axis])
    ).all(),
)


def _batch(layout: int | None) -> int:
    return 0 if layout else 1


def _state(name: str) -> Rule:
    """Return the rule of an initial state: [D batch H], or [batch D H] with the batch first."""

    def fits(state, x, layout, D, H) -> bool:
        if state is None:
            return True
        batch = x.shape[_batch(layout)]
        return are_equal_shapes(state.shape, (batch, D, H) if layout else (D, batch, H))

    words = f"{name} has H numbers for each direction and sample"
    return Rule(words, fits, (name, "x", "layout", "D", "H"))


_CELL_RULES = (
    holds("hidden_size is H", lambda hidden_size, H: hidden_size in (None, H)),
    holds(
        "D is 2 where the direction is bidirectional, else 1",
        lambda direction, D: (D == 2) == (direction == "bidirectional") and D in (1, 2),
    ),
    holds(
        "lengths has one number for each sample",
        lambda x, lengths, layout: (
            lengths is None or are_equal(lengths.shape[0], x.shape[_batch(layout)])
        ),
    ),
    holds(
        "lengths are from 0 to the number of steps",
        lambda x, lengths_data, layout: _LENGTHS.function(x, lengths_data, 1 - _batch(layout)),
    ),
)


def _cell(gates: int, biases: int, more: str = "", states: tuple[str, ...] = ("h0",)) -> Row:
    """Return the row of a recurrent cell: weights [D gates*H features], D directions of H units."""
    initial = ", ".join(f"{name}?: any[_ _ _]" for name in states)
    return _row(
        f"x: any[_ _ _], w: any[D {gates}*H _], r: any[D {gates}*H H], b?: any[D {biases}*H], "
        f"lengths?: int32[_], {initial}, {more}",
        "hidden_size?: int, direction: forward|reverse|bidirectional, layout?: int",
        *_CELL_RULES,
        *map(_state, states),
    )


def _have_equal_shapes(scale, zero_point) -> bool:
    """Return whether the shapes are equal; a scalar equals a vector of one element."""
    if zero_point is None or scale.shape == zero_point.shape:
        return True
    return all(prod(p.shape) == 1 and len(p.shape) <= 1 for p in (scale, zero_point))


_SCALED = Rule("scale broadcasts to the axes of x from axis on", _broadcasts_to, ("scale", "X"))


_GROUP = "group: int 1.."
_BY_CHANNEL = "x: any[N C *S], scale: any[C], bias: any[C]"

ROWS: dict[tuple[str, int], Row] = {
    # layout, index and scan operators
    ("Compress", 1): _row("x: any[*], condition: bool[_]"),
    ("DepthToSpace", 1): _row("x: any[N C H W]", "blocksize: int 1.., mode?: DCR|CRD"),
    ("TensorScatter", 1): _row(
        "cache: any[*], update: any[*], indices?: int64[_]", "mode: linear|circular"
    ),
    ("Celu", 1): _row(
        "x: any[*]", "alpha: float", holds("alpha is not 0", lambda alpha: alpha != 0)
    ),
    ("ReverseSequence", 1): _row(
        "x: any[_ _ *], lengths: int64[_]", "time_axis: int 0..1", _LENGTHS
    ),
    # matrix products
    ("Gemm", 1): _row(
        "a: any[_ _], b: any[_ _], c?: any[*]",
        "transA: int, transB: int",
        holds(
            "c broadcasts to the product",
            lambda a, b, c, transA, transB: _broadcasts_to(
                c, (a.shape[1 if transA else 0], b.shape[0 if transB else 1])
            ),
        ),
    ),
    # recurrent cells
    ("LSTM", 1): _cell(4, 8, "p?: any[D 3*H]", states=("h0", "c0")),
    ("GRU", 1): _cell(3, 6),
    ("RNN", 1): _cell(1, 2),
    # scales and zero points
    **dict.fromkeys(
        (("QuantizeLinear", 10), ("DequantizeLinear", 10)),
        _row(
            "x: any[*], scale: any[*], zero_point?: any[*]",
            "",
            holds("scale and zero_point have one shape", _have_equal_shapes),
        ),
    ),
    # convolutions
    ("QLinearConv", 1): _row(
        "x: any[N C *S{1..}], x_scale: any[*], x_zero_point: any[*], w: any[M C/group *K{S}], "
        "w_scale: any[*], w_zero_point: any[*], y_scale: any[*], y_zero_point: any[*], b?: any[M]",
        _GROUP,
    ),
    # normalisations
    ("InstanceNormalization", 1): _row(_BY_CHANNEL),
    ("LayerNormalization", 1): _row("x: any[*X], scale: any[*], bias?: any[*]", "", _SCALED),
    ("RMSNormalization", 1): _row("x: any[*X], scale: any[*]", "", _SCALED),
    ("LRN", 1): _row(
        "x: any[*]",
        "size: int, alpha: float, beta: float",
        holds("size is odd", lambda size: size % 2 == 1),
        holds("alpha and beta are above 0", lambda alpha, beta: alpha > 0 and beta > 0),
    ),
    # sampling and attention
    ("Resize", 11): _row(
        "x: any[*], roi?: any[*], scales?: float32[_], sizes?: int64[_]",
        "",
        holds("scales are above 0", lambda scales_data: (scales_data > 0).all()),
    ),
    ("RoiAlign", 10): _row(_ANY, "mode: avg|max"),
    ("RoiAlign", 16): _row(
        _ANY, "mode: avg|max, coordinate_transformation_mode: half_pixel|output_half_pixel"
    ),
    ("Attention", 1): _row(
        "q: any[N *{2..3}], k: any[N *{2..3}], v: any[N *{2..3}], mask?: any[*], "
        "past_key?: any[N _ _ _], past_value?: any[N _ _ _], lengths?: int64[N]",
        "q_num_heads?: int 1.., kv_num_heads?: int 1.., qk_matmul_output_mode: int 0..3, "
        "scale?: float, softcap: float 0..",
        holds("scale is above 0", lambda scale: scale is None or scale > 0),
    ),
}


@lru_cache(maxsize=512)
def contract_of(op: str, opset: int) -> Contract | None:
    """Return the constraints of an operator in an opset; None if it has none."""
    rows = {first: row for (name, first), row in ROWS.items() if name == op and first <= opset}
    return Contract(*rows[max(rows)]) if rows else None
