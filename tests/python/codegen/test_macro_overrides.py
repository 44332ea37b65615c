"""Macros given to the C compiler cannot contradict the memory plan."""

import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.libinfo import find_include_path, find_lib_path

MAIN = """
#include <stdio.h>
#include "tvmgen_net.h"
static unsigned char in[TVMGEN_NET_QX_SIZE], out[TVMGEN_NET_OUTPUT_SIZE];
int main(void) {
  struct tvmgen_net_inputs inputs = {in};
  struct tvmgen_net_outputs outputs = {out};
  unsigned sum = 0;
  for (unsigned i = 0; i < sizeof(in); i++) in[i] = (unsigned char)(i * 37 % 251);
  printf("%d ", (int)tvmgen_net_run(&inputs, &outputs));
  for (unsigned i = 0; i < sizeof(out); i++) sum = sum * 31 + out[i];
  printf("%u\\n", sum);
  return 0;
}
"""


def dilated() -> object:
    """Return a quantised convolution that uses im2col."""
    random = np.random.default_rng(0)
    arrays = {
        "w": random.integers(-90, 90, (24, 3, 3, 3), dtype=np.int8),
        "s": np.array(0.02, np.float32), "z": np.array(3, np.uint8),
        "ws": np.array(0.01, np.float32), "wz": np.array(4, np.int8),
        "ys": np.array(0.3, np.float32), "yz": np.array(120, np.uint8),
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["qx", "s", "z", "w", "ws", "wz", "ys", "yz"], ["y"],
        dilations=[2, 2], pads=[2, 2, 2, 2],
    )  # fmt: skip
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.UINT8, shape)]
        for name, shape in (("qx", [1, 3, 6, 3000]), ("y", [1, 24, 6, 3000]))
    ]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", *infos, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("option", ["131072", "1024"])
def test_chunk_bytes_cannot_be_overridden(tmp_path, option):
    library = tvmrt.compile(
        dilated(), target="host", runtime="crt", executor="aot", interface_api="c",
        unpacked_api=True, module_name="net",
    )  # fmt: skip
    library.export(tmp_path)
    (tmp_path / "main.c").write_text(MAIN)
    printed = []
    for flags in ([], [f"-DTVMRT_I8_CHUNK_BYTES={option}"]):
        command = ["cc", "-O1", "-w", *flags, f"-I{tmp_path}", f"-I{find_include_path()[0]}"]
        command += [str(path) for path in sorted(tmp_path.glob("*.c"))]
        command += [find_lib_path("libtvm_backend.a")[0], "-lm", "-lpthread", "-o"]
        subprocess.run([*command, str(tmp_path / "net")], check=True)
        done = subprocess.run([tmp_path / "net"], capture_output=True, text=True, check=True)
        printed.append(done.stdout)
    assert printed[0].startswith("0 ")
    assert printed[0] == printed[1]
