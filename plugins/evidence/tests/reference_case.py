"""For tests: networks of one operator or a few, and references as libraries that run them."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from tvmrt.compiler.custom import gather
from tvmrt.compiler.frontend import onnx as frontend
from tvmrt.plugins.evidence.reference.files import texts

FLAGS = "-std=c99 -O1 -ffp-contract=off -Wall -Werror -Wno-unused -Wno-tautological-compare".split()


def import_graph(model):
    """Return the graph of a file or an ONNX model after import."""
    source = str(model) if isinstance(model, Path) else model
    return frontend.import_model(source, None, gather(None), None)


def model_of(nodes, feeds, constants, outputs, opset=17, types=None) -> ModelProto:
    """Return an ONNX model of rows (operator, inputs, outputs, attributes)."""
    made = [helper.make_node(op, i, o, **attributes) for op, i, o, attributes in nodes]
    kinds = {n: helper.np_dtype_to_tensor_dtype(a.dtype) for n, a in feeds.items()}
    inputs = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in feeds.items()]
    results = [helper.make_tensor_value_info(n, (types or {}).get(n, 1), None) for n in outputs]
    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(made, "net", inputs, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


class Reference:
    """The compiled reference of a graph in a folder; ``run`` takes and returns arrays by name."""

    def __init__(self, graph, folder: Path) -> None:
        self.graph, self.folder = graph, folder
        for name, text in texts(graph, "net").items():
            (folder / name).write_text(text)
        self.build()

    def build(self) -> None:
        library = self.folder / f"net{len(list(self.folder.glob('*.so')))}.so"
        source = self.folder / "net_reference.c"
        command = ["cc", *FLAGS, "-shared", "-fPIC", "-o", library, source, "-lm"]
        subprocess.run(command, check=True)
        self._run = ctypes.CDLL(str(library)).net_reference_run

    def patch(self, pattern: str, new: str) -> None:
        """Replace the first match of a regular expression in the program and build it again."""
        path = self.folder / "net_reference.c"
        text, count = re.subn(pattern, new, path.read_text(), count=1)
        assert count == 1, f"{pattern} is not in {path.name}"
        path.write_text(text)
        self.build()

    def run(self, feeds):
        arrays = [np.ascontiguousarray(feeds[v.name], v.dtype.numpy) for v in self.graph.inputs]
        results = [np.zeros(v.shape, v.dtype.numpy) for v in self.graph.outputs]
        pointers = [
            (ctypes.c_void_p * max(len(each), 1))(*(a.ctypes.data for a in each))
            for each in (arrays, results)
        ]
        code = self._run(*pointers)
        assert code == 0, "an index lies outside of its tensor"
        return dict(zip(self.graph.output_names, results))
