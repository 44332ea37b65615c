"""Test images that serve remote calls on boards emulated by QEMU: written, run, timed and
verified."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler.export import board_image
from tvmrt.compiler.export.board_image import board_of, read_image_metadata
from tvmrt.error import CompileError
from tvmrt.libinfo import find_boards_path
from tvmrt.plugins.rpc.board import ImageNetwork
from tvmrt.rpc.board import connect_board
from tvmrt.rpc.board_lines import start_emulator

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def need(target: str) -> None:
    board = board_of(target)
    for tool in (f"{board.tool}-gcc", board.emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Return the digits network for a Cortex-M4, as the command writes it."""
    need("cortex-m4")
    path = tmp_path_factory.mktemp("image") / "net.elf"
    model = str(DIGITS / "digits_int8.onnx")
    assert main(["compile", model, "-o", str(path), "--target", "cortex-m4"]) == 0
    return path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    path = tmp_path_factory.mktemp("inputs") / "in.npz"
    with np.load(DIGITS / "digits_test.npz") as archive:
        np.savez(path, image=(archive["images"][:1, None] / 16).astype("float32"))
    return path


def golden(path: Path, inputs: Path) -> np.ndarray:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with np.load(inputs) as archive:
        return session.run(None, {"image": archive["image"]})[0]


def test_an_image_runs_and_is_timed(image, inputs, tmp_path, capsys):
    out = tmp_path / "out.npz"
    line = ["--rpc", "qemu", "--inputs", str(inputs), "--json"]
    assert main(["run", str(image), *line, "--outputs", str(out), "--repeat", "3"]) == 0
    seconds = json.loads(capsys.readouterr().out)["seconds"]
    assert len(seconds) == 3 and all(0.0005 < one < 0.05 for one in seconds)
    assert max(seconds) - min(seconds) < 1e-6  # by the board's clock, not by this machine's
    expected = golden(DIGITS / "digits_int8.onnx", inputs)
    with np.load(out) as archive:
        np.testing.assert_allclose(archive["probabilities"], expected, rtol=2e-4, atol=1e-6)


@pytest.mark.slow
def test_a_memory_limit_is_that_of_the_network_that_runs(capsys):
    """Fused rows are slower, so that the time shows which plan ran."""
    need("cortex-m4")
    pytest.importorskip("onnxruntime")
    model, board = str(DIGITS / "digits_f32.onnx"), ["--target", "cortex-m4", "--rpc", "qemu"]
    plans = tvmrt.compile(model, target="cortex-m4", ram=1 << 30).summary.row_plans
    least = ["--ram", str(plans[-1].ram_bytes)]
    assert main(["verify", model, *board, *least]) == 0
    assert "13 of 13 tensors agree" in capsys.readouterr().out
    fastest = []
    for limit in ([], least):
        assert main(["bench", model, *board, *limit, "--seconds", "0.1", "--json"]) == 0
        (network,) = json.loads(capsys.readouterr().out)["networks"]
        fastest.append(network["timings"][0]["fastest"])
    assert fastest[1] > 1.02 * fastest[0]
    for command in ("verify", "bench"):
        assert main([command, model, *board, "--ram", "100"]) == 2
        assert "ram of 100 bytes is" in capsys.readouterr().err


def test_the_board_must_have_the_same_image(image, tmp_path, monkeypatch, capsys):
    other = tmp_path / "other.elf"
    data = image.read_bytes()
    at = data.find(b"tvmrt-image:")
    begin = data.find(b'"image": "', at) + 10
    other.write_bytes(data[:begin] + b"0123456789abcdef" + data[begin + 16 :])
    assert main(["run", str(other), "--random", "--rpc", "qemu"]) == 2
    assert "write that file to the board first" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m0plus", "cortex-m7", "cortex-m55", "riscv32"])
def test_every_board_answers_twice(target, inputs, tmp_path):
    """The second session finds the board in the state of the first."""
    need(target)
    path, board = tmp_path / "net.elf", board_of(target)
    tvmrt.compile(DIGITS / "digits_f32.onnx", target=target).export(path)
    expected = golden(DIGITS / "digits_f32.onnx", inputs)
    line = start_emulator(board.emulator, str(path), board.shift)
    close, line.close = line.close, lambda: None
    for _ in range(2):
        session = connect_board(line)
        with np.load(inputs) as archive:
            (found,) = ImageNetwork(session, read_image_metadata(path)).run(archive)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)
        session.close()
    close()


@pytest.mark.parametrize(
    "command, text",
    [
        (["run", "IMAGE", "--random"], "is an image for a board: run it with --rpc serial:PATH"),
        (["run", "IMAGE", "--random", "--rpc", "qemu", "--rpc-key", "k"], "a board has no key"),
        (["bench", "MODEL", "--rpc", "qemu"], "give its processor with --target"),
        (["bench", "MODEL", "--target", "cortex-m4"], "is a board: run its image with --rpc qemu"),
        (["bench", "MODEL", "--ram", "9000"], "--ram limits the memory of a board: run its image"),
        (["compile", "MODEL", "-o", "FOLDER/net.elf"], "a board image needs a network for"),
        (["compile", "MODEL", "-o", "FOLDER/net.elf", "--target", "cortex-m3"],
         "target cortex-m3 has no board support"),
    ],
)  # fmt: skip
def test_invalid_options_are_reported(command, text, tmp_path, capsys):
    (tmp_path / "net.elf").write_bytes(b"\x7fELF")
    places = {"IMAGE": tmp_path / "net.elf", "MODEL": DIGITS / "digits_int8.onnx"}
    words = [str(places.get(w, w)).replace("FOLDER", str(tmp_path)) for w in command]
    assert main(words) == 2
    assert text in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_network_that_is_too_large_is_an_error(tmp_path, monkeypatch):
    need("cortex-m4")
    folder = tmp_path / "boards"
    shutil.copytree(find_boards_path(), folder)
    memory = folder / "cortex-m4.ld"
    memory.write_text(
        memory.read_text().replace("0x20000000, LENGTH = 4M", "0x20000000, LENGTH = 8K")
    )
    monkeypatch.setattr(board_image, "find_boards_path", lambda: str(folder))
    library = tvmrt.compile(DIGITS / "digits_int8.onnx", target="cortex-m4")
    with pytest.raises(CompileError, match=r"could not be built: .*too little for the stack"):
        library.export(tmp_path / "net.elf")
    assert not (tmp_path / "net.elf").exists()
