"""``tvmrt verify`` with custom operators: compare bodies, and networks with references."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import pytest
from custom_case import EXAMPLES, example, onnx_model
from onnx import helper, save

from tvmrt.cli.operator_bodies import check_operator, make_cases
from tvmrt.custom import C, Kernel, Tensor

WRONG = '''
from tvmrt.custom import C, Kernel, Tensor

BODY = """
static int32_t f(const float *x, const tvmrt_shape *s, float *y, const tvmrt_shape *t) {
  (void)t;
  for (int64_t i = 0; i < s->size; ++i) y[i] = x[i] + (i == s->size - 1);
  return 0;
}
"""
almost = Kernel(
    "Almost", "d", inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")],
    reference=lambda x: x, c=C(BODY, "f"),
)
'''


def verify(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tvmrt", "verify", "--json", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


C_BODIES = {"direct_conv": {"c"}, "detection": {"c NCHW", "c NHWC"}}


@pytest.mark.parametrize("name", sorted(C_BODIES))
def test_bodies_of_the_examples_agree_with_their_references(name):
    rows = check_operator(getattr(example(name), name), cases=2)
    compared = [row for row in rows if not row.skipped]
    assert {row.body for row in compared} >= C_BODIES[name]
    for row in compared:
        assert row.problem == ""
        np.testing.assert_allclose(row.found, row.right, 1e-4, 1e-5)


def test_random_operands_cover_every_element_type():
    cases = make_cases(example("hard_swish").hard_swish, cases=2)
    assert [c.arrays[0].dtype.name for c in cases] == ["float32"] * 2 + ["bfloat16"] * 2 + [
        "uint8"
    ] * 2
    assert len({c.arrays[0].shape for c in cases}) > 1


def test_command_says_which_body_is_wrong(tmp_path):
    (tmp_path / "almost.py").write_text(WRONG)
    done = verify(tmp_path / "almost.py")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert report["wrong"] == len(report["bodies"]) > 0
    assert {(b["operator"], b["body"], b["judge"]) for b in report["bodies"]} == {
        ("d::Almost", "c", "reference")
    }


def test_verify_uses_references_of_custom_operators(tmp_path):
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((1, 3, 6, 6), (4, 3, 3, 3)))
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node(
            "HardSwish", ["c"], ["h"], "act", domain="example.swish", scale=0.5, out_zp=1.0
        ),
        helper.make_node("Relu", ["h"], ["y"], "relu"),
    ]
    model = onnx_model(nodes, {"x": x}, {"y": "f4"}, {"w": w})
    save(model, tmp_path / "net.onnx")
    done = verify(tmp_path / "net.onnx", "--operators", EXAMPLES / "hard_swish.py")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["wrong"] == 0
    assert "operators' own" in report["judge"]
    nodes = {row["tensor"] for row in report["tensors"] if row["part"] == "every node"}
    assert nodes == {"c", "h", "y"}


@pytest.mark.parametrize(
    "found", [3, ([[1.0, 2.0]], {}), ([np.ones(3)], 1)], ids=["number", "lists", "no-scalars"]
)
def test_invalid_sample_is_refused(found):
    same = Kernel(
        "Same", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")],
        reference=lambda x: x, sample=lambda rng: found,
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"d::Same: sample: .* is not a list of arrays with"):
        check_operator(same)


def test_file_without_operators_is_an_error_with_its_name(tmp_path):
    (tmp_path / "empty.py").write_text("")
    done = verify(tmp_path / "empty.py")
    assert done.returncode == 2
    assert "empty.py declares no operator at its top level" in done.stderr


def test_body_that_does_not_compile_is_reported_with_the_users_line():
    broken = Kernel(
        "Broken", "d",
        inputs=[Tensor("x", "float32")], outputs=[Tensor("y", "float32")],
        reference=lambda x: x, c=C("\n\nstatic int32_t f(oops x) { return 0; }\n", "f"),
    )  # fmt: skip
    (row,) = check_operator(broken, cases=1)
    assert "d::Broken:3:" in row.problem


def test_element_wise_bodies_are_checked_in_other_orders_of_axes():
    copies = Kernel(
        "Copy", "d",
        inputs=[Tensor("x", "float32", "any")], outputs=[Tensor("y", "float32", "any")],
        reference=lambda x: x, c=C(WRONG.split('"""')[1].replace("(i == s->size - 1)", "0"), "f"),
        sample=lambda rng: ([rng.random((1, 3, 2, 2), np.float32)], {}),
    )  # fmt: skip
    rows = check_operator(copies, cases=1)
    assert [row.body for row in rows] == ["c", "c NHWC"]
    for row in rows:
        np.testing.assert_array_equal(row.found, row.right)


