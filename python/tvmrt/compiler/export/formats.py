"""Output formats of plug-ins: files by suffix, folders by name."""

from __future__ import annotations

from tvmrt import plugin


def formats() -> list[str]:
    """Return the names of the folder formats that plug-ins write."""
    return [key for key in plugin.keys("exporters") if not key.startswith(".")]


def output_suffixes() -> list[str]:
    """Return the suffixes of the files that plug-ins write."""
    return [key for key in plugin.keys("exporters") if key.startswith(".")]


def exporter(key: str) -> plugin.Exporter | None:
    """Return the exporter of a suffix or of a folder format; None if no plug-in has one.

    Raises
    ------
    ValueError
        If a plug-in's exporter is disabled or not an Exporter; the text names the plug-in.
    ImportError
        If the plug-in's code cannot be imported.
    """
    factory = plugin.find("exporters", key)
    if factory is None:
        if (reason := plugin.why_missing("exporters", key)) is not None:
            raise ValueError(reason)
        return None
    exporter = factory() if isinstance(factory, type) else factory
    if not isinstance(exporter, plugin.Exporter):
        owner = plugin.owner_of("exporters", key)
        raise ValueError(
            f"the exporter of {key} in the plug-in {owner} is not a tvmrt.plugin.Exporter"
        )
    return exporter
