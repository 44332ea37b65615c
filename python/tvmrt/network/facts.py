"""What is known of a compiled network and does not stand in its library: a file beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.ir.bundle import Bundle

FILE = "facts.json"
PICTURE = "memory.svg"


@dataclass(frozen=True)
class Memory:
    """What a network takes, in bytes, known before it ran.

    Parameters
    ----------
    arena_bytes
        All tensors between its operators, for each caller that runs it at the same time.
    lower_bound_bytes
        What no plan of the tensors could do with less of.
    weights_bytes
        Its weights, once for all callers.
    input_bytes, output_bytes
        Its inputs and its outputs, at their largest.
    """

    arena_bytes: int
    lower_bound_bytes: int
    weights_bytes: int
    input_bytes: int
    output_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.arena_bytes:,} B for tensors (at least {self.lower_bound_bytes:,}), "
            f"{self.weights_bytes:,} B of weights"
        )


@dataclass(frozen=True)
class Facts:
    """What the compiler told; empty for a library that was found compiled.

    Parameters
    ----------
    inputs, outputs
        Their names as the network has them, in their order.
    labels
        Strings that an output's numbers are places of, by its name.
    bundles
        The sequences and optional values among inputs and outputs, by name.
    memory
        What the network takes.
    beside
        Digests of the files with weights that stand beside the network's own, by their names.
    aliases
        Further names of inputs, to their names.
    related_dims
        Dimensions whose elements depend on each other, so that no run is split along them.
    picture
        What lies where in memory and when, as SVG; empty where nothing drew it.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    memory: Memory | None = None
    beside: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    picture: str = ""
    related_dims: tuple[str, ...] = ()

    def write(self, folder: Path) -> None:
        """Write the file into a folder, and the picture beside it. Raises OSError."""
        told = asdict(self)
        (folder / PICTURE).write_text(told.pop("picture"), encoding="utf-8")
        (folder / FILE).write_text(json.dumps(told), encoding="utf-8")


def facts_of(library: CompiledLibrary, beside: Mapping[str, str]) -> Facts:
    """What a compiled library tells."""
    summary = library.summary
    memory = Memory(
        summary.arena_bytes,
        summary.lower_bound_bytes,
        summary.weights_bytes,
        sum(each.nbytes for each in summary.inputs),
        sum(each.nbytes for each in summary.outputs),
    )
    return Facts(
        tuple(each.name for each in summary.inputs),
        tuple(each.name for each in summary.outputs),
        {each.name: each.labels for each in summary.outputs if each.labels},
        library.bundles,
        memory,
        beside,
        dict(library.program.aliases),
        _picture(library),
        library.related_dims,
    )


def _picture(library: CompiledLibrary) -> str:
    """That of its memory; empty where Jinja2 is missing, which a compiler's installation has."""
    from tvmrt.compiler.pictures import memory_picture  # needed when something was compiled

    try:
        return memory_picture.svg(memory_picture.of_libraries([library]))
    except ImportError:
        return ""


def read_facts(folder: Path) -> Facts:
    """Read the file in a folder. Raises ValueError or OSError where it is damaged or missing."""
    try:
        found: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Facts(
            tuple(found["inputs"]),
            tuple(found["outputs"]),
            {name: tuple(texts) for name, texts in found["labels"].items()},
            {name: _bundle(each) for name, each in found["bundles"].items()},
            Memory(**found["memory"]),
            dict(found["beside"]),
            dict(found["aliases"]),
            (folder / PICTURE).read_text(encoding="utf-8"),
            tuple(found["related_dims"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder / FILE} is damaged ({error}); remove {folder}") from None


def _bundle(found: Mapping[str, Any]) -> Bundle:
    from tvmrt.compiler.ir.bundle import Bundle  # seldom needed

    return Bundle(**{**found, "parts": tuple(found["parts"]), "keys": tuple(found["keys"])})
