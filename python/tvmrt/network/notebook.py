"""Description of a network in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Callable

from tvmrt.network.loaded_library import format_shape
from tvmrt.network.measure import duration, measure
from tvmrt.network.open_sizes import bounds_text
from tvmrt.runtime.executor.base import Executor
from tvmrt.tensor_info import TensorInfo


def html(
    name: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    dims: Mapping[str, tuple[int, int | None]],
    notes: Sequence[str],
) -> str:
    """Return the HTML with inputs, outputs, bounds and notes; empty notes are left out."""
    rows = "".join(
        f"<tr><td>{title}</td><td>{escape(e.name)}</td><td>{escape(e.dtype)}</td>"
        f"<td>{escape(format_shape(e.shape))}</td></tr>"
        for title, tensors in (("input", inputs), ("output", outputs))
        for e in tensors
    )
    bounds = ", ".join(bounds_text(name, *each) for name, each in dims.items())
    texts = [escape(each) for each in (bounds, *notes) if each]
    return (
        f"<b>{escape(name)}</b><table><tr><th></th><th>name</th><th>type</th>"
        f"<th>shape</th></tr>{rows}</table>{'<br>'.join(texts)}"
    )


def run_time(warm_executor: Callable[[], Executor]) -> str:
    """Return the time of one run as text, measured for 0.03 s on random inputs; "" if random inputs
    are not possible."""
    try:
        run = warm_executor().run
    except ValueError:
        return ""
    return f"a run takes {duration(measure(run, seconds=0.03).median)}"
