"""Published networks in the graph executor on a board, compared with their golden outputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import boards
import numpy as np
import pytest

import tvmrt

MODELS = Path(os.environ["TVMRT_MODELS"]) if os.environ.get("TVMRT_MODELS") else None
NETWORKS = ["kws_dscnn_int8", "kws_dscnn_f32", "ad_autoencoder_int8", "resnet8_qlinear"]

PROGRAM = """\
#include <stdio.h>
#include <tvmgen_net.h>

static uint8_t arena[TVMGEN_NET_GRAPH_ARENA_SIZE] __attribute__((aligned(16)));
%(buffers)s

int main(void) {
  FILE *in = fopen("inputs.bin", "rb"), *out = fopen("outputs.bin", "wb");
  TVMGraphExecutor *net;
  DLTensor tensor = {0};
  if (in == NULL || out == NULL) return 1;
  if (tvmgen_net_graph_create(arena, sizeof(arena), &net) != 0) return 2;
%(inputs)s
  if (TVMGraphExecutor_Run(net) != 0) return 3;
%(outputs)s
  return fclose(out);
}
"""


def program_text(summary) -> str:
    buffers, inputs, outputs = [], [], []
    for i, tensor in enumerate(summary.inputs):
        name = json.dumps(tensor.name)
        buffers.append(f"static uint64_t in{i}[{tensor.nbytes // 8 + 1}];")
        inputs += [
            f"  tensor = *tvmrt_graph_input(net, {i});",
            f"  tensor.data = in{i};",
            f"  if (fread(in{i}, 1, {tensor.nbytes}, in) != {tensor.nbytes}) return 4;",
            f"  if (TVMGraphExecutor_SetInput(net, {name}, &tensor) != 0) return 5;",
        ]
    for i, tensor in enumerate(summary.outputs):
        outputs += [
            f"  if (fwrite(tvmrt_graph_output(net, {i})->data, 1, {tensor.nbytes}, out) !=",
            f"      {tensor.nbytes}) return 6;",
        ]
    parts = {"buffers": buffers, "inputs": inputs, "outputs": outputs}
    return PROGRAM % {key: "\n".join(lines) for key, lines in parts.items()}


@pytest.mark.slow
@pytest.mark.skipif(MODELS is None, reason="TVMRT_MODELS names no folder of networks")
@pytest.mark.parametrize("params", ["flash", "file"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_published_network_by_its_graph(name, params, tmp_path):
    board = boards.BOARDS["cortex-m4"]
    with np.load(MODELS / f"{name}.npz") as data:
        arrays = dict(data)
    library = tvmrt.compile(
        MODELS / f"{name}.onnx", target=board.target, executor="graph", module_name="net",
        params=params,
    )  # fmt: skip
    library.export(tmp_path / "net.tar")
    archive = boards.build_library(tmp_path / "net.tar", board, tmp_path / "net")
    (tmp_path / "main.c").write_text(program_text(library.summary))
    includes = [tmp_path / "net/codegen/host/include", tmp_path / "net/runtime/include"]
    image = tmp_path / "image.elf"
    boards.link_image(board, [tmp_path / "main.c"], [archive], image, includes)
    inputs = [arrays[t.name].astype(t.dtype) for t in library.summary.inputs]
    (tmp_path / "inputs.bin").write_bytes(b"".join(a.tobytes() for a in inputs))
    boards.run_image(board, image, tmp_path)
    data, at = (tmp_path / "outputs.bin").read_bytes(), 0
    for tensor in library.summary.outputs:
        found = np.frombuffer(data[at : at + tensor.nbytes], tensor.dtype)
        at += tensor.nbytes
        golden = arrays[f"out:{tensor.name}"].ravel()
        tolerance = 1e-4 if "f32" in name else 0
        np.testing.assert_allclose(found, golden, rtol=tolerance, atol=tolerance * 1e-2)
