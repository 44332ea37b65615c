"""Files outside of plugins/ refer to no plug-in; plug-ins name each other by `requires`."""

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


def test_package_imports_no_plugin():
    wrong = {
        str(file): names
        for file in sorted((ROOT / "python" / "tvmrt").rglob("*.py"))
        if (names := {n for n in _imports(file) if n.startswith("tvmrt.plugins.")})
    }
    assert not wrong


def test_package_names_no_module_of_a_plugin():
    package = ROOT / "python" / "tvmrt"
    public = [
        path for path in PLUGINS.glob("*/public/[a-z]*") if not (package / path.name).exists()
    ]
    named = re.compile(rf"\btvmrt(\.| import .*\b)({'|'.join(path.stem for path in public)})\b")
    wrong = {
        str(file): found[0]
        for file in sorted(package.rglob("*.py"))
        if public and (found := named.search(file.read_text(encoding="utf-8")))
    }
    assert not wrong


# The rule: outside of plugins/ no code names a plug-in's folder or build output, and no code or
# test uses a plug-in's device or command by name. A word that is also a format, another tool, a
# kind of memory or plain English is allowed: `.tflite`, onnxruntime as a reference, "report".
CODE = (
    "python", "include", "src_backend", "src_runtime", "packaging",
    "meson.build", "meson.options", "conftest.py", "run", "pyproject.toml", "ruff.toml",
    ".ci/run", "docs/mkdocs.yml",
)  # fmt: skip
TESTS = ("tests/python", "tests/compat", "tests/c", "tests/fuzz", "tests/lint", "tests/coverage")
TEXT = (".py", ".c", ".h", ".build", ".options", ".yml", ".toml", ".txt", ".in", "")
OTHER_MEANINGS = {
    "onnxruntime": "the reference package",
    "opencl": "a kind of device in the ABI of TVM, and a language of bodies of operators",
}


def _files(tops: tuple[str, ...]) -> list[Path]:
    found = [f for top in tops for f in [ROOT / top, *sorted((ROOT / top).rglob("*"))]]
    return [
        f for f in found
        if f.is_file() and f.suffix in TEXT and not {"__pycache__", "build"} & {*f.parts}
    ]  # fmt: skip


def _keys(table: str) -> list[str]:
    """Return the keys that all plug-ins add to one of the tables."""
    found = []
    for name in NAMES:
        if (PLUGINS / name / "python" / "plugin.py").is_file():
            found += getattr(resolve(f"tvmrt.plugins.{name}.plugin:PLUGIN"), table)
    return found


def _lines(files: list[Path], pattern: str) -> list[str]:
    """Return lines that match the pattern, as file:line."""
    found = []
    for file in files:
        text = file.read_text(encoding="utf-8", errors="replace")
        for match in re.finditer(pattern, text):
            place = f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            found.append(f"{place}: {match[0]}")
    return found


@pytest.mark.skipif(not NAMES, reason="there are no plug-ins")
def test_no_other_file_names_a_plugin_folder_or_library():
    names = "|".join(NAMES)
    pattern = rf"\bplugins[./]({names})\b|\blibtvmrt_({names})\b|\"plugins\" / \"({names})\""
    assert not _lines(_files((*CODE, *TESTS)), pattern)


@pytest.mark.skipif(not NAMES, reason="there are no plug-ins")
def test_product_names_no_plugin_device():
    devices = "|".join(sorted({*_keys("devices")} - OTHER_MEANINGS.keys()))
    assert not _lines(_files(("python/tvmrt", "meson.build")), rf"[\"']({devices})[\"']")


@pytest.mark.skipif(not NAMES, reason="there are no plug-ins")
def test_other_tests_use_no_plugin_device_or_command():
    devices = "|".join(sorted(_keys("devices")))
    commands = "|".join(re.escape(key).replace("\\ ", '", "') for key in sorted(_keys("commands")))
    pattern = (
        rf"\b(devices|require_device)=\[\"({devices})[\":]|\"--device\", \"({devices})\""
        rf"|\"device\", \"test\", \"({devices})\""
        rf"|\b(main|run|invoke)\(\[\"({commands})\"|\"tvmrt\", \"({commands})\""
    )
    own = ROOT / "tests" / "python" / "plugins"
    files = [f for f in _files(("tests/python", "tests/compat")) if own not in f.parents]
    assert not _lines(files, pattern)


# A DLPack memory type, and a language of custom operators: names of the interface.
INTERFACE = {"opencl"}
OF_TVM = re.compile(r"\bdnnl_json\b")


def test_no_other_file_names_a_plugin_device():
    """Tests that need a device define one, or belong to the plug-in."""
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
def test_every_plugin_has_a_description(name):
    text = (PLUGINS / name / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert (PLUGINS / name / "tests").is_dir()
