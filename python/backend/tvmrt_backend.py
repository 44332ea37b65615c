"""The build backend: meson-python, with a description of the package that an index can show.

``TVMRT_README_URL`` is the address at which the files of this version are to be seen; without it
the description has no links to them.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import mesonpy
from index_readme import described
from mesonpy import (  # noqa: F401 (the hooks)
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

ADDRESS = "TVMRT_README_URL"


class _Metadata(mesonpy.Metadata):
    @classmethod
    def from_pyproject(cls, *arguments: Any, **named: Any) -> Any:
        found = super().from_pyproject(*arguments, **named)
        text = described(found.readme.text, os.environ.get(ADDRESS))
        found.readme = replace(found.readme, text=text)
        return found


mesonpy.Metadata = _Metadata
