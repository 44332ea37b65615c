"""Regions that a C device compiles ahead, for several chips in one file."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import pytest
from unary import HEADER, executor_of, plugin

import tvmrt
from tvmrt.error import UnsupportedError

X = np.array([[-1.5, 2, -3], [4, 0, -6]], np.float32)
TEXT = "g (float[{0}] x) => (float[{0}] y) {{ y = Neg(x) }}"


@pytest.fixture(scope="module")
def device(tmp_path_factory):
    tvmrt.load_device_plugin(plugin(tmp_path_factory.mktemp("chips"), "chips_device.c", "chips"))
    yield "chips"
    gc.collect()  # libraries of failed tests
    tvmrt.get_global_func("tvmrt.device.unregister")("chips")


def loaded(folder, monkeypatch, chip, extents="2,3", **options):
    """Return the result for X and the lines that pre_run wrote, on a machine with the chip."""
    monkeypatch.setenv("CHIP", chip)
    monkeypatch.setenv("CHIPS_LOG", str(folder / "log"))
    (folder / "log").write_text("")
    model = onnx.parser.parse_model(HEADER + TEXT.format(extents))
    path = folder / f"net{len(list(folder.iterdir()))}.so"
    tvmrt.compile(model, devices=["chips"], require_device=["chips"], **options).export(path)
    y = tvmrt.load(path)(X)
    return y, (folder / "log").read_text().splitlines()


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("chip", ["a1", "b2"])
def test_one_file_has_the_bytes_of_every_chip(device, tmp_path, monkeypatch, chip, executor):
    y, log = loaded(tmp_path, monkeypatch, chip, executor=executor)
    np.testing.assert_array_equal(y, -X)
    assert log == [f"{chip} 8"]


def test_other_chips_and_dynamic_sizes_are_compiled_when_loaded(device, tmp_path, monkeypatch):
    for more in (
        {"chip": "c3"},
        {"chip": "b2", "device_options": {"chips": {"chips": "a1"}}},
        {"chip": "a1", "extents": "n,3", "dims": {"n": 2}},
    ):
        y, log = loaded(tmp_path, monkeypatch, **more)
        np.testing.assert_array_equal(y, -X)
        assert log and set(log) == {"now 0"}


def test_selected_chips_alone_are_in_the_file(device, tmp_path, monkeypatch):
    selected = {"chips": {"chips": ["a1"]}}
    assert loaded(tmp_path, monkeypatch, "a1", device_options=selected)[1] == ["a1 8"]
    with pytest.raises(
        UnsupportedError, match=r"device chips.* no chip z9; choose of its chips: a1, b2"
    ):
        loaded(tmp_path, monkeypatch, "a1", device_options={"chips": {"chips": "a1,z9"}})


def test_failing_prepare_names_device_and_reason(device, tmp_path, monkeypatch):
    monkeypatch.setenv("FAILS", "1")
    with pytest.raises(
        tvmrt.TVMError, match=r"'chips': prepare of region .* failed: b2 has no compiler"
    ):
        loaded(tmp_path, monkeypatch, "a1")
    y, log = loaded(tmp_path, monkeypatch, "a1", device_options={"chips": {"chips": "a1"}})
    np.testing.assert_array_equal(y, -X)
    assert log == ["a1 8"]


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_events_of_a_device_are_in_the_profile(device, tmp_path, monkeypatch, executor):
    monkeypatch.setenv("CHIP", "a1")
    monkeypatch.setenv("CHIPS_LOG", str(tmp_path / "log"))
    model = onnx.parser.parse_model(HEADER + TEXT.format("2,3"))
    tvmrt.compile(model, devices=["chips"], executor=executor).export(tmp_path / "net.so")
    net = executor_of(tvmrt.runtime.load_module(tmp_path / "net.so"), executor)
    net.set_input("x", X)
    report = net.profile()
    assert [(e["device"], e["name"]) for e in report.events] == [
        ("chips", "load"),
        ("chips", "multiply"),
    ]
    load, multiply = report.events
    assert load["region"] == multiply["region"] == "tvmgen_default_chips_main_0"
    assert 0 <= load["start"] < load["end"] == multiply["start"] < 1
    assert multiply["end"] - multiply["start"] == pytest.approx(3e-6, abs=2e-9)
    assert "chips: multiply from" in str(report)
    net.run()  # outside of a profile the device is not asked
    monkeypatch.setenv("BACKWARDS", "1")
    net.run()
    with pytest.raises(
        tvmrt.TVMError, match=r"events of region .* 'multiply' lasts from 2e-06 to 1e-06"
    ):
        net.profile()
