"""Folders of plug-ins can be deleted, all of them or each alone.

The sources are copied without the folders, installed into a new environment and used there.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from importlib.util import find_spec

import everyday
import pytest
import trees
from trees import ROOT, Tree

NAMES = sorted({name.split("/")[1] for name in trees.sources() if name.startswith("plugins/")})
EACH = "TVMRT_DELETE_EACH"  # 1, or a comma-separated list of plug-ins
SAME_WITH_PLUGINS = ("docs/test_words", "kernels/test_checkasm")
SITE = all(find_spec(name) for name in ("mkdocs", "material", "mkdocstrings"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not trees.sources(), reason="this is not a git checkout"),
    pytest.mark.skipif(shutil.which("meson") is None, reason="meson is not installed"),
    pytest.mark.skipif(os.name == "nt", reason="needs a POSIX environment of Python"),
]

RUN = """
import numpy as np, sys, tvmrt
net = tvmrt.load(sys.argv[1], cache=False)
x = np.zeros((1, 1, 8, 8), np.float32)
assert net(x).shape == (1, 10)
loaded = tvmrt.load(sys.argv[2])
np.testing.assert_array_equal(loaded(x), net(x))
assert not [m for m in sys.modules if m.startswith("tvmrt.plugins.")], "a plug-in was imported"
"""

LISTED = """
from tvmrt import plugin
print(*sorted(plugin.plugins()))
"""


def _use(tree: Tree) -> str:
    """Show the commands, compile, load and run a small network, and list the plug-ins."""
    digits = tree.folder / "examples" / "digits" / "digits_f32.onnx"
    library = tree.folder / "digits.so"
    shown = tree.ran("-m", "tvmrt", "--help")
    assert "compile" in shown
    tree.ran("-m", "tvmrt", "compile", digits, "-o", library)
    tree.ran("-c", RUN, digits, library)
    return tree.ran("-c", LISTED)


def _build_site(tree: Tree) -> None:
    if SITE:
        tree.ran("docs/build_site.py", tree.folder / "site")
        assert (tree.folder / "site/latest/docs/reference/command-line.html").is_file()


def test_without_plugins_everything_else_works(tmp_path, monkeypatch):
    """A case of each other everyday test passes, and the documentation builds.

    Cases differ in parameters, which do not name plug-ins. The check of words reads no other files
    than in the whole tree, and that of kernels compiles headers alone.
    """
    tree = trees.installed(trees.copied(tmp_path / "tree", ("plugins",)), tmp_path / "environment")
    assert not (tree.folder / "plugins").exists()
    assert _use(tree).split() == []
    for command in ("report", "tune"):
        refused = tree.run("-m", "tvmrt", command, "net.onnx")
        assert refused.returncode == 2
        assert f"No such command '{command}'" in refused.stdout
    _build_site(tree)
    monkeypatch.setenv(everyday.CASES, "1")
    words = ["-m", "not slow", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    words += [f"--ignore=tests/python/{name}.py" for name in SAME_WITH_PLUGINS]
    done = tree.run("-m", "pytest", *words, timeout=3600)
    assert done.returncode == 0, done.stdout[-20_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) > 1200, done.stdout[-2000:]


def _asked() -> list[str]:
    selected = os.environ.get(EACH, "")
    return NAMES if selected == "1" else [name for name in selected.split(",") if name]


@pytest.mark.skipif(not _asked(), reason=f"takes a minute each: {EACH}=1 runs them")
@pytest.mark.parametrize("name", NAMES)
def test_without_one_plugin_the_others_work(name, tmp_path):
    """Commands, a small network and the docs work; all tests are collected."""
    if name not in _asked():
        pytest.skip(f"{EACH} does not name it")
    folder = trees.copied(tmp_path / "tree", (f"plugins/{name}",))
    tree = trees.installed(folder, tmp_path / "environment")
    listed = {found.replace("-", "_") for found in _use(tree).split()}
    python = {path.parent.parent.name for path in ROOT.glob("plugins/*/python/plugin.py")}
    assert listed == python - {name} - _that_require(name)
    _build_site(tree)
    tree.ran("-m", "pytest", "--collect-only", "-q", "-m", "slow or not slow")
    tree.ran("-m", "pytest", "-q", "-n0", "-m", "not slow", "tests/python/plugins")
    tree.ran("-m", "pytest", "-q", "-n0", "-m", "not slow", "tests/python/cli/test_app.py")


def _that_require(name: str) -> set[str]:
    """Return the removed plug-ins: this one and those that require it."""
    found: set[str] = set()
    for path in ROOT.glob("plugins/*/python/plugin.py"):
        needs = re.search(r"requires=\(([^)]*)\)", path.read_text(encoding="utf-8"))
        if needs and name in {word.replace("-", "_") for word in re.findall(r"[\w-]+", needs[1])}:
            found.add(path.parent.parent.name)
    return found | {other for each in found for other in _that_require(each)}


def test_copy_matches_the_tree(tmp_path):
    """The copy lacks only the given folders."""
    left_out = tuple(f"plugins/{name}" for name in NAMES[:1])
    folder = trees.copied(tmp_path / "tree", left_out)
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    found = {name for name in found if not name.startswith(".git/")}
    assert found == {name for name in trees.sources() if not name.startswith(f"{left_out[0]}/")}
    assert sys.prefix not in str(folder)
