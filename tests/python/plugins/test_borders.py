"""What lies outside of plugins/ knows no plug-in; one plug-in knows another only by `requires`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tvmrt.plugin import Plugin, resolve

ROOT = Path(__file__).parents[3]
PLUGINS = ROOT / "plugins"
NAMES = sorted(p.name for p in PLUGINS.iterdir() if p.is_dir()) if PLUGINS.is_dir() else []


def _imports(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_nothing_of_the_package_imports_a_plugin():
    wrong = {
        str(file): names
        for file in sorted((ROOT / "python" / "tvmrt").rglob("*.py"))
        if (names := {n for n in _imports(file) if n.startswith("tvmrt.plugins.")})
    }
    assert not wrong


def test_nothing_of_the_product_names_a_plugins_folder():
    tops = (
        "python/tvmrt",
        "include",
        "src_backend",
        "src_runtime",
        "docs/mkdocs.yml",
        "meson.build",
    )
    named = re.compile(rf"plugins[./]({'|'.join(NAMES)})\b") if NAMES else re.compile(r"(?!)")
    files = [f for top in tops for f in [ROOT / top, *sorted((ROOT / top).rglob("*"))]]
    wrong = [
        str(file)
        for file in files
        if file.suffix in (".py", ".c", ".h", ".build", ".yml")
        and file.is_file()
        and named.search(file.read_text(encoding="utf-8"))
    ]
    assert not wrong


# A type of memory of DLPack, and a language of operators of one's own: names of the interface.
INTERFACE = {"opencl"}
OF_TVM = re.compile(r"\b(contrib\.dnnl|dnnl[._](matmul|conv2d|json))\b")


def test_nothing_outside_names_a_device_of_a_plugin():
    """Tests that need a device have one of their own, or lie in the plug-in."""
    builds = [(name, PLUGINS / name / "meson.build") for name in NAMES]
    devices = {n for n, b in builds if b.is_file() and "plugin_is_device = true" in b.read_text()}
    words = "|".join(sorted(devices - INTERFACE)) or "(?!)"
    named = re.compile(rf"(?<![a-z])({words})(?![a-z])", re.IGNORECASE)
    tops = ("include", "src_backend", "src_runtime", "python", "tests")
    files = [f for top in tops for f in sorted((ROOT / top).rglob("*"))]
    files += [ROOT / "meson.build", ROOT / "meson.options"]
    wrong = []
    for file in files:
        if file.suffix not in (".py", ".pyi", ".c", ".h", ".in", ".build", ".options", ".dict"):
            continue
        found = named.search(OF_TVM.sub("", file.read_text(encoding="utf-8")))
        if found and file != Path(__file__):
            wrong.append(f"{file.relative_to(ROOT)} names {found[0]}")
    assert not wrong


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.everyday(3)
def test_plugins_import_each_other_only_where_they_say_so(name):
    if not (PLUGINS / name / "python").is_dir():
        pytest.skip("it has C code alone")
    plugin = resolve(f"tvmrt.plugins.{name}.plugin:PLUGIN")
    assert isinstance(plugin, Plugin)
    assert plugin.name.replace("-", "_") == name
    imported = {
        each.split(".")[2]
        for file in sorted((PLUGINS / name / "python").rglob("*.py"))
        for each in _imports(file)
        if each.startswith("tvmrt.plugins.")
    }
    assert imported - {name} <= {*plugin.requires}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.everyday(3)
def test_every_plugin_says_what_it_is(name):
    text = (PLUGINS / name / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert (PLUGINS / name / "tests").is_dir()
