"""Allowed includes of C folders, as in docs/explanation/architecture.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TOPS = ("src_backend", "src_runtime", "python/src")
# Generated files are in the build folder; their includes are resolved from here.
GENERATED_FROM = ROOT / "src_runtime"
QUOTED = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
PUBLIC = re.compile(r"^#include <tvm/runtime/([^>]+)>", re.MULTILINE)

# Allowed includes of a folder besides its own files and public headers; entries may be files.
MAY_INCLUDE = {
    "src_backend": set(),
    "src_runtime/firmware": {"src_backend"},
    "src_runtime/platform": {"src_backend"},
    "src_runtime/base": {"platform", "firmware/json.h", "firmware/params_reader.h"},
    "src_runtime/core": {"platform", "base", "firmware/dtype.h"},
    "src_runtime/tensors": {"platform", "base", "core"},
    "src_runtime/modules": {"platform", "base", "core", "tensors"},
    "src_runtime/executors": {
        "platform",
        "base",
        "core",
        "tensors",
        "modules",
        "firmware/aot_metadata.h",
        "firmware/graph_walk.h",
    },
    # Separate libraries, loaded on the first call of one of their functions.
    "src_runtime/named": {"platform", "base", "core", "tensors", "modules"},
    "src_runtime/regions": {"platform", "base", "core", "tensors", "modules"},
    "src_runtime/schedules": {"platform", "base", "core", "tensors", "modules", "executors"},
    "src_runtime/crt": {"core", "tensors", "executors", "firmware/packed_func.h"},
    # runtime.c connects lower layers with upper ones; generated files are tables.
    "src_runtime": {"core/hooks.h", "core/plugins.h", "modules/devices.h"},
    "src_runtime/versioned": set(),
    # Headers for plug-ins, as in its README.
    "src_runtime/sdk": {"platform", "base", "core", "tensors", "modules", "firmware/frames.h"},
    "python/src": set(),
}
KERNELS = ROOT / "include/tvm/runtime/kernels"
# Allowed includes of a folder of kernels besides its own files; "" is the top folder.
KERNELS_MAY_INCLUDE = {
    "scalar": set(),
    "tile": {"scalar"},
    "": {"tile", "scalar"},
    "op": {"tile", "scalar", ""},
    "board": {"tile", "scalar", ""},
}
# Public headers of upper layers, and the folders that may use them.
RESERVED = {
    "device.h": {"modules/devices.h", "executors", "schedules", "regions"},
    "module_plugin.h": {"modules", "executors", "schedules", "regions"},
    "memory_device.h": {"tensors"},
    "crt/": {"modules", "crt", "firmware", "src_backend"},
}


PLUGINS = sorted(ROOT.glob("plugins/*/src"))
SDK = ROOT / "src_runtime" / "sdk"


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.parent.name)
def test_plugins_include_themselves_public_headers_and_the_sdk(folder):
    """Devices do not need the SDK: their code is also built outside of the tree."""
    is_device = "plugin_is_device = true" in (folder.parent / "meson.build").read_text()
    allowed = {folder} if is_device else {folder, SDK}
    wrong = []
    for file in sorted(folder.rglob("*.[ch]")):
        text = file.read_text(encoding="utf-8")
        for name in QUOTED.findall(text):
            target = (file.parent / name).resolve()
            if not target.is_file() or folder not in target.parents:
                target = SDK.parent / name
            if not target.is_file() or not allowed & set(target.parents):
                wrong.append(f"{file.relative_to(ROOT)} includes {name}")
    assert not wrong


def test_core_does_not_include_plugins():
    for file in _sources():
        assert not [t for t in _included(file) if ROOT / "plugins" in t.parents], file


def test_page_of_the_sdk_lists_its_headers():
    listed = re.findall(r"^\| `sdk/([^`]+)`", (SDK / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(file.name for file in SDK.glob("*.h"))


def _sources() -> list[Path]:
    files = (file for top in TOPS for file in (ROOT / top).rglob("*"))
    return sorted(f for f in files if f.name.endswith((".c", ".h", ".c.in")))


def _folder(file: Path) -> str:
    return file.parent.relative_to(ROOT).as_posix()


def _included(file: Path) -> list[Path]:
    """Return the files that a file includes in quotes."""
    base = GENERATED_FROM if file.suffix == ".in" else file.parent
    names = QUOTED.findall(file.read_text(encoding="utf-8"))
    return [(base / name).resolve() for name in names]


def _allowed(folder: str) -> set[str]:
    """Return folders and files below the root that a folder may include."""
    return {
        name if (ROOT / name).exists() else f"src_runtime/{name}" for name in MAY_INCLUDE[folder]
    }


@pytest.mark.parametrize("folder", sorted(MAY_INCLUDE))
def test_folder_includes_only_allowed_folders(folder):
    allowed = _allowed(folder) | {folder}
    wrong = [
        f"{file.relative_to(ROOT)} includes {target.relative_to(ROOT)}"
        for file in _sources()
        if _folder(file) == folder
        for target in _included(file)
        if not allowed & {_folder(target), target.relative_to(ROOT).as_posix()}
    ]
    assert not wrong


def test_every_folder_and_every_included_file_is_known():
    files = _sources()
    assert {_folder(file) for file in files} == MAY_INCLUDE.keys()
    missing = [f"{f}: {target}" for f in files for target in _included(f) if not target.is_file()]
    assert not missing
    assert not [
        name for folder in MAY_INCLUDE for name in _allowed(folder) if not (ROOT / name).exists()
    ]


def _without_cycles(arrows: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the part of the graph that is in a cycle or depends on one."""
    left = dict(arrows)
    while ready := {name for name, known in left.items() if not known & left.keys()}:
        left = {name: known for name, known in left.items() if name not in ready}
    return left


