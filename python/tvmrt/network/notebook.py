"""Description of a network in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from tvmrt.network.loaded_library import format_shape
from tvmrt.network.measure import duration, measure

if TYPE_CHECKING:
    from tvmrt.network.network import Network


def html(network: Network, run_time: str) -> str:
    """Return the HTML with inputs, outputs, bounds, memory use and the time of a run."""
    rows = "".join(
        f"<tr><td>{title}</td><td>{escape(e.name)}</td><td>{escape(e.dtype)}</td>"
        f"<td>{escape(format_shape(e.shape))}</td></tr>"
        for title, tensors in (("input", network.inputs), ("output", network.outputs))
        for e in tensors
    )
    bounds = ", ".join(f"{name} {low} to {high}" for name, (low, high) in network.dims.items())
    notes = [escape(each) for each in (bounds, str(network.memory or ""), run_time) if each]
    return (
        f"<b>{escape(network.name)}</b><table><tr><th></th><th>name</th><th>type</th>"
        f"<th>shape</th></tr>{rows}</table>{'<br>'.join(notes)}"
    )


def run_time(network: Network) -> str:
    """Return the time of one run as text, measured for 0.03 s on random inputs; "" if random inputs
    are not possible."""
    try:
        run = network.warm_executor().run
    except ValueError:
        return ""
    return f"a run takes {duration(measure(run, seconds=0.03).median)}"
