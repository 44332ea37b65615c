"""LSTM and GRU by the formulas of ONNX, with states in double."""

from __future__ import annotations

import math
from string import Template

from .code import NodeCode, prints

# Functions of u, by their names in ONNX.
_FUNCTIONS = {
    "affine": "$a * u + $b", "elu": "u >= 0 ? u : $a * (exp(u) - 1)", "tanh": "tanh(u)",
    "hardsigmoid": "ref_max(0, ref_min(1, $a * u + $b))", "leakyrelu": "u >= 0 ? u : $a * u",
    "relu": "ref_max(u, 0)", "scaledtanh": "$a * tanh($b * u)", "sigmoid": "1 / (1 + exp(-u))",
    "softplus": "log1p(exp(-fabs(u))) + ref_max(u, 0)", "softsign": "u / (1 + fabs(u))",
    "thresholdedrelu": "u >= $a ? u : 0",
}  # fmt: skip
# F: gates, G: candidate, L: result. Gates are in ONNX's order i, o, f, c.
_LSTM = """\
for (long j = 0; j < $H; j++) {
  double* cell = &c[n * $H + j];
  double g[4];
  for (long q = 0; q < 4; q++) $product
  u = g[0] + $pi * *cell; $clip const double in = $F;
  u = g[2] + $pf * *cell; $clip const double keep = $input_forget ? 1 - in : $F;
  u = g[3]; $clip *cell = keep * *cell + in * ($G);
  u = g[1] + $po * *cell; $clip const double out = $F;
  u = *cell; next[j] = out * ($L);
}"""
# Gates are in ONNX's order z, r, h.
_GRU = """\
for (long j = 0; j < $H; j++) {
  double g[2];
  for (long q = 0; q < 2; q++) $product
  u = g[0]; $clip update[j] = $F;
  u = g[1]; $clip reset[j] = $F;
}
for (long j = 0; j < $H; j++) {
  double p = $bias;
  for (long k = 0; k < $H; k++) p += ($linear ? 1 : reset[k]) * h[n * $H + k] * $r_hidden;
  u = $x_hidden + ($linear ? reset[j] : 1) * p; $clip
  next[j] = (1 - update[j]) * ($G) + update[j] * h[n * $H + j];
}"""
_PRODUCT = "{ g[q] = $x; for (long k = 0; k < $H; k++) g[q] += h[n * $H + k] * $r; }"


def _print(code: NodeCode, text: str, gates: int, lengths: int, names: dict[str, str]) -> None:
    """Print the loop over steps and samples around a cell; steps beyond a length give zeros."""
    steps, batch, _ = code.shape(0)
    hidden, clip = code.shape(1)[1], float(code.attrs.get("clip") or math.inf)
    limited = f"u = ref_max({-clip!r}, ref_min({clip!r}, u));" if math.isfinite(clip) else ""
    for letter, (name, a, b) in zip("FGL", code.attrs["activations"]):
        names[letter] = "(" + Template(_FUNCTIONS[name.lower()]).substitute(a=a, b=b) + ")"
    x = f"(t * {batch} + n) * {gates * hidden} + {{}} * {hidden} + j"
    row = f"({{}} * {hidden} + j) * {hidden} + k"
    names |= {"clip": limited, "x": code.at(0, x.format("q")), "r": code.at(1, row.format("q"))}
    names |= {"x_hidden": code.at(0, x.format(2)), "r_hidden": code.at(1, row.format(2))}
    names |= {"H": str(hidden)}
    body = Template(text.replace("$product", _PRODUCT)).substitute(names)
    states = "hc" if gates == 4 else "h"
    for state in states:
        code.line(f"double {state}[{max(batch * hidden, 1)}];")
    code.line(
        f"double next[{max(hidden, 1)}], update[{max(hidden, 1)}], reset[{max(hidden, 1)}], u;"
    )
    with code.loop("i", batch * hidden):
        for index, state in enumerate(states, 2):
            code.line(f"{state}[i] = {code.or_zero(index, 'i')};")
    with code.loop("i", steps * batch * hidden):
        code.store("i", "0")
    with code.loop("s", steps), code.loop("n", batch):
        length = code.at(lengths, "n") if code.has(lengths) else str(steps)
        code.line(f"const long length = {length} < {steps} ? {length} : {steps};")
        code.line("if (s >= length) continue;")
        code.line(f"const long t = {'length - 1 - s' if code.attrs['reverse'] else 's'};")
        for each in body.splitlines():
            code.line(each)
        with code.loop("j", hidden):
            code.line(f"h[n * {hidden} + j] = next[j];")
            code.store(f"(t * {batch} + n) * {hidden} + j", "next[j]")
    for output, state in zip(range(1, len(code.node.outputs)), states):
        with code.loop("i", batch * hidden):
            code.store("i", f"{state}[i]", output)


@prints("lstm")
def lstm(code: NodeCode) -> None:
    hidden = code.shape(1)[1]
    names = {
        n: code.or_zero(4, f"{part * hidden} + j") for part, n in enumerate(("pi", "po", "pf"))
    }
    names["input_forget"] = str(int(code.attrs.get("input_forget") or 0))
    _print(code, _LSTM, 4, 5, names)


@prints("gru")
def gru(code: NodeCode) -> None:
    linear = str(int(code.attrs["linear_before_reset"]))
    _print(code, _GRU, 3, 4, {"bias": code.or_zero(3, "j"), "linear": linear})
