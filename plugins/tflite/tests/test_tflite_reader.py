"""Test untrusted files: each defect is an error, without side effects."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest
from tflite_case import FILES, Net

import tvmrt
from tvmrt.compiler.ir import mmap_constants
from tvmrt.error import TVMError, UnexpectedImportError, UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model, load_model

FILE = FILES / "separable_int8.tflite"


def _refusal(data: bytes) -> str:
    """Return the error text for a refused file; empty if it is read."""
    try:
        import_model(data)
    except UnexpectedImportError:
        raise
    except (ValueError, TVMError) as problem:
        text = str(problem)
        assert text and "\n" not in text
        return text
    return ""


def test_truncated_file_is_refused():
    data = FILE.read_bytes()
    for end in [*range(0, 64), *range(64, len(data), 97)]:
        assert _refusal(data[:end])


@pytest.mark.parametrize("name", ["separable_int8", "looping_float"])
def test_changed_bytes_are_read_or_refused(name):
    data, rng = (FILES / f"{name}.tflite").read_bytes(), np.random.default_rng(5)
    refused = 0
    for _ in range(100):
        changed = bytearray(data)
        for place in rng.integers(8, len(data), rng.integers(1, 4)):
            changed[place] = rng.integers(256)
        at = int(rng.integers(0, len(data) // 4)) * 4
        if rng.integers(2):
            changed[at : at + 4] = struct.pack("<i", int(rng.choice([-1, 2**31 - 1, 1 << 20, 7])))
        refused += bool(_refusal(bytes(changed)))
    assert 5 < refused < 100


def _changed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a file with some of its bytes, integers or sizes changed."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(0, len(data) // 4)) * 4
        if rng.integers(2):  # a small integer, such as an index or an extent, changed slightly
            whole = np.frombuffer(bytes(changed[: len(data) // 4 * 4]), "<i4")
            small = np.flatnonzero((whole >= 0) & (whole < 64))
            at = int(rng.choice(small)) * 4
            number = int(whole[at // 4]) + int(rng.integers(-2, 3))
        else:
            number = int(rng.choice([-1, 0, 1, 2**31 - 1, 1 << 20, -(2**31), 0x7FC00000]))
        changed[at : at + 4] = struct.pack("<i", number)
    return bytes(changed)


@pytest.mark.parametrize("count", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_changed_files_are_compiled_or_refused_in_a_sentence(count):
    rng = np.random.default_rng(count)
    names = sorted(path for path in FILES.glob("*.tflite") if path.stat().st_size < 20_000)
    outcomes = set()
    for number in range(count):
        data = _changed(names[number % len(names)].read_bytes(), rng)
        begin = time.process_time()
        try:
            tvmrt.compile(data, max_memory=1 << 26)
            outcomes.add("compiled")
        except UnexpectedImportError:
            raise
        except (ValueError, KeyError, TVMError) as problem:
            assert str(problem) and "\n" not in str(problem)
            outcomes.add("refused")
        assert time.process_time() - begin < 60
    assert outcomes == {"compiled", "refused"}


def test_other_formats_and_versions_are_errors():
    assert "is not a .tflite file" in _refusal(b"ONNX" * 20)
    with pytest.raises(ValueError, match="these 80 bytes are not a"):
        tvmrt.compile(b"ONNX" * 20)
    pytest.importorskip("ai_edge_litert")
    net = Net()
    net.model.version = 2
    assert "is written in version 2" in _refusal(net.data())


def test_overlapping_tables_are_refused_early():
    # 2000 graphs, all the same table, with 2000 tensors, all the same table
    count = 2000
    model, vector = 20, 36
    graph = vector + 4 + 4 * count + 8
    tensors = graph + 8
    tensor = tensors + 4 + 4 * count + 12
    data = struct.pack("<I4s7Hxx", model + 4, b"TFL3", 14, 16, 4, 0, 8, 0, 12)
    data += struct.pack("<iIII", 16, 3, vector + 4 - 32, tensor - 8 - 36)
    vector, graph, tensors, tensor = (n + 4 for n in (vector, graph, tensors, tensor))
    data += struct.pack("<I", count)
    data += b"".join(struct.pack("<I", graph - (vector + 4 + 4 * i)) for i in range(count))
    data += struct.pack("<3Hxx", 6, 8, 4) + struct.pack("<iI", 8, tensors - graph - 4)
    data += struct.pack("<I", count)
    data += b"".join(struct.pack("<I", tensor - (tensors + 4 + 4 * i)) for i in range(count))
    # the one buffer is a table without fields, as the tensor is
    data += struct.pack("<II2Hi", 1, 8, 4, 4, 4)
    assert "its tables share their parts" in _refusal(data)


def _two_tensors(net: Net, name: str, **fields) -> bytes:
    x = net.input((2, 3), "float32")
    y = net.tensor((2, 3), "float32")
    net.op(name, [x], [y], **fields)
    net.graph.outputs.append(y)
    return net.data()


def test_all_unknown_operators_are_listed_at_once_with_their_versions():
    pytest.importorskip("ai_edge_litert")
    net = Net()
    x = net.input((2, 3), "float32")
    names = ("BUCKETIZE", "SEGMENT_SUM", "RELU")
    for name, version in zip(names, (4, 2, 99)):
        y = net.tensor((2, 3), "float32")
        net.op(name, [x], [y], version=version)
        x = y
    net.graph.outputs.append(x)
    with pytest.raises(UnsupportedError) as refusal:
        import_model(net.data())
    said = str(refusal.value)
    assert said.startswith("3 operators of the network cannot be compiled")
    assert "BUCKETIZE version 4" in said and "SEGMENT_SUM version 2" in said
    assert "RELU version 99, known are those up to" in said


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda net: setattr(net.graph.tensors[1], "shape", [2, 4]), "is declared"),
        (lambda net: setattr(net.graph.tensors[0], "shape", [-2, 3]), "has the shape"),
        (lambda net: setattr(net.graph.tensors[0], "shape", [1 << 30, 1 << 30]), "has the shape"),
        (lambda net: setattr(net.graph.tensors[0], "buffer", 9), "there is no buffer 9"),
        (lambda net: setattr(net.graph.operators[0], "inputs", [7]), "there is no tensor 7"),
        (lambda net: setattr(net.graph.operators[0], "opcodeIndex", 3), "no operator code 3"),
        (lambda net: setattr(net.graph, "inputs", []), "is read before an operator produces it"),
        (lambda net: setattr(net.graph.tensors[1], "type", 99), "element type 99"),
        (lambda net: setattr(net.graph.operators[0], "outputs", []), "has 0 outputs"),
    ],
)
def test_contradictions_are_errors(change, sentence):
    pytest.importorskip("ai_edge_litert")
    net = Net()
    _two_tensors(net, "RELU")
    change(net)
    assert sentence in _refusal(net.data())


@pytest.mark.parametrize(
    ("scale", "zero", "sentence"),
    [
        ([0.1, 0.2, 0.3], 0, "has 3 scales along axis 0"),
        ([np.nan], 0, "is not positive"),
        ([0.1], 300, "zero point outside of int8"),
        ([-0.1], 0, "is not positive"),
    ],
)
def test_impossible_quantisation_is_an_error(scale, zero, sentence):
    pytest.importorskip("ai_edge_litert")
    net = Net()
    x = net.input((2, 3), "int8", scale=scale, zero=zero)
    y = net.tensor((2, 3), "int8", scale=0.1)
    net.op("RELU", [x], [y])
    net.graph.outputs.append(y)
    assert sentence in _refusal(net.data())


def test_narrow_constants_are_unpacked_low_bits_first():
    pytest.importorskip("ai_edge_litert")
    net = Net()
    net.tensor((3,), "int4", np.array([0x2F, 0x08], np.uint8))
    net.tensor((5,), "int2", np.array([0b11100100, 0b01], np.uint8))
    tensors = load_model(net.data()).subgraphs[0].tensors
    assert tensors[0].data.tolist() == [-1, 2, -8]
    assert tensors[1].data.tolist() == [0, 1, -2, -1, 1]


def test_weights_are_memory_mapped_from_a_private_copy(tmp_path):
    """The compiler copies them to its own file in the same layout."""
    pytest.importorskip("ai_edge_litert")
    weights = np.random.default_rng(0).standard_normal((160, 128)).astype(np.float32)
    net, path = Net(), tmp_path / "net.tflite"
    net.tensor(weights.shape, "float32", weights)
    path.write_bytes(net.data())
    (tensor,) = load_model(path).subgraphs[0].tensors
    path.write_bytes(b"")
    np.testing.assert_array_equal(tensor.data, weights)
    assert mmap_constants.mmap_array(tensor.data) is tensor.data


def test_names_come_from_signature_or_tensors():
    pytest.importorskip("ai_edge_litert")
    net = Net()
    x = net.input((2,), "float32", name="serving_default_x:0")
    y, z = (net.output((2,), "float32", name="StatefulPartitionedCall:0") for _ in range(2))
    net.op("RELU", [x], [y])
    net.op("NEG", [x], [z])
    graph = import_model(net.data())
    assert [v.name for v in graph.inputs] == ["serving_default_x:0"]
    assert graph.output_names == ["StatefulPartitionedCall:0", "StatefulPartitionedCall:0_2"]
    signature = net.schema.SignatureDefT()
    signature.signatureKey, signature.subgraphIndex = "serving_default", 0
    rows = []
    for name, index in (("image", x), ("plain", y), ("other", z)):
        row = net.schema.TensorMapT()
        row.name, row.tensorIndex = name, index
        rows.append(row)
    signature.inputs, signature.outputs = rows[:1], rows[1:]
    net.model.signatureDefs = [signature]
    graph = import_model(net.data())
    assert [v.name for v in graph.inputs] == ["image"]
    assert graph.output_names == ["plain", "other"]
    rows[2].tensorIndex = 99
    assert "other of a signature is not a tensor" in _refusal(net.data())
