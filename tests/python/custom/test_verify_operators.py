"""``tvmrt verify`` compares the nodes of custom operators with their references."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from custom_case import EXAMPLES, branches, onnx_model
from onnx import helper, save

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
@pytest.mark.parametrize(("missing", "wrong"), [("0.0f", False), ("9.0f", True)])
def test_nodes_of_branches_and_functions_have_a_reference(tmp_path, missing, wrong):
    parts = branches({"Shift": "d", "Relu": ""}, helper.make_empty_tensor_value_info("z"))
    nodes = [
        helper.make_node("If", ["c"], ["h"], **parts),
        helper.make_node("Wrap", ["h"], ["y"], domain="f"),
    ]
    inputs = {"x": np.ones(4, np.float32), "c": np.array(True)}
    model = onnx_model(nodes, inputs, {"y": "f4"}, versions={"d": 1})
    inner, opsets = helper.make_node("Doubled", ["x"], ["z"], domain="d"), model.opset_import[1:2]
    model.functions.append(helper.make_function("f", "Wrap", ["x"], ["z"], [inner], opsets))
    save(model, tmp_path / "net.onnx")
    own = operators(tmp_path / "shifts.py", missing)
    done = verify("--json", tmp_path / "net.onnx", "--operators", own)
    assert done.returncode == wrong, done.stderr
    assert bool(json.loads(done.stdout)["wrong"]) is wrong
