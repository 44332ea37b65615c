"""Large weights that are read without protobuf and stored in temporary memory-mapped files."""

from __future__ import annotations

import io
import tempfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.frontend.onnx.external_data import read_without_weights
from tvmrt.compiler.ir import mmap_constants

ROWS, COLUMNS = 160, 128  # 80 KiB of float32


def large(dtype) -> np.ndarray:
    numbers = np.random.default_rng(3).normal(0, 40, (ROWS, COLUMNS))
    return numbers.astype(dtype)


def model(weights: onnx.TensorProto) -> onnx.ModelProto:
    """Return a model with the given weights, and the first elements of a small constant."""
    small = numpy_helper.from_array(np.arange(4, dtype=np.float32), "small")
    pairs = [("w", "y"), ("small", "z")]
    nodes = [helper.make_node("Identity", [given], [made]) for given, made in pairs]
    graph = helper.make_graph(
        nodes,
        "net",
        [],
        [
            helper.make_tensor_value_info("y", weights.data_type, list(weights.dims)),
            helper.make_tensor_value_info("z", TensorProto.FLOAT, [4]),
        ],
        [small, weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def outputs(path) -> list[np.ndarray]:
    """Return the constants of the graph's outputs."""
    graph = import_model(path)
    return [(v if v.data is not None else v.producer.inputs[0]).data for v in graph.outputs]


def is_memory_mapped(array: np.ndarray) -> bool:
    while isinstance(array, np.ndarray):
        array = array.base
    return array is not None and not isinstance(array, bytes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.bool_, np.uint16])
def test_large_weights_equal_the_file(tmp_path, dtype):
    array = np.tile(large(dtype), (4, 1))
    onnx.save(model(numpy_helper.from_array(array, "w")), tmp_path / "net.onnx")
    found, small = outputs(tmp_path / "net.onnx")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    np.testing.assert_array_equal(small, [0, 1, 2, 3])
    assert is_memory_mapped(found)


def test_external_weights_are_read_lazily(tmp_path):
    array = large(np.float32)
    onnx.save(
        model(numpy_helper.from_array(array, "w")), tmp_path / "net.onnx",
        save_as_external_data=True, location="net.data", size_threshold=1024,
    )  # fmt: skip
    found, _ = outputs(tmp_path / "net.onnx")
    (tmp_path / "net.data").write_bytes(b"")  # data is read only once
    np.testing.assert_array_equal(found, array)
    assert is_memory_mapped(found)


def test_rewritten_file_does_not_change_the_network(tmp_path):
    array = large(np.float32)
    onnx.save(model(numpy_helper.from_array(array, "w")), tmp_path / "net.onnx")
    found, _ = outputs(tmp_path / "net.onnx")
    (tmp_path / "net.onnx").write_bytes(b"")
    np.testing.assert_array_equal(found, array)


def test_four_bits_are_read_as_onnx_does(tmp_path):
    codes = np.arange(ROWS * COLUMNS * 16) % 16 - 8
    weights = helper.make_tensor("w", TensorProto.INT4, [16, ROWS, COLUMNS], codes.tolist())
    assert len(weights.raw_data or b"") == 0
    packed = (codes[::2] & 15 | (codes[1::2] & 15) << 4).astype(np.uint8)
    del weights.int32_data[:]
    weights.raw_data = packed.tobytes()
    proto = model(weights)
    proto.opset_import[0].version, proto.ir_version = 21, 10
    onnx.save(proto, tmp_path / "net.onnx")
    found = import_model(tmp_path / "net.onnx")
    constants = [v.data for n in found.nodes for v in n.inputs if v is not None and v.is_constant]
    wide = next(c for c in constants if c.size == codes.size)
    np.testing.assert_array_equal(wide.astype(np.int64).reshape(-1), codes)


def test_weights_of_a_wrong_size_are_reported(tmp_path):
    proto = model(numpy_helper.from_array(large(np.float32), "w"))
    proto.graph.initializer[1].dims[1] = COLUMNS + 1
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ValueError, match=r"weights w cannot be read .*; export the model again"):
        import_model(tmp_path / "net.onnx")


def test_truncated_file_is_reported(tmp_path):
    data = model(numpy_helper.from_array(large(np.float32), "w")).SerializeToString()
    (tmp_path / "net.onnx").write_bytes(data[:-900])
    with pytest.raises(
        ValueError, match=f"is not an ONNX model, or is truncated .{len(data) - 900}"
    ):
        import_model(tmp_path / "net.onnx")


def test_last_of_duplicate_weights_is_used():
    first, last = large(np.float32), 2 * large(np.float32)
    tensor = numpy_helper.from_array(first, "w").SerializeToString()
    tensor += onnx.TensorProto(raw_data=last.tobytes()).SerializeToString()
    graph = onnx.GraphProto(name="net").SerializeToString()
    graph += b"\x2a" + varint(len(tensor)) + tensor
    data = b"\x3a" + varint(len(graph)) + graph
    light, kept = read_without_weights(io.BytesIO(data), len(data))
    np.testing.assert_array_equal(kept[0].view(np.float32), last.reshape(-1))
    parsed = onnx.ModelProto.FromString(light)
    assert parsed.graph.initializer[0].dims == [ROWS, COLUMNS]
    assert len(light) < 100


@pytest.mark.parametrize("data", [b"\x3b", b"\x3a\x7f", b"\xff" * 12, b"\x3a\x03\x2a\x7f\x00"])
def test_invalid_messages_are_left_to_protobuf(data):
    assert read_without_weights(io.BytesIO(data), len(data)) is None


def varint(number: int) -> bytes:
    out = []
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_weights_stay_in_memory_without_a_temporary_folder(tmp_path, monkeypatch):
    array = large(np.float32)
    onnx.save(model(numpy_helper.from_array(array, "w")), tmp_path / "net.onnx")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    monkeypatch.setattr(mmap_constants, "_store", mmap_constants._Store())
    found, _ = outputs(tmp_path / "net.onnx")
    np.testing.assert_array_equal(found, array)
    assert not is_memory_mapped(found)


def test_dropped_pages_are_read_again():
    array = np.arange(1 << 18)
    there = mmap_constants.mmap_array(array)
    mmap_constants.drop_pages()
    np.testing.assert_array_equal(there, array)
    assert mmap_constants.mmap_array(there[100:]).base is not None
    with pytest.raises(ValueError, match="read-only"):
        there[0] = 1