def test_allowed_includes_have_no_cycles():
    def folder_of(name: str) -> str:
        return name if name in MAY_INCLUDE else name.rpartition("/")[0]

    assert not _without_cycles({f: {folder_of(n) for n in _allowed(f)} for f in MAY_INCLUDE})


def test_files_have_no_include_cycles():
    """x.c and x.h count as one file."""
    arrows: dict[str, set[str]] = {}
    for file in _sources():
        unit = file.with_suffix("").relative_to(ROOT).as_posix()
        known = {t.with_suffix("").relative_to(ROOT).as_posix() for t in _included(file)}
        arrows[unit] = arrows.get(unit, set()) | known - {unit}
    assert not _without_cycles(arrows)


def test_public_headers_have_no_include_cycles():
    """Kernels include each other in quotes, all other headers in brackets from the top."""
    include = ROOT / "include"
    arrows: dict[str, set[str]] = {}
    for file in include.rglob("*.h"):
        text = file.read_text(encoding="utf-8")
        own = set(_included(file))
        own |= {
            include / name for name in re.findall(r"^\s*#\s*include <([^>]+)>", text, re.MULTILINE)
        }
        own = {target.relative_to(include).as_posix() for target in own if target.is_file()}
        arrows[file.relative_to(include).as_posix()] = own
    assert "tvm/runtime/c_packed_func.h" in arrows["tvm/runtime/c_backend_api.h"]
    assert not _without_cycles(arrows)


def test_public_header_folders_have_no_include_cycles():
    """Kernels have their own rules, below."""
    include = ROOT / "include"
    arrows: dict[str, set[str]] = {}
    for file in include.rglob("*.h"):
        if KERNELS in file.parents:
            continue
        names = re.findall(r"^#include <((?:tvm|dlpack)/[^>]+)>", file.read_text(), re.MULTILINE)
        folders = {(include / name).parent for name in names}
        known = {f.relative_to(include).as_posix() for f in folders - {file.parent}}
        folder = file.parent.relative_to(include).as_posix()
        arrows[folder] = arrows.get(folder, set()) | known
    assert "tvm/runtime" in arrows
    assert not _without_cycles(arrows)


@pytest.mark.parametrize("header", sorted(RESERVED))
def test_public_headers_do_not_include_upper_layers(header):
    wrong = {
        f"{file.relative_to(ROOT)} includes {name}"
        for file in _sources()
        if not RESERVED[header] & {*file.relative_to(ROOT).parts, "/".join(file.parts[-2:])}
        for name in PUBLIC.findall(file.read_text(encoding="utf-8"))
        if name.startswith(header)
    }
    assert not wrong


def test_every_folder_of_kernels_has_a_row():
    folders = {"" if f.parent == KERNELS else f.parent.name for f in KERNELS.rglob("*.h")}
    assert folders == set(KERNELS_MAY_INCLUDE)


@pytest.mark.parametrize("folder", KERNELS_MAY_INCLUDE)
def test_kernels_include_only_lower_layers(folder):
    found = set()
    for file in sorted((KERNELS / folder).glob("*.h")):
        for name in QUOTED.findall(file.read_text()):
            included = (file.parent / name).resolve()
            assert included.is_file(), f"{file.name} includes {name}, which is not there"
            found.add("" if included.parent == KERNELS else included.parent.name)
    assert found - {folder} <= KERNELS_MAY_INCLUDE[folder]


def test_kernels_include_each_other_in_quotes():
    """Paths are relative to the file, so that the two tests above see every include."""
    for file in KERNELS.rglob("*.h"):
        assert "kernels/" not in " ".join(PUBLIC.findall(file.read_text())), file
