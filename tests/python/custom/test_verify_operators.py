"""``tvmrt verify`` with custom operators: bodies and networks are compared with references."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from custom_case import EXAMPLES, example, kernel, onnx_model
from onnx import helper, save

from tvmrt.cli.operator_bodies import check_operator
from tvmrt.custom import C

# y = x + b; without b, y = x + MISSING.
SHIFT = """
from tvmrt.custom import C, Kernel, Tensor, composed

BODY = '''
static int32_t f(const float *x, const tvmrt_shape *s, const float *b, const tvmrt_shape *bs,
                 float *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = x[i] + (b != NULL ? b[i % bs->size] : MISSING);
  return 0;
}
'''
shift = Kernel(
    "Shift", "d", inputs=[Tensor("x", "float32", "any"), Tensor("b", "float32", "any", True)],
    outputs=[Tensor("y", "float32", "any")], c=C(BODY, "f"),
    reference=lambda x, b: x if b is None else x + b,
)


@composed("Doubled", "d")
def doubled(g, x, b=None):
    return g.Mul(g.add(shift, x, b), 2.0)
"""


def operators(path, missing: str):
    path.write_text(SHIFT.replace("MISSING", missing))
    return path


def verify(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tvmrt", "verify", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


BODIES = {
    "direct_conv": {("c", "float32")},
    "detection": {("c NCHW", "float32"), ("c NHWC", "float32")},
    "hard_swish": {
        (body, dtype) for body in ("c", "c NHWC") for dtype in ("float32", "bfloat16", "uint8")
    },
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_of_the_examples_agree_with_their_references(name):
    """In every layout and for every element type."""
    rows = [row for row in check_operator(getattr(example(name), name)) if not row.skipped]
    assert {(row.body, row.case.split("[")[0]) for row in rows} >= BODIES[name]
    for row in rows:
        assert row.problem == ""
        right, found = (a.astype(np.float64) for a in (row.right, row.found))
        np.testing.assert_allclose(found, right, 1e-2, 1e-4 + (row.right.dtype == np.uint8))


def test_command_says_which_body_is_wrong(tmp_path):
    """The body is wrong where the optional operand is left out."""
    done = verify("--json", operators(tmp_path / "shifts.py", "9.0f"))
    report = json.loads(done.stdout)
    assert done.returncode == 1
    wrong = [row for row in report["tensors"] if not row["right"]]
    assert 0 < report["wrong"] == len(wrong) < len(report["tensors"])
    assert {(row["part"], row["tensor"]) for row in wrong} == {("c", "y"), ("c NHWC", "y")}
    assert all(row["made_by"].startswith("d::Shift (") for row in report["tensors"])
    assert all(row["right"] == ("none" not in row["made_by"]) for row in report["tensors"])


def test_composed_operators_of_a_file_are_named():
    done = verify(EXAMPLES / "rnn_cell.py")
    assert done.returncode == 0, done.stderr
    assert "::Rnn: composed operators have one body; nothing to compare" in done.stderr


def copying(**changes):
    return kernel(**{"reference": lambda x: x, **changes})


REFUSED = {
    "no reference": (copying(reference=None), "d::Op has no reference; declare one to verify it"),
    "number": (copying(sample=lambda rng: 3), "d::Op: sample: 3 is not a list of arrays with"),
    "lists": (copying(sample=lambda rng: ([[1.0]], {})), "is not a list of arrays with"),
    "no scalars": (copying(sample=lambda rng: ([np.ones(3)], 1)), "is not a list of arrays with"),
    "shape": (copying(shape=lambda x: (3, 5)), "random operands do not fit.*declare sample"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_operator_that_cannot_be_checked(case):
    operator, sentence = REFUSED[case]
    with pytest.raises(ValueError, match=sentence):
        check_operator(operator)


def test_body_that_does_not_compile_is_reported_with_the_users_line():
    broken = copying(c=C("\n\nstatic int32_t f(oops x) { return 0; }\n", "f"))
    row, *_ = check_operator(broken)
    assert "d::Op:3:" in row.problem


def test_networks_are_compared_with_the_references_of_their_operators(tmp_path):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 6, 6), (4, 3, 3, 3)))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("HardSwish", ["c"], ["h"], domain="example.swish", scale=0.5),
        helper.make_node("Relu", ["h"], ["y"], "relu"),
    ]
    save(onnx_model(nodes, {"x": x}, {"y": "f4"}, {"w": w}), tmp_path / "net.onnx")
    done = verify("--json", tmp_path / "net.onnx", "--operators", EXAMPLES / "hard_swish.py")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == 0
    assert "operators' own" in report["judge"]
    nodes = {row["tensor"] for row in report["tensors"] if row["part"] == "every node"}
    assert nodes == {"c", "h", "y"}


@pytest.mark.slow
def test_nodes_of_branches_and_functions_have_a_reference(tmp_path):
    ends = [helper.make_empty_tensor_value_info("z")]
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], ["z"], domain=domain)], "b", [], ends)
        for op, domain in (("Shift", "d"), ("Relu", ""))
    ]
    nodes = [
        helper.make_node("If", ["c"], ["h"], then_branch=branches[0], else_branch=branches[1]),
        helper.make_node("Wrap", ["h"], ["y"], domain="f"),
    ]
    inputs = {"x": np.ones(4, np.float32), "c": np.array(True)}
    model = onnx_model(nodes, inputs, {"y": "f4"}, versions={"d": 1})
    inner, opsets = helper.make_node("Doubled", ["x"], ["z"], domain="d"), model.opset_import[1:2]
    model.functions.append(helper.make_function("f", "Wrap", ["x"], ["z"], [inner], opsets))
    save(model, tmp_path / "net.onnx")
    own = operators(tmp_path / "shifts.py", "0.0f")
    done = verify("--json", tmp_path / "net.onnx", "--operators", own)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["wrong"] == 0
