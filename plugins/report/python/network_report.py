"""Report of a compiled network, with times if it runs on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from typing import Any

from tvmrt.compiler.sdk.export import CompiledLibrary
from tvmrt.plugins.report.collect import collect
from tvmrt.plugins.report.page import html, write


class Report:
    """Report of a network; ``data`` consists of plain dictionaries and lists.

    Notebooks display its page; ``save`` writes the page or the data.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def html(self) -> str:
        """Return the page as text. Raises ImportError if Jinja2 is missing."""
        return html(self.data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page (``.html``) or the data (``.json``). Raises ValueError and OSError."""
        write(path, self.data)

    def __repr__(self) -> str:
        operators = len(self.data["operators"])
        return f"<report of {self.data['network']}: {operators} operators>"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html())}" style="width:100%;height:720px;border:0" '
            f'title="{escape(repr(self))}"></iframe>'
        )


def report(
    library: CompiledLibrary,
    name: str,
    executor: Any = None,
    peaks: Mapping[str, float] | None = None,
) -> Report:
    """Return the report of a compiled network.

    Parameters
    ----------
    library
        The result of ``tvmrt.compile``.
    name
        Name of the network on the page.
    executor
        An executor that has run, to be timed; None if the network does not run here.
    peaks
        Measured operations per second of this machine, by precision.
    """
    data = collect(library, name)
    if executor is not None:
        from tvmrt.plugins.report.roofline import add_rooflines, bandwidths
        from tvmrt.plugins.report.timing import machine, measure
        from tvmrt.runtime import num_threads

        data["timing"] = measure(executor, data["operators"])
        here = data["machine"] = {**machine(), "threads": num_threads()}
        flops = {"float32": here["flops"], **(peaks or {})}
        here["peaks"], moved = add_rooflines(data["operators"], flops, bandwidths(here["threads"]))
        here["bytes"] = moved[max(moved)]
    return Report(data)
