"""Sound files as inputs, compared with the written samples."""

from __future__ import annotations

import wave

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.cli import audio_inputs, main
from tvmrt.network.inputs import TensorInfo

SAMPLES = np.array([0, 1, -1, 32767, -32768, 1000, 20, -77], np.int16)


def _write(path, data: bytes, width: int, channels: int = 1):
    with wave.open(str(path), "wb") as sound:
        sound.setnchannels(channels)
        sound.setsampwidth(width)
        sound.setframerate(16000)
        sound.writeframes(data)
    return path


def _as_width(width: int) -> bytes:
    if width == 1:
        return ((SAMPLES.astype(int) >> 8) + 128).astype(np.uint8).tobytes()
    wide = SAMPLES.astype(np.int64) << (8 * (width - 2))
    return b"".join(int(each).to_bytes(width, "little", signed=True) for each in wide)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_are_scaled_to_minus_one_to_one(tmp_path, width):
    path = _write(tmp_path / "in.wav", _as_width(width), width)
    found = audio_inputs.load(path, [TensorInfo("x", "float32", (1, 8))])["x"]
    expected = SAMPLES / 32768 if width > 1 else (SAMPLES.astype(int) >> 8) / 128
    np.testing.assert_allclose(found, expected[None], atol=1e-7)


def test_integer_samples_are_kept_and_channels_averaged(tmp_path):
    path = _write(tmp_path / "in.wav", SAMPLES.tobytes(), 2)
    found = audio_inputs.load(path, [TensorInfo("x", "int16", (8,))])["x"]
    np.testing.assert_array_equal(found, SAMPLES)
    _write(path, SAMPLES.tobytes(), 2, channels=2)
    found = audio_inputs.load(path, [TensorInfo("x", "float32", (4,))])["x"]
    np.testing.assert_allclose(found, SAMPLES.reshape(4, 2).mean(axis=1) / 32768, atol=1e-7)


@pytest.mark.parametrize("length", [3, 12])
def test_sound_is_cut_or_padded_with_silence(tmp_path, length):
    path = _write(tmp_path / "in.wav", SAMPLES.tobytes(), 2)
    found = audio_inputs.load(path, [TensorInfo("x", "int16", (1, length, 1))])["x"]
    expected = np.pad(SAMPLES, (0, 8))[:length]
    np.testing.assert_array_equal(found, expected.reshape(1, length, 1))


@pytest.mark.parametrize(
    ("infos", "message"),
    [
        ([("x", "float32", (2, 8))], "is not a single row of samples; give an .npz"),
        ([("x", "int64", (8,))], "has type int64, which cannot hold samples"),
        ([("x", "int16", (8,)), ("y", "int16", (8,))], "the network has x, y"),
    ],
)
def test_sound_for_another_input_is_refused(tmp_path, infos, message):
    path = _write(tmp_path / "in.wav", SAMPLES.tobytes(), 2)
    with pytest.raises(ValueError, match=message):
        audio_inputs.load(path, [TensorInfo(*each) for each in infos])


def test_run_takes_a_sound_file(tmp_path, capsys):
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])], "negative",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    tvmrt.compile(tmp_path / "net.onnx").export_library(tmp_path / "net.so")
    sound = _write(tmp_path / "in.wav", SAMPLES.tobytes(), 2)
    arguments = [str(tmp_path / "net.so"), "--inputs", str(sound)]
    assert main(["run", *arguments, "--outputs", str(tmp_path / "out.npz")]) == 0
    with np.load(tmp_path / "out.npz") as out:
        np.testing.assert_allclose(out["y"][0], -(SAMPLES / 32768), atol=1e-7)
    sound.write_bytes(b"RIFF....WAVE")
    assert main(["run", *arguments]) == 2
    assert "is not a PCM sound file" in capsys.readouterr().err
