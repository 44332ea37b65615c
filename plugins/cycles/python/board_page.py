"""Page of an estimate for a board: time, energy, RAM and flash of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tvmrt.libinfo import __version__

FOLDER = Path(__file__).parent / "page"

# Parts of RAM and flash; each colour is a name in the style sheet.
_RAM = (
    ("arena_bytes", "arena", "convolution"), ("input_bytes", "inputs", "elementwise"),
    ("output_bytes", "outputs", "pooling"), ("static_bytes", "variables", "reduction"),
    ("stack_bytes", "stack", "recurrent"),
)  # fmt: skip


def html(data: Mapping[str, Any], pages: Any) -> str:
    """Return the page for the data of ``tvmrt inspect --board --json``, which it also embeds.

    ``pages`` is the module of the hook "pages". Raises ImportError if Jinja2 is missing.
    """
    networks = [
        {"name": name, "bars": _bars(data, network), **network}
        for name, network in data["networks"].items()
    ]
    return str(
        pages.render(FOLDER / "board.html.j2", data=data, networks=networks, version=__version__)
    )


def _bars(data: Mapping[str, Any], network: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the bars of RAM and flash, split into parts."""
    ram = [(text, network["ram"][name] or 0, colour) for name, text, colour in _RAM]
    weights = network["weights_bytes"]
    flash = [("weights", weights, "product"),
             ("code and constants", network["flash_bytes"] - weights, "device")]  # fmt: skip
    return [
        _bar("RAM", ram, data["ram_bytes"], network["ram"]["stack_bytes"] is None),
        _bar("flash", flash, data["flash_bytes"]),
    ]


def _bar(
    what: str, parts: Sequence[tuple[str, int, str]], capacity: int | None, open_end: bool = False
) -> dict[str, Any]:
    """Return one bar, scaled to the board's ``capacity``, or to the used bytes if they exceed
    it."""
    used = sum(nbytes for _, nbytes, _ in parts)
    whole = max(used, capacity or 0, 1)
    return {
        "what": what,
        "taken": used,
        "room": capacity,
        "over": max(0, used - capacity) if capacity is not None else 0,
        "open_end": open_end,
        "parts": [
            {"name": name, "bytes": nbytes, "colour": colour, "percent": 100 * nbytes / whole}
            for name, nbytes, colour in parts
        ],
    }
