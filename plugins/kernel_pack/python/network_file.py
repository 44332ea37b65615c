"""Files of compiled networks that run on any processor of a family: ``tvmrt compile -o net.tvmrt``.

A file has a line with tvmrt's version and the hash of the rest, an archive of the network's C and
constants for each level of the kernel pack. Loading it compiles the C for the level of the
processor as link.py does, so it needs neither the network nor a C compiler.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvmrt import __version__
from tvmrt.install_paths import find_include_path
from tvmrt.network.sidecar import metadata_of
from tvmrt.option_syntax import options
from tvmrt.plugin import Exporter

from . import link, pack

SUFFIX = ".tvmrt"
_MARK = b"tvmrt network"
_LINE = re.compile(rb"%s ([\d.]+) ([0-9a-f]{64})\n" % _MARK)
_CONTENTS = "contents.json"  # file names by level; each maps to the hash that names its bytes
_FIXED = "fixed"  # the level of networks with --reproducible, which have one for all processors


class NetworkFile(Exporter):
    """Writes the file of a network."""

    def defaults(self, name: str) -> Mapping[str, str]:
        return {"target": pack.TARGET}

    def export(self, library: Any, path: Path) -> None:
        """Write a ``CompiledLibrary``, compiled for each level of the pack.

        Raises ValueError if the file would not have all of the network, CompileError if the pack
        cannot build it.
        """
        _check(library)
        with zipfile.ZipFile(path, "w") as archive:
            contents = {
                level: _stored_files(each, archive) for level, each in _by_level(library).items()
            }
            archive.writestr(zipfile.ZipInfo(_CONTENTS), json.dumps(contents))
        data = path.read_bytes()
        line = f"{_MARK.decode()} {_interface(__version__)} {hashlib.sha256(data).hexdigest()}\n"
        with path.open("wb") as file:
            file.writelines([line.encode(), data])
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            link_file(path, folder)  # an error now instead of when it is loaded


def _check(library: Any) -> None:
    chosen = library.options
    if chosen.firmware:
        raise ValueError(
            f"a {SUFFIX} file is for hosts; choose a folder of sources, or a .tar file"
        )
    if library.target.name != pack.TARGET:
        choose = f"{{target={pack.TARGET}}}"
        text = f"a {SUFFIX} file calls the kernel pack; choose {choose}, or write a .so file"
        raise ValueError(options(text))
    if chosen.params != "embed":
        raise ValueError(options(f"a {SUFFIX} file has its weights; choose {{params=embed}}"))
    if flags := library.sources.link_flags:
        raise ValueError(
            f"a {SUFFIX} file cannot have libraries of others ({' '.join(flags)}), which this "
            "network links; write a .so file"
        )


def _by_level(library: Any) -> dict[str, Any]:
    """Return the network compiled for each level of the pack."""
    if library.target.fixed_order:
        return {_FIXED: library}
    return {
        level: library if target == library.target else library.for_target(target)
        for level, target in pack.targets_of_family().items()
    }


def _stored_files(library: Any, archive: zipfile.ZipFile) -> dict[str, str]:
    """Add the sources of a network to an archive; return the hashes, which name them there."""
    stored = {}
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as name:
        library.write_sources(Path(name))
        metadata_of(library, {}, library.options.origin).write(Path(name))
        folders = find_include_path()
        for file in sorted(Path(name).iterdir()):
            data = file.read_bytes()
            if file.suffix in (".c", ".h"):
                data = link.with_headers_of_plugins(data.decode(), folders).encode()
            key = stored[file.name] = hashlib.sha256(data).hexdigest()
            if key not in archive.namelist():
                # a ZipInfo has no time of its own, so that equal networks are equal files
                archive.writestr(zipfile.ZipInfo(key), data, zipfile.ZIP_DEFLATED, 1)
    return stored


def link_file(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> None:
    """Write the library of a network for this processor and its metadata to a folder.

    Raises ValueError for a file that is damaged, of another version of tvmrt or of another family
    of processors; CompileError if this processor or installation has no kernels; OSError.
    """
    with zipfile.ZipFile(io.BytesIO(_archive_in(path))) as archive:
        contents = json.loads(archive.read(_CONTENTS))
        level = _FIXED if _FIXED in contents else pack.find_pack().level
        if level not in contents:
            raise ValueError(
                f"{path} has code for {', '.join(contents)}, and the kernels of this processor are "
                f"{level}; compile the network here"
            )
        for name, key in contents[level].items():
            Path(folder, os.path.basename(name)).write_bytes(archive.read(key))
    sources = sorted(each for each in Path(folder).iterdir() if each.suffix in (".c", ".S"))
    link.build_library(sources, Path(folder, "network.so"), ())


def _archive_in(path: str | os.PathLike[str]) -> bytes:
    """Return the archive in a file, checked by version and hash."""
    data = Path(path).read_bytes()
    match = _LINE.match(data)
    if match is None:
        raise ValueError(f"{path} is not a network of tvmrt, or it is damaged; compile it again")
    version, digest = match[1].decode(), match[2].decode()
    if version != _interface(__version__):
        raise ValueError(
            f"{path} is for tvmrt {version}, and this is {__version__}; compile it again, or "
            f"install tvmrt {version}"
        )
    rest = data[match.end() :]
    if hashlib.sha256(rest).hexdigest() != digest:
        raise ValueError(f"{path} is damaged: its contents do not have its hash; copy it again")
    return rest


def _interface(version: str) -> str:
    """Return the part of a version of tvmrt that changes with the kernels' interface."""
    major, minor = version.split(".")[:2]
    return major if major != "0" else f"0.{minor}"
