"""Fixtures: a network with all kernels that have levels, and RPC servers on emulated machines."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import networks_under_qemu
import numpy as np
import onnxruntime
import pytest
from dispatch_networks import quantised
from onnx import helper
from onnx_graph import model

ROOT = Path(__file__).parents[3]
# target: compiler triple, emulator, machine name in loader errors
KINDS = {
    "aarch64-linux": ("aarch64-linux-gnu", "qemu-aarch64", "aarch64"),
    "riscv64-linux": ("riscv64-linux-gnu", "qemu-riscv64", "riscv64"),
    "armv7-linux": ("arm-linux-gnueabihf", "qemu-arm", "32-bit ARM"),
}


@pytest.fixture(scope="session")
def network():
    """Return a network with all packed-weight kernels, channel tails, and a loop nest."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1, 20, 9, 11)).astype(np.float32)
    q = rng.integers(0, 256, (1, 20, 7, 9)).astype(np.uint8)
    v = rng.standard_normal((5, 2, 12)).astype(np.float32)
    normal = lambda *shape: (rng.standard_normal(shape) * 0.2).astype(np.float32)  # noqa: E731
    weights = {
        "dense": normal(70, 20, 3, 3), "dense_b": normal(70), "grouped": normal(40, 10, 1, 3),
        "depth": normal(20, 1, 3, 3), "dilated": normal(20, 1, 1, 5), "up": normal(20, 37, 2, 2),
        "r": normal(1, 64, 16), "wx": normal(1, 64, 12), "product": normal(12, 50),
        "s": np.float32(0.02), "z": np.uint8(7),
        "qm": rng.integers(-128, 128, (9, 30)).astype(np.int8),
        "qz": np.int8(0),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["x", "dense", "dense_b"], ["conv"], pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["conv_relu"]),
        helper.make_node("Conv", ["x", "grouped"], ["groups"], group=2),
        helper.make_node("Conv", ["x", "depth"], ["depthwise"], group=20, pads=[1] * 4),
        helper.make_node("Conv", ["x", "dilated"], ["apart"], group=20, dilations=[1, 2]),
        helper.make_node("ConvTranspose", ["x", "up"], ["transposed"], strides=[2, 2]),
        helper.make_node("MatMul", ["v", "product"], ["matmul"]),
        helper.make_node("LSTM", ["v", "wx", "r"], ["lstm"], hidden_size=16),
        helper.make_node("Erf", ["x"], ["erf"]),
        helper.make_node(
            "QLinearMatMul", ["q", "s", "z", "qm", "s", "qz", "s", "z"], ["qmatmul"]
        ),
    ]  # fmt: skip
    quantised(rng, nodes, weights, "qdense", "q", 1, 20, 43)
    quantised(rng, nodes, weights, "qsmall", "q", 1, 20, 5)
    quantised(rng, nodes, weights, "qgroups", "q", 2, 20, 50)
    quantised(rng, nodes, weights, "qdepth", "q", 20, 20, 20)
    quantised(rng, nodes, weights, "qsecond", "q", 1, 20, 43)
    weights["t"] = np.float32(0.03)
    nodes += [
        helper.make_node("DequantizeLinear", ["qdense", "qdense_ys", "z"], ["one"]),
        helper.make_node("DequantizeLinear", ["qsecond", "qsecond_ys", "z"], ["other"]),
        helper.make_node("Add", ["one", "other"], ["both"]),
        helper.make_node("QuantizeLinear", ["both", "qdense_ys", "z"], ["qsum"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["q_float"]),
        helper.make_node("LeakyRelu", ["q_float"], ["q_relu"]),
        helper.make_node("QuantizeLinear", ["q_relu", "t", "z"], ["table"]),
    ]
    inner = ("conv", "q_float", "q_relu", "qsecond", "one", "other", "both")
    outputs = [n.output[0] for n in nodes if n.output[0] not in inner]
    inputs = {"x": x, "q": q, "v": v}
    made = model(nodes, inputs, outputs, weights)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    return made, inputs, dict(zip(outputs, session.run(outputs, inputs)))


def _build_server(folder: Path, target: str, triple: str) -> Path:
    """Build the RPC server and the runtime for the target."""
    build = folder / "build"
    options = ["-Dpython=disabled", "-Dtests=disabled", "--buildtype=plain"]
    cross = ["--cross-file", str(ROOT / "packaging" / "cross" / f"{target}.ini")]
    subprocess.run(["meson", "setup", str(build), str(ROOT), *cross, *options], check=True)
    files = [f"src_runtime/libtvm_runtime.so{version}" for version in ("", ".0")]
    table = (build / "src_runtime" / "plugins.txt").read_text().splitlines()
    plugins = {line.split()[1] for line in table if line and line[0] != "#"}
    files += [f"src_runtime/{name}" for name in sorted(plugins)]  # loaded from the runtime's folder
    subprocess.run(["ninja", "-C", str(build), *files], check=True)
    source = Path(__file__).with_name("rpc_server.c")
    library = build / "src_runtime"
    link = [f"-L{library}", "-ltvm_runtime", f"-Wl,-rpath,{library}", "-o", "server"]
    command = [f"{triple}-gcc", f"-I{ROOT / 'include'}", str(source), *link]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "server"


class Machines:
    """RPC servers on emulated machines; each program is built once."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._built: dict[str, Path] = {}

    @contextmanager
    def serve(self, target: str, cpu: str = "", **variables: str) -> Iterator[int]:
        """Start a server on an emulated processor with these variables; return its port."""
        networks_under_qemu.need_servers()
        triple, emulator, _ = KINDS[target]
        for tool in (f"{triple}-gcc", emulator, "meson", "ninja"):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
        if target not in self._built:
            self._built[target] = _build_server(self._factory.mktemp(target), target, triple)
        command = [emulator, *(["-cpu", cpu] if cpu else []), "-L", f"/usr/{triple}"]
        with subprocess.Popen(
            [*command, str(self._built[target])],
            stdout=subprocess.PIPE, text=True, env={**os.environ, **variables},
            cwd=self._built[target].parent,
        ) as program:  # fmt: skip
            try:
                yield int(program.stdout.readline().split()[1])
            finally:
                program.terminate()

    def program(self, target: str, name: str, source: str) -> Path:
        """Build a program for that machine, linked with the runtime of its server."""
        folder = self._built[target].parent
        (folder / f"{name}.c").write_text(source)
        library = folder / "build" / "src_runtime"
        link = [f"-L{library}", "-ltvm_runtime", f"-Wl,-rpath,{library}", "-o", name]
        command = [f"{KINDS[target][0]}-gcc", f"-I{ROOT / 'include'}", f"{name}.c", *link]
        subprocess.run(command, check=True, cwd=folder)
        return folder / name

    def run(
        self, target: str, cpu: str, program: Path, *arguments: Path, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run such a program on the processor of that name."""
        triple, emulator, _ = KINDS[target]
        command = [emulator, "-cpu", cpu, "-L", f"/usr/{triple}", program, *arguments]
        return subprocess.run(
            list(map(str, command)), check=False, capture_output=True, text=True,
            env={**os.environ, **variables},
        )  # fmt: skip


@pytest.fixture(scope="session")
def machines(tmp_path_factory) -> Machines:
    return Machines(tmp_path_factory)


LEVEL_IN_USE = """
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
int main(int argc, char** argv) {
  TVMModuleHandle mod;
  TVMFunctionHandle f;
  TVMValue value, ret;
  int code;
  (void)argc;
  if (TVMModLoadFromFile(argv[1], "", &mod) != 0 ||
      TVMModGetFunction(mod, "get_level", 1, &f) != 0 ||
      TVMFuncCall(f, &value, &code, 0, &ret, &code) != 0) {
    printf("%s", TVMGetLastError());
    return 1;
  }
  printf("%s", (const char*)ret.v_handle);
  return 0;
}
"""


@pytest.fixture(scope="session")
def program(machines) -> Path:
    """Build an AArch64 program that prints a library's level in use, or the load error."""
    with machines.serve("aarch64-linux"):
        pass  # already built
    return machines.program("aarch64-linux", "level", LEVEL_IN_USE)
