"""Results of functions, branches, loops and scans have the types that their nodes gave them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import tvmrt

HEAD = '<ir_version: 10, opset_import: ["" : 21, "own" : 1]>'
HALF = np.array([1.001, 2, 3], np.float16)

# A body reads float16 and returns float32, whose digits a float16 does not have.
WIDENING = "w = Cast<to=1>(a) k = Constant<value_float=0.33337>() b = Mul(w, k)"
BODIES = {
    "function": "t = own.F(x)",
    "branch": """c = Constant<value=bool {1}>() g = Size(x) h = Cast<to=9>(g)
        t = If(h) <then_branch = b1 () => (float[3] b) { a = Identity(x) %(body)s },
                   else_branch = b2 () => (float[3] b) { a = Neg(x) %(body)s }>""",
    "loop": """n = Constant<value_int=2>() c = Constant<value=bool {1}>()
        z = Constant<value_floats=[0.0, 0.0, 0.0]>()
        u, t = Loop(n, c, x, z) <body = b (int64 i, bool d, float16[3] a, float[3] q)
               => (bool e, float16[3] r, float[3] b)
               { e = Identity(d) r = Identity(a) %(body)s }>""",
    "scan": """t = Scan<num_scan_inputs=1>(x) <body = s (float16 a) => (float b) { %(body)s }>""",
}


def _model(text: str) -> onnx.ModelProto:
    function = f'<domain: "own", opset_import: ["" : 21]> F (a) => (b) {{ {WIDENING} }}'
    return parser.parse_model(f"{HEAD} {text} {function if 'own.F' in text else ''}")


def _both(model: onnx.ModelProto, *inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [each.name for each in model.graph.input]
    (want,) = session.run(None, dict(zip(names, inputs)))
    return tvmrt.load(model, cache=False)(*inputs), want


@pytest.mark.everyday(1)
@pytest.mark.parametrize("body", BODIES)
def test_float32_results_of_a_body_are_not_rounded_to_float16(body):
    nodes = BODIES[body] % {"body": WIDENING} if body != "function" else BODIES[body]
    nodes = nodes.replace("Scan<num_scan_inputs=1>(x) <body", "Scan(x) <num_scan_inputs=1, body")
    model = _model(f"g (float16[3] x) => (float[3] y) {{ {nodes} y = Mul(t, t) }}")
    got, want = _both(model, HALF)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.dtype == want.dtype


@pytest.mark.parametrize(
    "trips", ["n = Constant<value_int=2>()", "n = Size(z)", "n = Cast<to=7>(m)"]
)
def test_float16_of_loops_stays_float16(trips):
    """Each step rounds, in the loop and after it."""
    model = _model(
        f"""g (float16[3] x, float[2] z, int32 m) => (float16[3] y) {{ {trips}
        c = Constant<value=bool {{1}}>()
        h = Loop(n, c, x) <body = b (int64 i, bool d, float16[3] p) => (bool e, float16[3] r)
                          {{ e = Identity(d) r = Mul(p, p) }}>
        u = Mul(h, h) y = Div(u, x) }}"""
    )
    got, want = _both(model, HALF, np.zeros(2, np.float32), np.array(2, np.int32))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name, code", [("int4", 3), ("uint4", 2)])
def test_functions_widen_packed_integers(name, code):
    kind = "int8" if name == "int4" else "uint8"
    model = parser.parse_model(
        f"""{HEAD} g ({kind}[3] x) => ({kind}[3] y) {{
            p = Cast<to={22 if name == "int4" else 21}>(x) t = own.F(p) y = Add(t, t) }}
        <domain: "own", opset_import: ["" : 21]> F (a) => (b) {{ b = Cast<to={code}>(a) }}"""
    )
    x = np.array([1, 7, 6], kind)
    np.testing.assert_array_equal(tvmrt.load(model, cache=False)(x), x + x)


def test_a_branch_selects_float8():
    model = parser.parse_model(
        f"""{HEAD} g (float[3] x, bool c) => (float[3] y) {{
            t = If(c) <then_branch = b1 () => (float8e4m3fn[3] a) {{ a = Cast<to=17>(x) }},
                       else_branch = b2 () => (float8e4m3fn[3] b)
                                     {{ n = Neg(x) b = Cast<to=17>(n) }}>
            y = Cast<to=1>(t) }}"""
    )
    net, x = tvmrt.load(model, cache=False), np.array([1, 0.5, -448], np.float32)
    for condition in (True, False):
        want = x if condition else -x
        np.testing.assert_array_equal(net(x, np.array(condition)), want)
