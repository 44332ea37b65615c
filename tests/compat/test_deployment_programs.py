"""Test programs that follow TVM's deployment examples: applications of Zephyr and Arduino, local
Python, remote Python. Others are in test_cxx.py, test_crt_programs.py, test_tvmc_packages.py."""

from __future__ import annotations

import numpy as np
import pytest
from archives import unpack
from artefacts import network, toolchain
from onnx import helper
from onnx_graph import model

import tvmrt

# Declarations of a board's system that the programs call, implemented with the C library.
ZEPHYR = {
    "zephyr/kernel.h": "#include <stdint.h>\n#include <stdlib.h>\n"
    "static inline void k_panic(void) { abort(); }\n"
    "static inline uint32_t k_cycle_get_32(void) { return 0; }\n",
    "zephyr/sys/printk.h": "#include <stdio.h>\n#define printk printf\n",
}
ARDUINO = {
    "Arduino.h": "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    "struct Port {\n  void begin(long) {}\n"
    '  void print(const char* text) { printf("%s", text); }\n'
    '  void print(double value, int digits) { printf("%.*f", digits, value); }\n};\n'
    "static struct Port Serial;\n"
    "inline void delay(unsigned long) { exit(0); }  // one turn of loop()\n"
    "inline unsigned long micros() { return 0; }\n"
    "void setup();\nvoid loop();\n"
    "int main() { setup(); loop(); }\n",
}
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def graph():
    """softmax(x + w) * 2"""
    nodes = [
        helper.make_node("Add", ["x", "w"], ["y"]),
        helper.make_node("Softmax", ["y"], ["s"]),
        helper.make_node("Mul", ["s", "two"], ["z"]),
    ]
    constants = {"w": network.W, "two": np.full((2, 3), 2, np.float32)}
    return model(nodes, {"x": X}, ["z"], constants)


def expected():
    powers = np.exp(X + network.W - (X + network.W).max(1, keepdims=True))
    return 2 * powers / powers.sum(1, keepdims=True)


def board_program(folder, application, headers):
    """Compile the application with the sources of an archive for this machine; return its
    output."""
    for name, text in headers.items():
        (folder / "system" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "system" / name).write_text(text)
    tvmrt.compile(graph(), target="cortex-m4", interface_api="c").export(folder / "net.tar")
    code = unpack(folder / "net.tar", folder / "net") / "codegen" / "host"
    includes = [f"-I{code / 'include'}", f"-I{folder / 'system'}", *toolchain.includes()]
    objects = []
    for source in [*sorted((code / "src").glob("*.c")), toolchain.source(application)]:
        kind = ["c++", "-std=c++11"] if source.suffix == ".cc" else ["cc", "-std=gnu11"]
        objects.append(folder / f"{source.stem}.o")
        toolchain.execute([*kind, "-O1", "-w", *includes, "-c", source, "-o", objects[-1]])
    program = folder / "program"
    toolchain.execute(["c++", *objects, *toolchain.backend_archive(), "-lm", "-o", program])
    return [float(number) for number in toolchain.execute([program]).split()]


@pytest.mark.parametrize(
    ("application", "headers"),
    [("zephyr_aot.c", ZEPHYR), ("arduino_aot.cc", ARDUINO)],
    ids=["zephyr", "arduino"],
)
def test_application_of_a_board(application, headers, tmp_path):
    toolchain.find_compiler("c++")
    numbers = board_program(tmp_path, application, headers)
    np.testing.assert_allclose(numbers, expected().ravel(), rtol=1e-5, atol=1e-7)


def test_python_here(tmp_path):
    from tvmrt.contrib import graph_executor

    tvmrt.compile(graph(), executor="graph").export_library(tmp_path / "net.so")
    library = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    device = tvmrt.cpu(0)
    module = graph_executor.GraphModule(library["default"](device))
    module.set_input("x", tvmrt.nd.array(X, device))
    module.run()
    result = module.get_output(0, tvmrt.nd.empty((2, 3)))
    np.testing.assert_allclose(result.numpy(), expected(), rtol=1e-5)
