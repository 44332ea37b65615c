"""Metadata of a compiled network that its library does not contain, in a file next to it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.ir.bundle import Bundle

FILE = "facts.json"


@dataclass(frozen=True)
class Memory:
    """Memory use of a network in bytes.

    Parameters
    ----------
    arena_bytes
        Intermediate tensors, for each concurrent caller.
    lower_bound_bytes
        Lower bound of every memory plan for these tensors.
    weights_bytes
        Weights, shared by all callers.
    input_bytes, output_bytes
        Inputs and outputs at their maximum size.
    planned_in_runs
        Whether each run plans its memory, because dimensions have no maximum. The bytes are then
        estimates at moderate sizes; only those of the weights are exact.
    """

    arena_bytes: int
    lower_bound_bytes: int
    weights_bytes: int
    input_bytes: int
    output_bytes: int
    planned_in_runs: bool = False

    def __str__(self) -> str:
        if self.planned_in_runs:
            return f"memory is planned in each run, {self.weights_bytes:,} B of weights"
        return (
            f"{self.arena_bytes:,} B for tensors (at least {self.lower_bound_bytes:,}), "
            f"{self.weights_bytes:,} B of weights"
        )


@dataclass(frozen=True)
class NetworkMetadata:
    """Metadata from the compiler; empty for a library that was loaded compiled.

    Parameters
    ----------
    inputs, outputs
        Names of the network's inputs and outputs, in order.
    labels
        Strings that the integers of an output index, by output name.
    bundles
        Sequences and optional values among inputs and outputs, by name.
    memory
        Memory use of the network.
    external_files
        Digests of the external weight files next to the network file, by file name.
    aliases
        Maps further names of inputs to their names.
    open_axes
        By input, the dimension of each axis that the file leaves open and the caller did not
        declare, None for other axes.
    source
        Name of the file or the class of the model when it was compiled, without its folder.
    target
        Name of the target.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bundles: Mapping[str, Bundle] = field(default_factory=dict)
    memory: Memory | None = None
    external_files: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    open_axes: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    source: str = ""
    target: str = ""

    def write(self, folder: Path) -> None:
        """Write the metadata into a folder. Raises OSError."""
        (folder / FILE).write_text(json.dumps(asdict(self)), encoding="utf-8")


def metadata_of(
    library: CompiledLibrary, external_files: Mapping[str, str], source: str
) -> NetworkMetadata:
    """Return the metadata of a compiled library."""
    summary = library.summary
    memory = Memory(
        summary.arena_bytes,
        summary.lower_bound_bytes,
        summary.weights_bytes,
        sum(each.nbytes for each in summary.inputs),
        sum(each.nbytes for each in summary.outputs),
        summary.planned_in_runs,
    )
    return NetworkMetadata(
        tuple(each.name for each in summary.inputs),
        tuple(each.name for each in summary.outputs),
        {each.name: each.labels for each in summary.outputs if each.labels},
        library.bundles,
        memory,
        external_files,
        dict(library.program.aliases),
        dict(library.program.open_axes),
        source,
        library.target.name,
    )


def public_names(names: Iterable[str], bundles: Mapping[str, Bundle]) -> list[str]:
    """Return names with sequences and optional values in place of their tensors."""
    owner = {
        part: name for name, b in bundles.items() for part in (*b.parts, b.count, b.there) if part
    }
    return list(dict.fromkeys(owner.get(name, name) for name in names))


def read_metadata(folder: Path) -> NetworkMetadata:
    """Read the metadata in a folder. Raises ValueError if it is damaged, OSError if missing."""
    try:
        record: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return NetworkMetadata(
            tuple(record["inputs"]),
            tuple(record["outputs"]),
            {name: tuple(texts) for name, texts in record["labels"].items()},
            {name: _bundle(each) for name, each in record["bundles"].items()},
            Memory(**record["memory"]),
            dict(record["external_files"]),
            dict(record["aliases"]),
            {name: tuple(axes) for name, axes in record["open_axes"].items()},
            str(record.get("source", "")),
            str(record.get("target", "")),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder / FILE} is damaged ({error}); remove {folder}") from None


def read_source(folder: Path) -> str:
    """Return ``NetworkMetadata.source`` of a folder; empty if it is unknown."""
    try:
        record = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return str(record.get("source", ""))
    except (OSError, ValueError, AttributeError):
        return ""


def _bundle(fields: Mapping[str, Any]) -> Bundle:
    from tvmrt.compiler.ir.bundle import Bundle  # rarely needed

    return Bundle(**{**fields, "parts": tuple(fields["parts"]), "keys": tuple(fields["keys"])})
