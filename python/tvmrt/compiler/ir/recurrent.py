"""Recurrent cells over a sequence, in one direction: LSTM, GRU and the basic RNN.

The input's contribution to the gates is one matmul over all time steps, an operator of its own
before the cell. The cell computes the recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence

from .contract import Contract, Rule, holds
from .graph import Node
from .op import Op, register
from .traits import Trait

# Default activation functions of cells.
ACTIVATIONS = {"lstm": ("sigmoid", "tanh", "tanh"), "gru": ("sigmoid", "tanh"), "rnn": ("tanh",)}

_ATTRIBUTES = "reverse: bool, activations: object, clip: float 0.."
_RESULTS = "y: float32[T B H], last: float32[B H]"


def drop_default_attributes(nodes: Sequence[Node]) -> None:
    """Remove default attributes from cells, in place; the text form of regions has none of
    them."""
    for node in nodes:
        if node.op in ACTIVATIONS:
            for key in ("activations", "clip", "input_forget"):
                node.attrs.pop(key, None)


def _functions(count: int) -> Rule:
    return holds(
        f"activations has {count} rows of a name, alpha and beta",
        lambda activations: _are_functions(activations, count),
    )


def _are_functions(activations: object, count: int) -> bool:
    if not isinstance(activations, Sequence) or len(activations) != count:
        return False
    return all(len(row) == 3 and isinstance(row[0], str) for row in activations)


class _Recurrent(Op):
    """Recurrent cell. ``x``: gate contributions of input and biases; ``r``: recurrence weights.

    ``reverse``: last step first. ``activations``: a (name, alpha, beta) for each of the cell's
    functions. ``clip``: limit of their inputs. ``lengths``: steps of each sample.

    Outputs: the hidden state after every step, and the last one.
    """

    traits = frozenset({Trait.RECURRENT})


@register("lstm")
class Lstm(_Recurrent):
    """LSTM with gates in ONNX's order i, o, f, c. ``input_forget``: the forget gate is 1 - i.

    The third output is the last cell state.
    """

    contract = Contract(
        "x: float32[T B 4*H], r: float32[4*H H], h0?: float32[B H], c0?: float32[B H], "
        f"peepholes?: float32[3*H], lengths?: int32[B] -> {_RESULTS}, c: float32[B H]",
        f"{_ATTRIBUTES}, input_forget: bool",
        rules=[_functions(3)],
        example={"activations": (("sigmoid", None, None), *[("tanh", None, None)] * 2)},
    )


@register("gru")
class Gru(_Recurrent):
    """GRU with gates in ONNX's order z, r, h. ``bias``: the recurrence bias of the hidden gate.

    ``linear_before_reset``: the reset gate scales the product with the previous state (and its
    bias) instead of that state.
    """

    contract = Contract(
        "x: float32[T B 3*H], r: float32[3*H H], h0?: float32[B H], bias?: float32[H], "
        f"lengths?: int32[B] -> {_RESULTS}",
        f"{_ATTRIBUTES}, linear_before_reset: bool",
        rules=[_functions(2)],
        example={"activations": (("sigmoid", None, None), ("tanh", None, None))},
    )


@register("rnn")
class Rnn(_Recurrent):
    """Basic RNN: h = f(x + r h)."""

    contract = Contract(
        f"x: float32[T B H], r: float32[H H], h0?: float32[B H], lengths?: int32[B] -> {_RESULTS}",
        _ATTRIBUTES,
        rules=[_functions(1)],
        example={"activations": (("tanh", None, None),)},
    )