OPTIONAL = """
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
    reference=lambda x, b: x if b is None else x + b.reshape(x.shape),
    sample=SAMPLE,
)


@composed("Doubled", "d")
def doubled(g, x, b=None):
    return g.Mul(g.add(shift, x, b), 2.0)
"""


def optional_operators(path, missing: str, sample: str = "None"):
    path.write_text(OPTIONAL.replace("MISSING", missing).replace("SAMPLE", sample))
    return path


def test_optional_operands_are_omitted_too(tmp_path):
    done = verify(optional_operators(tmp_path / "wrong_without.py", "9.0f"))
    bodies = json.loads(done.stdout)["bodies"]
    assert done.returncode == 1
    assert {"none" in b["operands"] for b in bodies} == {True, False}
    assert all(b["right"] == ("none" not in b["operands"]) for b in bodies)


def test_composed_operators_of_a_file_are_named():
    command = [sys.executable, "-m", "tvmrt", "verify", str(EXAMPLES / "rnn_cell.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "::Rnn: composed operators have one body; nothing to compare" in done.stdout


def test_wrong_shape_function_is_reported_with_the_operator(tmp_path):
    path = tmp_path / "lies.py"
    optional_operators(path, "0.0f", "lambda rng: ([rng.random(4, 'float32'), None], {})")
    path.write_text(path.read_text().replace("sample=", "shape=lambda x, b: (5,), sample="))
    done = verify(path)
    assert done.returncode == 2
    assert "operator d::Shift: shape: the function returns [5] for output y, the ref" in done.stderr


def branches(node) -> onnx.ModelProto:
    """Return a network that has the node in one of two branches."""

    def branch(inner):
        return helper.make_graph([inner], "b", [], [helper.make_empty_tensor_value_info("z")])

    other = branch(helper.make_node("Relu", ["x"], ["z"]))
    chosen = helper.make_node("If", ["c"], ["y"], then_branch=branch(node), else_branch=other)
    x = {"x": np.ones(4, np.float32), "c": np.array(True)}
    return onnx_model([chosen], x, {"y": "f4"}, versions={"d": 1})


def function(node) -> onnx.ModelProto:
    """Return a network that has the node in a model function."""
    x = {"x": np.ones(4, np.float32)}
    call = helper.make_node("Wrap", ["x"], ["y"], domain="f")
    model = onnx_model([call], x, {"y": "f4"}, versions={"d": 1})
    opsets = [helper.make_opsetid("d", 1)]
    model.functions.append(helper.make_function("f", "Wrap", ["x"], ["z"], [node], opsets))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("op", ["Shift", "Doubled"])
@pytest.mark.parametrize("make", [branches, function])
def test_nodes_of_branches_and_functions_have_a_reference(tmp_path, make, op):
    save(make(helper.make_node(op, ["x", ""], ["z"], domain="d")), tmp_path / "net.onnx")
    own = optional_operators(tmp_path / "shifts.py", "0.0f")
    done = verify(tmp_path / "net.onnx", "--operators", own)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["wrong"] == 0
