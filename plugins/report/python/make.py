"""A report of a compiled network, timed on this machine where it runs here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from typing import Any

from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.plugins.report.collect import collect
from tvmrt.plugins.report.page import html, write


class Report:
    """All that is known of a network: ``data``, plain dictionaries and lists.

    Notebooks show it as the page; ``save`` writes that, or the data.
    """

    def __init__(self, data: dict[str, Any], against: dict[str, Any] | None = None) -> None:
        self.data = data
        self.against = against

    def html(self) -> str:
        """The page as text. Raises ImportError where Jinja2 is missing."""
        return html(self.data, self.against)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, ``.html``, or the data, ``.json``. Raises ValueError and OSError."""
        write(path, self.data, self.against)

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
    """The report of a compiled network.

    Parameters
    ----------
    library
        What ``tvmrt.compile`` gave.
    name
        What the network is called on the page.
    executor
        One of the network that has run, to be timed; None for what does not run here.
    peaks
        Operations a second that this machine reaches, by precision, where they were measured.
    """
    data = collect(library, name)
    if executor is not None:
        from tvmrt.plugins.report.roofline import enter
        from tvmrt.plugins.report.timing import machine, measure
        from tvmrt.runtime import num_threads

        data["timing"] = measure(executor, data["operators"])
        data["machine"] = {**machine(), "threads": num_threads()}
        flops = {"float32": data["machine"]["flops"], **(peaks or {})}
        data["machine"]["peaks"] = enter(data["operators"], flops, data["machine"]["bytes"])
    return Report(data)
