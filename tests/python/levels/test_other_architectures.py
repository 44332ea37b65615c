"""Libraries for Linux on other processors, run there by an emulator, as RPC has them run."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

import tvmrt
from tvmrt.cli import app

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits"
# target: triple of the compiler, emulator, machine as the loader calls it
KINDS = {
    "aarch64-linux": ("aarch64-linux-gnu", "qemu-aarch64", "aarch64"),
    "riscv64-linux": ("riscv64-linux-gnu", "qemu-riscv64", "riscv64"),
    "armv7-linux": ("arm-linux-gnueabihf", "qemu-arm", "32-bit ARM"),
}
PARAMS = [
    name if name.startswith("aarch64") else pytest.param(name, marks=pytest.mark.slow)
    for name in KINDS
]


def build_server(folder: Path, target: str, triple: str) -> Path:
    """The program of the page on RPC with the runtime, both for the target."""
    build = folder / "build"
    options = ["-Dpython=disabled", "-Dtests=disabled", "--buildtype=plain"]
    cross = ["--cross-file", str(ROOT / "cross" / f"{target}.ini")]
    subprocess.run(["meson", "setup", str(build), str(ROOT), *cross, *options], check=True)
    files = [f"src_runtime/libtvm_runtime.so{version}" for version in ("", ".0")]
    subprocess.run(["ninja", "-C", str(build), *files], check=True)
    page = (ROOT / "docs" / "how-to" / "rpc.md").read_text(encoding="utf-8")
    source = re.search(r"cat > server\.c <<'END'\n(.*?)\nEND\n", page, re.DOTALL)[1]
    (folder / "server.c").write_text(source + "\n")
    library = build / "src_runtime"
    link = [f"-L{library}", "-ltvm_runtime", f"-Wl,-rpath,{library}", "-o", "server"]
    command = [f"{triple}-gcc", f"-I{ROOT / 'include'}", "server.c", *link]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "server"


@pytest.fixture(scope="module", params=PARAMS)
def machine(request, tmp_path_factory):
    """A target, and a server on such a machine."""
    target = request.param
    triple, emulator, name = KINDS[target]
    for tool in (f"{triple}-gcc", emulator, "meson", "ninja"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    server = build_server(tmp_path_factory.mktemp(target), target, triple)
    command = [emulator, "-L", f"/usr/{triple}", str(server)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        port = program.stdout.readline().split()[1]
        yield SimpleNamespace(target=target, name=name, place=["--rpc", f"127.0.0.1:{port}"])
        program.terminate()


@pytest.mark.parametrize("network", ["digits_f32", "digits_int8"])
def test_a_network_is_right_there(machine, network, capsys):
    """Against onnxruntime here."""
    command = ["verify", str(DIGITS / f"{network}.onnx"), "--target", machine.target, "--json"]
    assert app.run([*command, *machine.place]) == app.DONE
    found = json.loads(capsys.readouterr().out)
    assert "probabilities" in [each["tensor"] for each in found["tensors"]]
    assert found["wrong"] == 0


def test_loading_it_here_names_both_machines(machine, tmp_path):
    path = tmp_path / "net.so"
    tvmrt.compile(DIGITS / "digits_f32.onnx", target=machine.target).export_library(path)
    sentence = f"net.so: it is for {machine.name}, this machine is .*; compile it for the target"
    with pytest.raises(OSError, match=sentence):
        tvmrt.runtime.load_module(path)


def test_without_its_compiler_the_way_to_one_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", target="riscv64-linux")
    with pytest.raises(
        tvmrt.error.CompileError,
        match=r"no C compiler for riscv64-linux-gnu is found .*pip install ziglang",
    ):
        library.export_library(tmp_path / "net.so")
