"""External tensors anywhere in a network are read from its folder, or refused by name."""

from __future__ import annotations

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model

X = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])
Y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
ADD = helper.make_node("Add", ["x", "w"], ["y"])


def external(name: str, location: str = "w.bin", dtype=TensorProto.FLOAT, **keys) -> TensorProto:
    tensor = TensorProto(name=name, dims=[4], data_type=dtype, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **keys}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def network(nodes, *, initializer=(), sparse=(), functions=()) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes, "net", [X], [Y], list(initializer), sparse_initializer=list(sparse)
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, functions=list(functions), opset_imports=opsets, ir_version=9)


def sparse(values=None, indices=(0, 1, 2, 3), dims=(4,)) -> onnx.SparseTensorProto:
    if values is None:
        count = 4 if isinstance(indices, TensorProto) else len(indices)
        values = numpy_helper.from_array(np.arange(1, count + 1, dtype=np.float32), "w")
    if not isinstance(indices, TensorProto):
        indices = numpy_helper.from_array(np.array(indices, np.int64), "i")
    return onnx.SparseTensorProto(values=values, indices=indices, dims=dims)


def constant(**attribute) -> onnx.NodeProto:
    node = helper.make_node("Constant", [], ["w"])
    (name, value) = next(iter(attribute.items()))
    kind = onnx.AttributeProto.TENSOR if name == "value" else onnx.AttributeProto.SPARSE_TENSOR
    made = node.attribute.add(name=name, type=kind)
    (made.t if name == "value" else made.sparse_tensor).CopyFrom(value)
    return node


def function(*nodes: onnx.NodeProto) -> onnx.FunctionProto:
    return helper.make_function("f", "Fn", ["x"], ["y"], list(nodes), [helper.make_opsetid("", 17)])


def branches() -> list[onnx.NodeProto]:
    arms = [
        _renamed(helper.make_graph([constant(value=external("w")), ADD], "arm", [], [Y]))
        for _ in range(2)
    ]
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", 9, [], [1]))
    return [
        condition,
        helper.make_node("If", ["c"], ["z"], then_branch=arms[0], else_branch=arms[1]),
        helper.make_node("Identity", ["z"], ["y"]),
    ]


def _renamed(graph: onnx.GraphProto) -> onnx.GraphProto:
    """Return the graph with a result name that differs from the network's."""
    graph.node[-1].output[0] = "r"
    graph.output[0].name = "r"
    return graph


CALL = helper.make_node("Fn", ["x"], ["y"], domain="f")
PLACES = {
    "weights": network([ADD], initializer=[external("w")]),
    "sparse weights": network([ADD], sparse=[sparse(external("w"))]),
    "indices of sparse weights": network(
        [ADD], sparse=[sparse(indices=external("i", "i.bin", TensorProto.INT64))]
    ),
    "a constant": network([constant(value=external("w")), ADD]),
    "a sparse constant": network([constant(sparse_value=sparse(external("w"))), ADD]),
    "a constant of a function": network(
        [CALL], functions=[function(constant(value=external("w")), ADD)]
    ),
    "constants of branches": network(branches()),
}


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Return the network's folder; the current folder has files of equal names."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    for folder, factor in ((inner, 1), (outer, 11)):
        folder.mkdir()
        (np.array([1, 2, 3, 4], np.float32) * factor).tofile(folder / "w.bin")
        np.array([0, 1, 2, 3], np.int64).tofile(folder / "i.bin")
    monkeypatch.chdir(outer)
    return inner


def save(model: onnx.ModelProto, folder):
    path = folder / "net.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("place", PLACES)
def test_data_is_read_from_the_folder_of_the_network(folders, place):
    graph = import_model(save(PLACES[place], folders))
    values = [v.data for v in graph.constants() if v.shape == (4,)]
    np.testing.assert_array_equal(values[0], [1, 2, 3, 4])


@pytest.mark.parametrize("place", PLACES)
def test_missing_data_is_named(folders, place):
    path = save(PLACES[place], folders)
    for file in folders.glob("*.bin"):
        file.unlink()
    with pytest.raises(
        FileNotFoundError, match=r"the external data file \w\.bin of weights \w+ is missing"
    ):
        import_model(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("offset", "abc"), ("offset", "-4"), ("length", "1e3"), ("length", ""), ("offset", "9" * 30)],
)
def test_invalid_offset_is_refused(folders, key, value):
    path = save(network([ADD], initializer=[external("w", **{key: value})]), folders)
    with pytest.raises(ValueError, match=f"weights of w: the {key} .* is not a number of bytes"):
        import_model(path)


@pytest.mark.parametrize("location", ["w\0bin", ""])
def test_invalid_location_is_refused(folders, location):
    path = save(network([ADD], initializer=[external("w", location)]), folders)
    with pytest.raises(ValueError, match=r"weights of w .* is not a file name"):
        import_model(path)


