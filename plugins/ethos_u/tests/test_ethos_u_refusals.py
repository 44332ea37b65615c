"""Test the device ethos-u if vela is missing, reports errors, or does not support a layer."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest
from onnx_case import network
from test_ethos_u import layers, needs_vela

import tvmrt
from tvmrt.error import TvmrtWarning, UnsupportedError
from tvmrt.plugins.ethos_u import vela
from tvmrt.plugins.ethos_u.command_stream import CpuFallbackError, read_stream
from tvmrt.plugins.ethos_u.device import try_options

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
FIRMWARE = {"target": "cortex-m55", "interface_api": "c", "devices": ["ethos-u"]}


def reasons(model, **options) -> set[str]:
    summary = tvmrt.compile(model, **{**FIRMWARE, **options}).summary
    assert summary.regions == []
    return {row.reason for row in summary.nodes if row.op_type == "Conv"}


def test_sizes_have_units():
    found = vela.arguments({"arena_cache_size": "384KiB"})
    assert found[-2:] == ("--arena-cache-size", "393216")
    assert vela.arguments({"arena_cache_size": 393216}) == found
    with pytest.raises(ValueError, match="option arena_cache_size: '384 kilo' is not a size"):
        vela.arguments({"arena_cache_size": "384 kilo"})


def test_without_vela_layers_run_on_the_cpu_and_extra_is_named(monkeypatch):
    monkeypatch.setattr(vela, "_command", lambda: None)
    model, _ = layers()
    with pytest.warns(
        TvmrtWarning, match=r"ethos-u takes nothing: vela is not installed: pip install"
    ):
        origin = reasons(model)
    assert origin == {"ethos-u: vela is not installed: pip install 'tvmrt[ethos-u]'"}
    with (
        pytest.warns(TvmrtWarning),
        pytest.raises(UnsupportedError, match=r"vela is not installed: pip install"),
    ):
        tvmrt.compile(model, **FIRMWARE, require_device=["ethos-u"])


def test_it_is_for_firmware():
    model, _ = layers()
    (reason,) = reasons(model, target="host", interface_api="packed")
    assert "ethos-u is for firmware; name a target such as cortex-m55" in reason


@pytest.mark.parametrize("answer", [
    subprocess.CompletedProcess([], 1, "", "warning\nRuntimeError: Error: no way'\n"),
    subprocess.CompletedProcess([], 0, "fine", "but no file\nno way"),
])  # fmt: skip
def test_vela_messages_are_the_reason(monkeypatch, answer):
    monkeypatch.setattr(vela, "absent", lambda: None)
    monkeypatch.setattr(vela, "_command", lambda: ["vela"])
    monkeypatch.setattr("tvmrt.plugins.ethos_u.device.try_options", lambda arguments: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: answer)
    vela.run_cached.cache_clear()
    model, _ = layers()
    try:
        assert reasons(model) == {"ethos-u: vela failed: no way"}
    finally:
        vela.run_cached.cache_clear()


def test_an_option_that_there_is_not():
    with pytest.raises(ValueError, match="ethos-u has no option speed; choose from accelerator, "):
        tvmrt.compile(layers()[0], **FIRMWARE, device_options={"ethos-u": {"speed": 1}})


@needs_vela
@pytest.mark.parametrize(("options", "why"), [
    ({"accelerator": "ethos-u1"}, "invalid choice: 'ethos-u1'"),
    ({"memory_mode": "Nowhere"}, "Section Memory_Mode.Nowhere not found"),
])  # fmt: skip
def test_a_wrong_value_is_no_refusal(options, why):
    with pytest.raises(ValueError, match=f"vela rejects the options: .*{why}"):
        try_options(vela.arguments(options))


@needs_vela
def test_only_layers_that_vela_rejects_run_on_the_cpu():
    """The device supports strides up to three in a depthwise layer."""
    rng = np.random.default_rng(1)
    held = {
        "s": np.float32(1 / 16), "z": np.int8(0),
        "w": rng.integers(-90, 90, (4, 1, 3, 3)).astype(np.int8),
        "v": rng.integers(-90, 90, (4, 4, 1, 1)).astype(np.int8),
    }  # fmt: skip
    nodes = [
        ("DequantizeLinear", ["x", "s", "z"], "xd", {}),
        ("DequantizeLinear", ["w", "s", "z"], "wd", {}),
        ("DequantizeLinear", ["v", "s", "z"], "vd", {}),
        ("Conv", ["xd", "wd"], "c", {"group": 4, "strides": [4, 4]}),
        ("QuantizeLinear", ["c", "s", "z"], "cq", {}),
        ("DequantizeLinear", ["cq", "s", "z"], "cd", {}),
        ("Conv", ["cd", "vd"], "d", {}),
        ("QuantizeLinear", ["d", "s", "z"], "y", {}),
    ]
    feeds = {"x": np.zeros((1, 4, 9, 9), np.int8)}
    library = tvmrt.compile(network(nodes, feeds, held, {"y": "int8"}), **FIRMWARE)
    rows = {row.name: row for row in library.summary.nodes}
    assert rows["n3"].device == "cpu"
    assert rows["n3"].reason == "ethos-u: vela leaves this qconv to the CPU"
    assert rows["n6"].device == "ethos-u"


def file(places=(-1, -1, 0, 0, 16), magic=b"COP1", cpu=False, name=b"y", count=1) -> bytes:
    """Return vela's output for a region that computes y from x, sixteen bytes each."""
    made = schema.ModelT()
    made.version, made.buffers = 3, [schema.BufferT() for _ in range(4)]
    data = [b"", magic + bytes(12), bytes(32), np.array([0, 1, 5, *places], "<i4").tobytes()]
    for buffer, part in zip(made.buffers, data):
        buffer.data = np.frombuffer(part, np.uint8) if part else None
    graph = schema.SubGraphT()
    graph.tensors = []
    for label, nbytes, buffer in ((b"c", 16, 1), (b"r", 32, 2), (b"s", 32, 0), (b"x", 16, 0),
                                  (name, 16, 0)):  # fmt: skip
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer, tensor.type = label, [nbytes], buffer, 9
        graph.tensors.append(tensor)
    graph.inputs, graph.outputs, graph.operators = [3], [4], []
    made.operatorCodes = [schema.OperatorCodeT(), schema.OperatorCodeT()]
    made.operatorCodes[0].builtinCode = 32
    made.operatorCodes[0].customCode = b"ethos-u"
    for number in range(count + cpu):
        operator = schema.OperatorT()
        operator.opcodeIndex = int(number == count)
        operator.inputs, operator.outputs = ([3] if number == count else [0, 1, 2, 2, 3]), [4]
        graph.operators.append(operator)
    note = schema.MetadataT()
    note.name, note.buffer = b"OfflineMemoryAllocation", 3
    made.subgraphs, made.metadata = [graph], [note]
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


BORDERS = {"x": 16, "y": 16}


def test_a_command_stream_is_read():
    found = read_stream(file(), BORDERS, False, {})
    assert found.commands[:4] == b"COP1"
    assert (found.scratch_bytes, found.fast_bytes, found.offsets) == (32, 0, (0, 16))
    assert not found.is_separate
    assert read_stream(file(), BORDERS, True, {}).is_separate


@pytest.mark.parametrize(("changed", "why"), [
    ({"magic": b"TFL3"}, "has an unknown header"),
    ({"places": (-1, -1, 0, 0, 17)}, "outside its scratch memory"),
    ({"name": b"z"}, "differ from the region's"),
    ({"count": 2}, "2 command streams of one region"),
])  # fmt: skip
def test_file_that_is_not_a_region_is_refused(changed, why):
    with pytest.raises(UnsupportedError, match=why):
        read_stream(file(**changed), BORDERS, False, {})


def test_operators_on_the_cpu_are_named():
    with pytest.raises(CpuFallbackError) as raised:
        read_stream(file(cpu=True), BORDERS, False, {})
    assert raised.value.names == ["y"]
