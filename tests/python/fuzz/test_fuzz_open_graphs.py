"""Random networks with open axes: reproducible, with invalid sizes, and errors that are found."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fuzz"))

import open_generator
import open_graphs
from findings import Findings

SEEDS = range(5)


def test_a_seed_gives_one_network_with_six_sizes():
    for seed in SEEDS:
        (first, runs), (again, _) = (open_generator.grown(seed) for _ in range(2))
        assert first == again
        assert len(runs) == 6
        assert any(dim.dim_param for value in first.graph.input
                   for dim in value.type.tensor_type.shape.dim)  # fmt: skip


def _model(body: str, inputs: str = "float[N] x", outputs: str = "float[K] y") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )


def _runs(*sizes: int) -> open_graphs.Runs:
    return [({"N": n}, {"x": np.arange(n, dtype=np.float32)}) for n in sizes]


class _Doubling:
    """Network that doubles its input, whatever its file says."""

    def __call__(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": feeds["x"] * 2}


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("y = Add(x, x)", ["right", "right"]),
        ("y = Identity(x)", ["wrong", "wrong"]),
        ("k = Constant<value_ints = [5]>() t, i = TopK(x, k) y = Add(t, t)", ["wrong", "wrong"]),
        ("s = Constant<value_ints = [4, -1]>() r = Reshape(x, s) f = Constant<value_ints = [-1]>()"
         " t = Reshape(r, f) y = Add(t, t)", ["wrong", "right"]),
    ],
    ids=["right", "wrong", "invalid-and-wrong", "invalid"],
)  # fmt: skip
def test_results_of_a_network(body, kinds, monkeypatch):
    monkeypatch.setattr(open_graphs.tvmrt, "load", lambda *_, **__: _Doubling())
    found = [kind for kind, _ in open_graphs.judged(_model(body), _runs(3, 8))]
    assert found == kinds


# Shapes of x with N = 0 rows, which the standard refuses: what tvmrt gives is judged by the 0 that
# it keeps, or undetermined.
EMPTY = {
    "to [8, N]": ("e = Constant<value_ints = [8]>() t = Concat<axis = 0>(e, s)", "skipped"),
    "to [N, 8]": ("e = Constant<value_ints = [8]>() t = Concat<axis = 0>(s, e)", "wrong"),
    "to [8, -1, N]": ("e = Constant<value_ints = [8, -1]>() t = Concat<axis = 0>(e, s)", "skipped"),
}  # fmt: skip


@pytest.mark.parametrize("case", EMPTY)
def test_shapes_with_zeros_that_the_standard_refuses(case, monkeypatch):
    body, kind = EMPTY[case]
    monkeypatch.setattr(open_graphs.tvmrt, "load", lambda *_, **__: _Empty())
    model = _model(
        f"s = Shape<end = 1>(x) {body} y = Reshape(x, t)", "float[N,2] x", "float[A,B] y"
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    for node in model.graph.node:
        node.name = node.output[0]
    runs = [({"N": 0}, {"x": np.zeros((0, 2), np.float32)})]
    ((found, text),) = open_graphs.judged(model, runs)
    assert found == kind and text


class _Empty:
    """Network that returns an empty tensor of 8 rows."""

    def __call__(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": np.zeros((8, 0), np.float32)}


def test_an_error_where_onnxruntime_runs_is_refused(monkeypatch):
    def load(*_: object, **__: object) -> None:
        raise ValueError("it is not supported")

    monkeypatch.setattr(open_graphs.tvmrt, "load", load)
    (first, second) = open_graphs.judged(_model("y = Add(x, x)"), _runs(3, 8))
    assert first[0] == second[0] == "refused"
    assert "ValueError: it is not supported" in first[1]


class _Refusing:
    def __call__(self, feeds: dict[str, np.ndarray]) -> None:
        raise ValueError("parts differ")


@pytest.mark.parametrize(("columns", "kind"), [(3, "skipped"), (2, "refused")])
def test_onnxruntime_concatenates_what_inference_refuses(columns, kind, monkeypatch):
    monkeypatch.setattr(open_graphs.tvmrt, "load", lambda *_, **__: _Refusing())
    inputs = "float[N,C] x, float[M,D] z"
    model = _model("y = Concat<axis = 0>(x, z)", inputs, "float[A,B] y")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    feeds = {"x": np.zeros((4, 2), np.float32), "z": np.zeros((0, columns), np.float32)}
    ((found, _),) = open_graphs.judged(model, [({}, feeds)])
    assert found == kind


def test_totals_name_causes_and_first_seeds(tmp_path, capsys):
    totals = open_graphs.Totals(Findings(tmp_path, "open_graphs.py"))
    data, runs = _model("y = Add(x, x)").SerializeToString(), _runs(3)
    for seed, kind in enumerate(["right", "refused", "wrong", "wrong"]):
        totals.add(seed, (data, runs, [(kind, "" if kind == "right" else f"at {{}}: {kind} 1")]))
    lines = totals.lines()
    assert lines[-1] == "4 graphs: 1 right, 1 refused, 2 wrong"
    assert "2 times, first seed 2: wrong: wrong _" in lines
    assert "--first 2 --count 1" in capsys.readouterr().out
    assert len(list(tmp_path.glob("wrong-*.onnx"))) == 2


@pytest.mark.slow
def test_five_seeds_run():
    for seed in SEEDS:
        found = open_graphs.in_child(open_graphs.made_and_judged, seed)
        assert not isinstance(found, str), found
        assert len(found[2]) == 6