def test_sparse_data_outside_of_the_folder_is_refused(folders):
    path = save(network([ADD], sparse=[sparse(external("w", "../outer/w.bin"))]), folders)
    with pytest.raises(ValueError, match="are outside the model's folder"):
        import_model(path)


def hub(folder, model: onnx.ModelProto, data: str = "blobs/2"):
    """Save a network as caches of model hubs do: model and data are links to a folder of blobs."""
    (folder / "blobs" / "more").mkdir(parents=True)
    (folder / "snapshots" / "main" / "onnx").mkdir(parents=True)
    (folder / "blobs" / "1").write_bytes(model.SerializeToString())
    np.array([1, 2, 3, 4], np.float32).tofile(folder / data)
    path = folder / "snapshots" / "main" / "onnx" / "net.onnx"
    path.symlink_to("../../../blobs/1")
    path.with_name("w.bin").symlink_to(f"../../../{data}")
    return path


@pytest.mark.parametrize("data", ["blobs/2", "blobs/more/2", "snapshots/main/onnx/data"])
def test_links_of_hub_caches_are_followed(tmp_path, data):
    path = hub(tmp_path, network([ADD], initializer=[external("w")]), data)
    found = tvmrt.load(path, cache=False)(np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, [1, 2, 3, 4])


def test_linked_folder_of_a_network_is_read(folders):
    save(PLACES["weights"], folders)
    (folders.parent / "link").symlink_to("inner")
    found = tvmrt.load(folders.parent / "link" / "net.onnx", cache=False)(np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, [1, 2, 3, 4])


def test_hard_links_are_read(folders):
    os.link(folders / "w.bin", folders / "v.bin")
    path = save(network([ADD], initializer=[external("w", "v.bin")]), folders)
    found = tvmrt.load(path, cache=False)(np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, [1, 2, 3, 4])


@pytest.mark.parametrize("data", ["2", "snapshots/2", "snapshots/main/2"])
def test_links_to_other_folders_are_refused(tmp_path, data):
    path = hub(tmp_path, network([ADD], initializer=[external("w")]), data)
    with pytest.raises(ValueError, match="are outside the model's folder"):
        import_model(path)


def test_absolute_paths_are_refused(folders):
    location = str(folders.resolve() / "w.bin")
    path = save(network([ADD], initializer=[external("w", location)]), folders)
    with pytest.raises(ValueError, match="are outside the model's folder"):
        import_model(path)


def test_entries_of_external_data_in_the_file_name_no_other_weights(tmp_path):
    """A file cannot refer to the data of other weights, which the importer keeps outside."""
    large = numpy_helper.from_array(np.ones(1 << 16, np.float32), "large")
    forged = numpy_helper.from_array(np.array([1, 2, 3, 4], np.float32), "w")
    forged.external_data.add(key="tvmrt", value="initializer 1")
    path = save(network([ADD], initializer=[forged, large]), tmp_path)
    found = tvmrt.load(path, cache=False)(np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, [1, 2, 3, 4])


def test_model_without_a_file_has_no_folder_to_read_from(folders):
    with pytest.raises(ValueError, match="a model in memory has no folder"):
        tvmrt.compile(PLACES["weights"])


SPARSE = {
    "an index outside": (sparse(indices=(1, 5)), r"an index lies outside shape \[4\]"),
    "a negative index": (sparse(indices=(-1, 2)), r"an index lies outside shape \[4\]"),
    "an index twice": (sparse(indices=(1, 1)), "indices must be strictly increasing"),
    "more indices than values": (
        sparse(numpy_helper.from_array(np.ones(1, np.float32), "w"), (1, 2)),
        "do not place values",
    ),
    "a shape of billions": (sparse(indices=(0, 1), dims=(2**40,)), "the maximum is"),
    "an extent of nothing": (sparse(indices=(0, 1), dims=(0,)), "has an extent below 1"),
}


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_weights_that_contradict_themselves_are_refused(name):
    tensor, sentence = SPARSE[name]
    with pytest.raises(ValueError, match=f"sparse weights w.* {sentence}"):
        import_model(network([ADD], sparse=[tensor]))


def test_graphs_nested_too_deep_are_named(tmp_path):
    data = b""
    for _ in range(200):  # AttributeProto.g, GraphProto.node and NodeProto.attribute with lengths
        for tag in (0x32, 0x2A, 0x0A):
            data = bytes([tag]) + _varint(len(data)) + data
    path = tmp_path / "deep.onnx"
    path.write_bytes(b"\x08\x09\x3a" + _varint(len(data)) + data)
    with pytest.raises(ValueError, match=r"deep\.onnx nests graphs deeper than protobuf reads"):
        import_model(path)


def _varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])
