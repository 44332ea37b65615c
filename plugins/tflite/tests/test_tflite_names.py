"""Test input names: those of the signature, and those used by LiteRT's interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from tflite_case import Net

import tvmrt
from tvmrt.plugins.tflite import litert
from tvmrt.plugins.tflite.frontend import import_model

pytest.importorskip("ai_edge_litert")

A, B = np.full((1, 4), 3, np.float32), np.full((1, 4), 1, np.float32)


def network(*own: str, signature: tuple[str, ...] = ("first", "second")) -> bytes:
    """Compute first - second; the tensors have other names than the signature."""
    net = Net()
    inputs = [net.input((1, 4), "float32", name=name) for name in own]
    for index, name in zip(inputs, own):
        net.graph.tensors[index].name = name
    y = net.output((1, 4), "float32")
    net.op("SUB", inputs, [y], 1, "SubOptions")
    if signature:
        found = net.schema.SignatureDefT()
        found.signatureKey = b"serving_default"
        found.inputs, found.outputs = [], []
        for index, name in zip(inputs, signature):
            entry = net.schema.TensorMapT()
            entry.name, entry.tensorIndex = name.encode(), index
            found.inputs.append(entry)
        net.model.signatureDefs = [found]
    return net.data()


def by_interpreter(data: bytes) -> list[str]:
    """Return the input names of LiteRT's interpreter."""
    one = litert.interpreter(data, litert.REFERENCE)
    return [detail["name"] for detail in one.get_input_details()]


@pytest.mark.parametrize(
    "own", [("serving_default_a:0", "serving_default_b:0"), ("x", ""), ("second", "b")]
)
def test_inputs_go_by_the_names_of_tensors_too(own):
    data = network(*own)
    assert tuple(by_interpreter(data)) == own
    network_of = tvmrt.load(data, cache=False)
    assert [each.name for each in network_of.inputs] == ["first", "second"]
    names = [
        name if name != "second" else "first" for name in own
    ]  # a signature's name has priority
    assert network_of(**dict(zip(names, (A, B)))).tolist() == [[2.0] * 4]
    assert network_of({"first": A, names[1]: B})["t2"].tolist() == [[2.0] * 4]
    with pytest.raises(TypeError, match="given twice"):
        network_of({"first": A, "second": B, names[1]: B})


def test_cached_network_keeps_its_names(tmp_path):
    data = network("a:0", "b:0")
    for _ in range(2):
        found = tvmrt.load(data, cache=tmp_path)
        assert found(**{"b:0": B, "a:0": A}).tolist() == [[2.0] * 4]


def test_shapes_and_files_of_inputs_take_them(tmp_path):
    data = network("a:0", "b:0")
    graph = import_model(data, shapes={"a:0": (3, 4), "second": (3, 4)})
    assert [(v.name, v.shape) for v in graph.inputs] == [("first", (3, 4)), ("second", (3, 4))]
    with pytest.raises(KeyError, match="first is given twice"):
        import_model(data, shapes={"a:0": (3, 4), "first": (3, 4)})
    path, inputs = tmp_path / "net.tflite", tmp_path / "in.npz"
    path.write_bytes(data)
    np.savez(inputs, **{"a:0": A, "b:0": B})
    choices = {"signature": None, "dims": None, "shapes": None}
    found = litert.inputs_of(path, choices, inputs)
    assert found["first"].tolist() == A.tolist() and set(found) == {"first", "second"}


def test_a_name_of_two_tensors_is_none():
    found = tvmrt.load(network("same", "same"), cache=False)
    with pytest.raises(KeyError, match="no input 'same'; its inputs are first, second"):
        found(same=A, second=B)


def test_an_empty_name_without_a_signature():
    found = tvmrt.load(network("", "b", signature=()), cache=False)
    assert [each.name for each in found.inputs] == ["tensor_0", "b"]
    assert found({"": A, "b": B})["t2"].tolist() == [[2.0] * 4]
