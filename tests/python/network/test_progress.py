"""First loads show the running stage on standard error, where somebody may read it."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

STAGES = ["import", "transform", "partition", "lower", "plan", "generate", "C compiler"]


@pytest.fixture
def load(small, tmp_path):
    """Return a function that loads a network with an empty cache in a process, whose standard
    error is a terminal or a pipe, and returns what it shows."""

    def run(*flags: str, terminal: bool, requested: str = "", times: int = 1) -> str:
        code = f"import tvmrt\nfor _ in range({times}):\n  tvmrt.load({str(small)!r})"
        environment = {**os.environ, "TVMRT_CACHE": str(tmp_path), "TVMRT_PROGRESS": requested}
        reader, writer = pty.openpty() if terminal else os.pipe()
        process = subprocess.Popen(
            [sys.executable, *flags, "-c", code],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer, env=environment,
        )  # fmt: skip
        os.close(writer)
        shown = b""
        while chunk := _read(reader):
            shown += chunk
        os.close(reader)
        assert process.wait(timeout=300) == 0, shown
        return shown.decode()

    return run


def _read(reader: int) -> bytes:
    try:
        return os.read(reader, 4096)
    except OSError:  # Linux reports this error when the other end of a terminal is closed
        return b""


@pytest.fixture
def small(tmp_path):
    import onnx
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy"]
    node = helper.make_node("Relu", ["x"], ["y"])
    graph = helper.make_graph([node], "net", values[:1], values[1:])
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [False, True])
def test_program_shows_nothing_unless_asked(load, terminal):
    assert load(terminal=terminal) == ""


@pytest.mark.slow
def test_requested_progress_is_a_line_for_each_stage_of_the_first_load(load):
    lines = load(terminal=False, requested="1", times=2).splitlines()
    assert lines == [f"tvmrt: small.onnx: {s} ({i}/7)" for i, s in enumerate(STAGES, 1)]


@pytest.mark.slow
def test_interactive_session_shows_one_line_while_it_lasts(load):
    shown = load("-i", terminal=True).split(">>>")[0]
    assert "\n" not in shown and shown.endswith("\r\x1b[K")
    texts = [part.removeprefix("\x1b[K") for part in shown.split("\r")]
    assert [t.split(": ")[-1] for t in texts if t] == [
        f"{s} ({i}/7)" for i, s in enumerate(STAGES, 1)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("flags", "requested"), [(("-i",), "0"), ((), "0")])
def test_progress_can_be_switched_off(load, flags, requested):
    assert "small.onnx" not in load(*flags, terminal=True, requested=requested)
