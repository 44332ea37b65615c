"""Describe an ONNX network: inputs, outputs, operators and weights."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

from tvmrt.cli import onnx_reference
from tvmrt.cli.describe import Description, import_verdict
from tvmrt.cli.table import Table


def _weight_bytes(tensor) -> int:
    from onnx import helper

    try:
        itemsize = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except (KeyError, ValueError):
        return len(tensor.raw_data)
    return math.prod(tensor.dims) * itemsize


def _import_network(path: Path, operators: Any) -> Any:
    """Import the network; open dimensions have no bounds."""
    from tvmrt.compiler.frontend.onnx import import_model
    from tvmrt.compiler.pipeline.open_dims import UNBOUNDED
    from tvmrt.error import UnboundedDimensionsError

    try:
        return import_model(path, operators=operators)
    except UnboundedDimensionsError as error:
        if not error.names:
            raise
        return import_model(path, operators=operators, dims=dict.fromkeys(error.names, UNBOUNDED))


def describe(path: Path) -> Description:
    """Describe a network, even if it cannot be compiled."""
    from tvmrt.compiler.custom import gather
    from tvmrt.compiler.frontend.onnx.tensors import with_nested_graphs
    from tvmrt.compiler.operator_key import operator_name

    model = onnx_reference.load_model(path, with_weights=False)
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    every = (node for each in with_nested_graphs([graph]) for node in each.node)
    counts = Counter(map(operator_name, every))
    opsets = {o.domain or "ai.onnx": o.version for o in model.opset_import}
    # gather: includes the operators of installed packages
    verdict, taken = import_verdict(lambda: _import_network(path, gather(())))
    properties = {
        "format": "ONNX",
        "graph": graph.name,
        "opset": opsets,
        "ir_version": model.ir_version,
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "nodes": sum(counts.values()),
        "weights": len(weights),
        "weights_bytes": sum(_weight_bytes(tensor) for tensor in graph.initializer),
        "file_bytes": path.stat().st_size,
        **verdict,
    }
    columns = ("name", "dtype", "shape")

    def rows(values) -> list[tuple]:
        infos = [onnx_reference.tensor_info(value) for value in values if value.name not in weights]
        return [(i.name, i.dtype, tuple(i.shape)) for i in infos]

    tables = {
        "inputs": Table(columns, rows(graph.input), columns),
        "outputs": Table(columns, rows(graph.output), columns),
        "operators": Table(("operator", "count"), counts.most_common(), ("operator",)),
    }
    if taken is not None and taken.labels:
        named = [(name, list(each)) for name, each in taken.labels.items()]
        tables["labels"] = Table(("output", "labels"), named, ("output", "labels"))
    return Description(properties, tables)
