"""Constraints of recurrent cells: weights [D gates*H features], D directions of H units."""

from __future__ import annotations

from tvmrt.compiler.ir.assumptions import are_equal
from tvmrt.compiler.ir.contract import Contract, Rule, holds

_RULES = [
    holds("hidden_size is H", lambda hidden_size, H: hidden_size in (None, H)),
    holds(
        "D is 2 where the direction is bidirectional, else 1",
        lambda direction, D: (D == 2) == (direction == "bidirectional") and D in (1, 2),
    ),
    holds(
        "x has as many features as w reads",
        lambda x, w: are_equal(x.shape[2], w.shape[2]),
    ),
    holds(
        "lengths has one number for each sample",
        lambda x, lengths, layout: (
            lengths is None or are_equal(lengths.shape[0], x.shape[_batch(layout)])
        ),
    ),
    holds(
        "lengths are from 0 to the number of steps",
        lambda x, lengths_data, layout: (
            (lengths_data >= 0) & (lengths_data <= x.shape[1 - _batch(layout)])
        ).all(),
    ),
]


def _batch(layout: int | None) -> int:
    return 0 if layout else 1


def _state(name: str) -> Rule:
    """Return the rule of an initial state: [D batch H], or [batch D H] with the batch first."""

    def fits(state, x, layout, D, H) -> bool:
        if state is None:
            return True
        batch = x.shape[_batch(layout)]
        return state.shape == ((batch, D, H) if layout else (D, batch, H))

    words = f"{name} has H numbers for each direction and sample"
    return Rule(words, fits, (name, "x", "layout", "D", "H"))


def _cell(gates: int, biases: int, more: str = "", states: tuple[str, ...] = ("h0",)) -> Contract:
    initial = ", ".join(f"{name}?: any[_ _ _]" for name in states)
    return Contract(
        f"x: any[_ _ _], w: any[D {gates}*H _], r: any[D {gates}*H H], b?: any[D {biases}*H], "
        f"lengths?: int32[_], {initial}, {more}",
        "hidden_size?: int 1.., direction: forward|reverse|bidirectional, layout?: int 0..1, "
        "clip?: float 0..",
        rules=[*_RULES, *map(_state, states)],
    )


CONTRACTS = {
    "LSTM": _cell(4, 8, "p?: any[D 3*H]", states=("h0", "c0")),
    "GRU": _cell(3, 6),
    "RNN": _cell(1, 2),
}
