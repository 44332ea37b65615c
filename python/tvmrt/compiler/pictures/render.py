"""Pages and pictures from Jinja2 templates."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def render(template: str, folders: Sequence[Path] = (FOLDER,), **values: Any) -> str:
    """Render a template in the folders. Raise ImportError if Jinja2 is missing."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ImportError(
            "pages and pictures need Jinja2: pip install 'tvmrt[compile]', or write the data to "
            "a .json file"
        ) from None
    environment = Environment(
        loader=FileSystemLoader(folders), autoescape=True, undefined=StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return environment.get_template(template).render(values)
