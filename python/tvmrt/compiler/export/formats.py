"""Formats of output that plug-ins add: files by their suffix, folders by their name."""

from __future__ import annotations

from tvmrt import plugin


def formats() -> list[str]:
    """Names of the kinds of folders that plug-ins write."""
    return [key for key in plugin.keys("exporters") if not key.startswith(".")]


def output_suffixes() -> list[str]:
    """Suffixes of the files that plug-ins write."""
    return [key for key in plugin.keys("exporters") if key.startswith(".")]


def exporter(key: str) -> plugin.Exporter | None:
    """The exporter of a suffix or of a kind of folder; None if no plug-in has one.

    Raises
    ------
    ValueError
        If a plug-in has one that is not used, or that is no Exporter; the text names the plug-in.
    ImportError
        If the plug-in's code does not load.
    """
    found = plugin.find("exporters", key)
    if found is None:
        if (reason := plugin.why_absent("exporters", key)) is not None:
            raise ValueError(reason)
        return None
    made = found() if isinstance(found, type) else found
    if not isinstance(made, plugin.Exporter):
        owner = plugin.owner_of("exporters", key)
        raise ValueError(
            f"the exporter of {key} in the plug-in {owner} is not a tvmrt.plugin.Exporter"
        )
    return made
