"""A library for hosts contains each kernel once, so that first loads and libraries stay small."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt


def network(blocks: int) -> onnx.ModelProto:
    """Return a network of inverted residuals, each followed by a hard swish and a softmax."""
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"

    def add(op: str, inputs: list[str], shape: tuple[int, ...] = (), **attributes) -> str:
        out = f"{op}{len(nodes)}"
        if shape:
            values = (random.standard_normal(shape) * 0.2).astype(np.float32)
            weights.append(numpy_helper.from_array(values, f"{out}_w"))
            inputs = [*inputs, f"{out}_w"]
        nodes.append(helper.make_node(op, inputs, [out], out, **attributes))
        return out

    for _ in range(blocks):
        wide = add("Conv", [last], (32, 16, 1, 1))
        wide = add("Conv", [wide], (32, 1, 3, 3), pads=[1, 1, 1, 1], group=32)
        narrow = add("Conv", [wide], (16, 32, 1, 1))
        last = add("Softmax", [add("HardSwish", [narrow])], axis=1)
    shape = [1, 16, 14, 14]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def kernels_by_file(files: dict[str, str]) -> Counter:
    """Return in how many files of a library each kernel is compiled: headers and tile functions."""
    found: Counter = Counter()
    for name, text in files.items():
        if re.search(r"_lib[1-9]\d*\.c$", name):
            headers = re.findall(r"^#include <tvm/runtime/kernels/((?!scalar/).*)>", text, re.M)
            found.update({*headers, *re.findall(r"^TVMRT_DEFINE\w+\(.*\)$", text, re.M)})
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["host", "x86-64"])
def test_each_kernel_is_in_one_file(target):
    library = tvmrt.compile(network(20), target=target)
    assert len(library.summary.operators) > 48  # more than fit a file without common kernels
    levels: dict[str, dict[str, str]] = {}
    for name, text in library.sources.files.items():
        levels.setdefault(re.sub(r"_lib\d+\.c$", "", name), {})[name] = text
    found = [kernels_by_file(files) for files in levels.values()]
    assert sum(len(kernels) for kernels in found) >= 3
    assert all(set(kernels.values()) <= {1} for kernels in found), found


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("size") is None, reason="needs binutils")
def test_five_times_the_layers_are_less_than_three_times_the_code(tmp_path):
    sizes = []
    for blocks in (4, 20):
        path = tmp_path / f"net{blocks}.so"
        tvmrt.compile(network(blocks), target="host").export_library(path)
        text = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True)
        sizes.append(int(re.search(r"^\.text\s+(\d+)", text.stdout, re.M).group(1)))
    assert sizes[1] < 3 * sizes[0], sizes
