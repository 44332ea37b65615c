"""Files of reports: the page, and the data."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tvmrt.compiler.sdk.export import replacing
from tvmrt.file_suffix import suffix_of
from tvmrt.plugins.report.graph_layout import layout_graph

FOLDER = Path(__file__).parent / "page"
TEMPLATE = "report.html.j2"
SUFFIXES = (".html", ".json")


def html(data: dict[str, Any]) -> str:
    """Return the page of a report.

    Raises ImportError if Jinja2 is missing.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ImportError(
            "pages need Jinja2: pip install 'tvmrt[compile]', or write the data to a .json file"
        ) from None
    environment = Environment(
        loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    parts = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    return environment.get_template(TEMPLATE).render(page=parts, data=data, layout=_layout(data))


def _layout(data: dict[str, Any]) -> dict[str, Any]:
    count = sum(len(data[part]) for part in ("inputs", "operators", "outputs"))
    found = layout_graph(count, [(a, b) for a, b in data["edges"]])
    return {"x": found.x, "layer": found.layer, "bends": found.bends}


def write(path: str | os.PathLike[str], data: dict[str, Any]) -> None:
    """Write a page, or the data if the file name ends with ``.json``; atomically.

    Raises ValueError for another suffix, and OSError if writing fails.
    """
    check_name(path)
    text = html(data) if suffix_of(path) == ".html" else json.dumps(data)
    with replacing(path) as aside:
        aside.write_text(text, encoding="utf-8")


def check_name(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if a file's suffix is not a report's."""
    if suffix_of(path) not in SUFFIXES:
        raise ValueError(f"{os.fspath(path)}: a report is written as {' or '.join(SUFFIXES)}")
