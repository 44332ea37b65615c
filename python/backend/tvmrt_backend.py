"""The build backend: meson-python, with a package description that works on package indexes.

``TVMRT_README_URL`` is the address of the files of this version; without it, the description has
no links to them, and the package no URLs. The setting ``device=NAME`` builds the wheel of a device
instead (``device_wheel``).
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import device_wheel
import mesonpy
from index_readme import described, project_urls
from mesonpy import (  # noqa: F401 (the hooks)
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)

ADDRESS = "TVMRT_README_URL"
DEVICE = "device"


class _Metadata(mesonpy.Metadata):
    @classmethod
    def from_pyproject(cls, *arguments: Any, **named: Any) -> Any:
        result = super().from_pyproject(*arguments, **named)
        address = os.environ.get(ADDRESS)
        result.readme = replace(result.readme, text=described(result.readme.text, address))
        if address:
            result.urls = {**(result.urls or {}), **project_urls(address)}
        return result


mesonpy.Metadata = _Metadata


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return further build requirements."""
    more = ["wheel>=0.40"] if DEVICE in (config_settings or {}) else []
    return [*mesonpy.get_requires_for_build_wheel(_others(config_settings)), *more]


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Build the wheel of the package or of a device."""
    settings = config_settings or {}
    if DEVICE in settings:
        address = os.environ.get(ADDRESS)
        return device_wheel.build(str(settings[DEVICE]), wheel_directory, settings, address)
    return mesonpy.build_wheel(wheel_directory, config_settings, metadata_directory)


def _others(settings: dict[str, Any] | None) -> dict[str, Any]:
    """Return the settings for meson-python."""
    return {name: value for name, value in (settings or {}).items() if name != DEVICE}
