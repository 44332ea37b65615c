"""Recurrent cells run over a sequence: LSTM, GRU and the plain RNN, one direction each.

The input's share of the gates is a matrix product over all time steps at once and stands in
front of the cell as an operator of its own; what remains is the recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .graph import TensorType
from .op import Op, register


class _Recurrent(Op):
    """``x`` [T, B, gates * H] is the input's share of the gates, biases included; ``r``
    [gates * H, H] the recurrence weights. ``reverse``: last step first. ``activations``: a
    (name, alpha, beta) for each of the cell's functions. ``clip``: bound of what goes into them.

    Outputs: the hidden state after every step [T, B, H], and the last one [B, H].
    """

    gates = 1
    states = 1  # tensors of shape [B, H] that the recurrence carries

    def infer(self, types: Sequence[TensorType | None], attrs: dict[str, Any]):
        x, r = types[0], types[1]
        hidden = r.shape[-1]
        if x.rank != 3 or x.shape[2] != self.gates * hidden:
            raise ValueError(f"{self.name}: gates {x} do not fit {hidden} hidden units")
        if r.shape != (self.gates * hidden, hidden):
            raise ValueError(f"{self.name}: recurrence weights {r} are not {self.gates}H x H")
        state = TensorType((x.shape[1], hidden), x.dtype)
        for extra in types[2:]:
            if extra is not None and extra.rank == 2 and extra.shape != state.shape:
                raise ValueError(f"{self.name}: state {extra} is not {state}")
        return [TensorType((*x.shape[:2], hidden), x.dtype), *[state] * self.states]


@register("lstm")
class Lstm(_Recurrent):
    """Inputs: x, r[, h0 [B, H], c0 [B, H], peepholes [3 * H], lengths [B] (int32)].

    Gates in ONNX's order i, o, f, c. ``input_forget``: the forget gate is 1 - i.
    A third output is the last cell state.
    """

    gates = 4
    states = 2


@register("gru")
class Gru(_Recurrent):
    """Inputs: x, r[, h0 [B, H], recurrence bias of the hidden gate [H], lengths [B] (int32)].

    Gates in ONNX's order z, r, h. ``linear_before_reset``: the reset gate scales the product
    with the previous state (and its bias), not that state.
    """

    gates = 3


@register("rnn")
class Rnn(_Recurrent):
    """Inputs: x, r[, h0 [B, H], lengths [B] (int32)]."""
