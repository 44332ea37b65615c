"""A TensorFlow Lite network: inputs, outputs, operators and weights."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tvmrt.cli.describe import Description, import_verdict
from tvmrt.cli.table import Table


def describe(path: Path) -> Description:
    """Describe a network; it need not be one that can be compiled."""
    from tvmrt.plugins.tflite.frontend import entry_of, import_model, load_model, names_of

    model = load_model(path)
    main = model.subgraphs[0]
    operators = [op for graph in model.subgraphs for op in graph.operators]
    weights = [t for graph in model.subgraphs for t in graph.tensors if t.data is not None]
    properties = {
        "format": "TensorFlow Lite",
        "graphs": len(model.subgraphs),
        "signatures": [s.key for s in model.signatures],
        "description": model.description,
        "nodes": len(operators),
        "weights": len(weights),
        "weights_bytes": sum(t.data.nbytes for t in weights),
        "file_bytes": path.stat().st_size,
        **import_verdict(lambda: import_model(path))[0],
    }
    columns = ("name", "dtype", "shape", "scale", "zero point")

    def rows(indices, names) -> list[tuple]:
        return [_row(main.tensors[i], name) for i, name in zip(indices, names)]

    inputs, outputs = names_of(model, entry_of(model, None))
    counts = Counter((op.name, op.version) for op in operators)
    kinds = [(name, version, count) for (name, version), count in counts.most_common()]
    tables = {
        "inputs": Table(columns, rows(main.inputs, inputs), columns[:3]),
        "outputs": Table(columns, rows(main.outputs, outputs), columns[:3]),
        "operators": Table(("operator", "version", "count"), kinds, ("operator",)),
    }
    return Description(properties, tables)


def _row(tensor, name: str) -> tuple:
    q = tensor.quantization
    scale, zero = (None, None) if q is None else (float(q.scale[0]), int(q.zero[0]))
    return name, tensor.dtype, tuple(tensor.shape), scale, zero
