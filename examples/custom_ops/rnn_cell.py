"""A recurrent cell composed of built-in operators: fully connected, tanh, data convert.

``Rnn`` is composed of cells, one a time step, and gives what ONNX's RNN gives.
"""

from __future__ import annotations

from tvmrt.custom import GraphBuilder, Value, composed


@composed("RNNCell", domain="example.recurrent")
def rnn_cell(
    g: GraphBuilder,
    x: Value,
    state: Value,
    w: Value,
    r: Value,
    b: Value | None = None,
    *,
    output_type: int = 1,
) -> tuple[Value, Value]:
    """tanh(x w' + state r' + b), twice: as the next state, and converted to ``output_type`` (one of
    ONNX's element types).

    x [N, I], state [N, H], w [H, I], r [H, H], b [H].
    """
    fed = g.Gemm(x, w, b, transB=1)
    kept = g.Gemm(state, r, transB=1)
    new_state = g.Tanh(g.Add(fed, kept))
    return g.Cast(new_state, to=output_type), new_state


@composed("Rnn", domain="example.recurrent")
def rnn(
    g: GraphBuilder, x: Value, w: Value, r: Value, b: Value, state: Value
) -> tuple[Value, Value]:
    """ONNX's RNN with its defaults: x [T, N, I], w [1, H, I], r [1, H, H], b [1, 2 H], state
    [1, N, H] to all states [T, 1, N, H] and the last [1, N, H]."""
    hidden = w.shape[1]
    w, r, state = (g.Squeeze(v, [0]) for v in (w, r, state))
    bias = g.Add(*g.Split(g.Squeeze(b, [0]), [hidden, hidden], outputs=2))
    outputs = []
    for step in range(x.shape[0]):
        output, state = g.add(rnn_cell, g.Gather(x, step, axis=0), state, w, r, bias)
        outputs.append(g.Unsqueeze(output, [0, 1]))
    return g.Concat(*outputs, axis=0), g.Unsqueeze(state, [0])
