"""Recurrent cells: one work group per sample executes all steps, with the state in local memory.
Each work item computes some of the hidden units."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Node, Value
from tvmrt.compiler.ir.custom import text_of_types
from tvmrt.plugins.opencl.kernel import LOCAL_SIZE
from tvmrt.plugins.opencl.operator import KERNEL

MAX_HIDDEN = 1024  # units whose states fit into every device's local memory
_FUNCTIONS = {
    "sigmoid": "(1.0f / (1.0f + exp(-({0}))))",
    "tanh": "tanh({0})",
    "relu": "fmax({0}, 0.0f)",
}
# Optional operands after x and r, in order.
_STATES = {"lstm": ("h0", "c0"), "gru": ("h0", "bias"), "rnn": ("h0",)}


def refusal(node: Node) -> str | None:
    """Return why the cell has no kernel, or None."""
    attrs = node.attrs
    if node.op not in _STATES:
        return f"there is no OpenCL kernel for {node.op}"
    if any(row[0] not in _FUNCTIONS for row in attrs["activations"]):
        return f"the kernel of {node.op} has the activations {', '.join(_FUNCTIONS)}"
    if np.isfinite(attrs.get("clip", np.inf)) or attrs.get("input_forget"):
        return "kernels of cells neither clip nor couple their gates"
    if any(v is not None for v in node.inputs[2 + len(_STATES[node.op]) :]):
        return "kernels of cells have neither peepholes nor lengths of sequences"
    if node.outputs[0].shape[2] > MAX_HIDDEN:
        return f"kernels of cells have {MAX_HIDDEN} units at most"
    return None


def lower_cell(node: Node, buffers: list[Value | None]) -> Node:
    """Return the cell as one kernel over row-major buffers, with the node's outputs."""
    steps, batch, hidden = node.outputs[0].shape
    given = [b for b in buffers if b is not None]
    attrs = {
        "operator": node.op,
        "source": _source(node, buffers, hidden),
        "function": node.op,
        "build_options": "",
        "global_size": [batch * LOCAL_SIZE],
        "local_size": [LOCAL_SIZE],
        "scalar_types": "int int",
        "scalars": [float(steps), float(batch)],
        "types": text_of_types([v.type for v in node.outputs]),
    }
    result = Node(KERNEL, given, attrs, node.name, node.sources)
    result.set_outputs(node.outputs)
    return result


def _source(node: Node, buffers: list[Value | None], hidden: int) -> str:
    names = ["x", "r", *_STATES[node.op]]
    given = {name for name, buffer in zip(names, buffers) if buffer is not None}
    outputs = ["y", "last", "c_last"][: len(node.outputs)]
    parameters = [f"__global const float *restrict {n}" for n in names if n in given]
    parameters += [f"__global float *restrict {n}" for n in outputs]
    parameters += ["const int steps", "const int batch"]
    body = _BODIES[node.op](node, given)
    order = "steps - 1 - s" if node.attrs["reverse"] else "s"
    first = "h0[sample * HIDDEN + j]" if "h0" in given else "0.0f"
    cell = "c0[sample * HIDDEN + j]" if "c0" in given else "0.0f"
    return f"""#define HIDDEN {hidden}
#define UNITS for (int j = get_local_id(0); j < HIDDEN; j += get_local_size(0))
#ifndef TVMRT_LOCAL_POINTER
#define TVMRT_LOCAL_POINTER __local
#endif
static float product(__global const float *row, TVMRT_LOCAL_POINTER const float *state) {{
  float sum = 0.0f;
  for (int m = 0; m < HIDDEN; ++m) sum += row[m] * state[m];
  return sum;
}}
__kernel void {node.op}({", ".join(parameters)}) {{
  __local float h[HIDDEN], next[HIDDEN], extra[HIDDEN];
  const int sample = get_group_id(0);
  UNITS {{ h[j] = {first}; extra[j] = {cell}; }}
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int s = 0; s < steps; ++s) {{
    const int t = {order};
    __global const float *gates = x + (t * batch + sample) * {body.count} * HIDDEN;
{body.text}
    barrier(CLK_LOCAL_MEM_FENCE);
    UNITS {{ h[j] = next[j]; y[(t * batch + sample) * HIDDEN + j] = next[j]; }}
    barrier(CLK_LOCAL_MEM_FENCE);
  }}
  UNITS {{
    last[sample * HIDDEN + j] = h[j];
    {"c_last[sample * HIDDEN + j] = extra[j];" if len(outputs) > 2 else ""}
  }}
}}
"""


class _Body:
    """Text of a step, and the number of gates of its input."""

    def __init__(self, count: int, *lines: str) -> None:
        self.count = count
        self.text = "\n".join(f"    {line}" for line in lines)


def _gate(number: int, state: str = "h") -> str:
    row = f"r + ({number} * HIDDEN + j) * HIDDEN"
    return f"gates[{number} * HIDDEN + j] + product({row}, {state})"


def _functions(node: Node) -> list[str]:
    return [_FUNCTIONS[row[0]] for row in node.attrs["activations"]]


def _lstm(node: Node, _given: set[str]) -> _Body:
    """Gates i, o, f, c; `extra` is the cell's state."""
    f, g, h = _functions(node)
    return _Body(
        4,
        "UNITS {",
        f"  const float in = {f.format(_gate(0))};",
        f"  const float forget = {f.format(_gate(2))};",
        f"  const float cell = {g.format(_gate(3))};",
        f"  const float out = {f.format(_gate(1))};",
        "  const float state = forget * extra[j] + in * cell;",
        "  extra[j] = state;",
        f"  next[j] = out * {h.format('state')};",
        "}",
    )


def _gru(node: Node, given: set[str]) -> _Body:
    """Gates z, r, h; `extra` is the state after the reset gate."""
    f, g = _functions(node)
    bias = " + bias[j]" if "bias" in given else ""
    row = "product(r + (2 * HIDDEN + j) * HIDDEN, {0})" + bias
    if node.attrs["linear_before_reset"]:
        before = []
        inner = f"gates[2 * HIDDEN + j] + {f.format(_gate(1))} * ({row.format('h')})"
    else:
        before = [f"UNITS extra[j] = {f.format(_gate(1))} * h[j];", "barrier(CLK_LOCAL_MEM_FENCE);"]
        inner = f"gates[2 * HIDDEN + j] + {row.format('extra')}"
    return _Body(
        3,
        *before,
        "UNITS {",
        f"  const float update = {f.format(_gate(0))};",
        f"  next[j] = (1.0f - update) * {g.format(inner)} + update * h[j];",
        "}",
    )


def _rnn(node: Node, _given: set[str]) -> _Body:
    (f,) = _functions(node)
    return _Body(1, f"UNITS next[j] = {f.format(_gate(0))};")


_BODIES = {"lstm": _lstm, "gru": _gru, "rnn": _rnn}
