"""Archives in Model Library Format: their files, and how a program calls their networks.

Commands learn how to call a network from the metadata only, never from its C text.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmrt.compiler.symbols import prefix_of
from tvmrt.runtime.archive_errors import archive_error_text

METADATA = "metadata.json"


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the bytes of a file. Raises ValueError if the archive does not contain it."""
    for candidate in (name, f"./{name}"):
        try:
            member = archive.getmember(candidate)
        except KeyError:
            continue
        if member.isfile():  # links are not followed, since they may form a cycle
            return archive.extractfile(member).read()
    raise ValueError(f"it contains no file {name}")


def unpack_code(
    archive: tarfile.TarFile, folder: Path, *more: str
) -> tuple[list[Path], list[Path]]:
    """Extract the C files and headers of an archive; return the C files and the header folders.

    Paths outside of the folder are skipped; ``more`` are further folders of C files.
    """
    folders = ("codegen/host/src", "codegen/host/include", "runtime/include", *more)
    sources = []
    for member in archive.getmembers():
        name = member.name.removeprefix("./")
        inside = ".." not in Path(name).parts and name.startswith(tuple(f"{p}/" for p in folders))
        if not member.isfile() or not inside:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(read_member(archive, member.name))
        if path.suffix == ".c":
            sources.append(path)
    return sources, [folder / place for place in folders[1:3]]


@dataclass(frozen=True)
class ArchiveNetwork:
    """Network of an archive for a board: ``module`` is its metadata, ``weights`` the content of its
    weight file, if it has one."""

    name: str
    module: Mapping[str, Any]
    sources: Sequence[Path]
    includes: Sequence[Path]
    weights: bytes | None = None

    @property
    def prefix(self) -> str:
        return prefix_of(self.module["model_name"])

    @property
    def memory(self) -> Mapping[str, Any]:
        return self.module["memory"]

    @property
    def main(self) -> Mapping[str, Any]:
        return self.memory["functions"]["main"][0]

    @property
    def interface(self) -> Mapping[str, Any]:
        """How a program calls the network, as ``model_library_format`` writes it."""
        return self.module["interface"]

    @property
    def lent_pools(self) -> list[Mapping[str, Any]]:
        """Pools whose memory the program provides, in the order of the arguments."""
        lent = (pool for pool in self.memory["pools"] if pool["is_external"])
        return sorted(lent, key=lambda pool: pool["name"])

    @property
    def loads_weights(self) -> bool:
        """Whether the program has to copy weights into pools before runs."""
        return any(pool["kept_bytes"] for pool in self.memory["pools"])


def unpack_networks(path: Path, folder: Path) -> list[ArchiveNetwork]:
    """Extract an archive for a board; return its networks, with the code that they call.

    Raises ValueError if the file is not such an archive.
    """
    from tvmrt.compiler.export.vendors import vendor_code, vendor_includes, vendors_of

    try:
        with tarfile.open(path) as archive:
            modules = json.loads(read_member(archive, METADATA))["modules"]
            vendors = vendors_of(modules.values())
            # vendors' C code may call the runtime
            more = ("runtime/src_backend",) if vendors else ()
            code, includes = unpack_code(archive, folder, *more)
            files = {
                name: read_member(archive, module["weights"]["file"])
                for name, module in modules.items()
                if "weights" in module
            }
            for module in modules.values():
                _ = module["interface"], module["target"][0], module["model_name"]  # read later
    except (tarfile.TarError, KeyError, TypeError, AttributeError, ValueError, EOFError) as error:
        text = archive_error_text(error).partition(";")[0]
        raise ValueError(
            f"{path} is not an archive of a network for a board ({text}); 'tvmrt compile "
            "NET.onnx -o NET.tar --board NAME' writes one"
        ) from None
    sources = [source for source in code if source.suffix == ".c"] + vendor_code(vendors)
    includes += vendor_includes(vendors)
    return [
        ArchiveNetwork(name, module, sources, includes, files.get(name))
        for name, module in modules.items()
    ]
