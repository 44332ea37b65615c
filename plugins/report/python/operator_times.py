"""Compare operator times with the machine's roofline, for ``tvmrt bench --profile``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tvmrt.cli import console

if TYPE_CHECKING:
    from tvmrt.cli.session import Session
    from tvmrt.compiler.sdk.export import CompiledLibrary

SIZE = 384  # rows, columns and depth of the timed matmul
SECONDS = 0.1  # approximate time of the measurement


def timed_operators(session: Session, name: str) -> list[dict[str, Any]]:
    """Return the operators of a network that has run, each with its median time in seconds;
    operators without a time of their own are omitted."""
    from tvmrt.plugins.report.collect import collect
    from tvmrt.plugins.report.timing import add_seconds

    assert session.library is not None, "the network was compiled here"
    operators = collect(session.library, name)["operators"]
    add_seconds(operators, session.executor)
    return [_row(each) for each in operators if each.get("seconds")]


def with_rooflines(networks: Sequence[Sequence[dict[str, Any]]], threads: int) -> dict[str, Any]:
    """Add the roofline fraction to all rows; return the measured peaks of the machine."""
    from tvmrt.plugins.report.roofline import add_rooflines, bandwidths

    rows = [row for rows in networks for row in rows]
    flops = peaks(row["precision"] for row in rows if row["macs"])
    best, moved = add_rooflines(rows, flops, bandwidths(threads))
    return {"flops": best, "bytes": moved[max(moved)]}


def _row(operator: Mapping[str, Any]) -> dict[str, Any]:
    seconds = operator["seconds"]
    return {
        "name": operator["name"], "symbol": operator["symbol"], "operator": operator["op"],
        "nodes": operator["onnx_nodes"], "device": operator["device"],
        "precision": operator["precision"], "seconds": seconds, "macs": operator["macs"],
        "moved_bytes": operator["moved_bytes"], "flops": 2 * operator["macs"] / seconds,
        "bytes": operator["moved_bytes"] / seconds,
    }  # fmt: skip


def print_operators(network: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table of operators, the slowest first."""
    total = sum(row["seconds"] for row in rows) or 1.0
    table = [
        (
            console.shorten(row["name"]), row["operator"], row["precision"] if row["macs"] else "",
            console.format_seconds(row["seconds"]), f"{row['seconds'] / total:.1%}",
            f"{row['flops'] / 1e9:.1f}" if row["macs"] else "",
            console.format_bytes(row["moved_bytes"]), f"{row['bytes'] / 1e9:.1f}",
            f"{row['roofline']:.0%}", row["bound"],
        )
        for row in sorted(rows, key=lambda row: -row["seconds"])
    ]  # fmt: skip
    columns = (
        "operator", "kind", "of", "time", "share", "GFLOP/s", "moved", "GB/s", "of roofline", "by",
    )  # fmt: skip
    console.print_table(f"operators of {network}", columns, table, left=(*columns[:3], "by"))


def print_machine(machine: Mapping[str, Any]) -> None:
    """Print the peaks that define the roofline."""
    flops = ", ".join(
        f"{each / 1e9:.0f} GFLOP/s in {name}" for name, each in machine["flops"].items()
    )
    click.echo(f"roofline: {flops}{' and ' if flops else ''}{machine['bytes'] / 1e9:.1f} GB/s")


def peaks(precisions: Iterable[str]) -> dict[str, float]:
    """Return the operations per second of a matmul on the runtime's threads, by precision
    (``float32``, ``bfloat16`` or ``int8``). Needs the C compiler."""
    return {precision: _measured_peak(precision) for precision in sorted(set(precisions))}


def layer_peaks(library: CompiledLibrary) -> dict[str, float]:
    """Return the peaks of a network's precisions except float32, which a report measures itself."""
    from tvmrt.plugins.report.collect import precision_of

    steps = [step for step in library.program.steps if step.lowering.macs()]
    return peaks({precision_of(step.group.root) for step in steps} - {"float32"})


def _measured_peak(precision: str) -> float:
    from tvmrt.compiler.sdk.pipeline import Request, compile
    from tvmrt.plugins.report.timing import times_of
    from tvmrt.runtime import cpu, load_module
    from tvmrt.runtime.executor import AotModule

    option = "bf16" if precision == "bfloat16" else "float32"
    with tempfile.TemporaryDirectory(prefix="tvmrt-peak-") as folder:
        path = Path(folder, "product.so")
        # compile as timed networks do: "native" has no int8 matmul with AMX
        request = Request(executor="aot", precision=option).for_here()
        library = compile(_matmul_network(precision), request)
        library.export(path)
        executor = AotModule(load_module(str(path))["default"](cpu(0)))
        executor.run()
        return 2 * SIZE**3 / min(times_of(executor.run, SECONDS))


def _matmul_network(precision: str) -> Any:
    """Return a network with one matmul by a constant matrix."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    constants: dict[str, Any] = {"w": np.ones((SIZE, SIZE), np.float32)}
    kind, op, names = "FLOAT", "MatMul", ["x", "w"]
    if precision == "int8":
        ones = np.ones((SIZE, SIZE), np.int8)
        constants = {"w": ones, "s": np.float32(1), "z": np.uint8(128), "o": np.int8(0)}
        kind, op, names = "UINT8", "QLinearMatMul", ["x", "s", "z", "w", "s", "o", "s", "z"]
    ends = [
        helper.make_tensor_value_info(name, getattr(TensorProto, kind), [SIZE, SIZE])
        for name in ("x", "y")
    ]
    tensors = [numpy_helper.from_array(np.asarray(x), name) for name, x in constants.items()]
    node = helper.make_node(op, names, ["y"])
    graph = helper.make_graph([node], "peak", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
