"""The page on releases: its commands, followed in a clone."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import textwrap
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "release.md"
PACKAGES = ("packaging/conda/recipe.yaml", "packaging/vcpkg/ports/tvmrt/vcpkg.json")
BLOCK = re.compile(r"<!-- not run: it changes the clone[^>]*-->\n *```sh\n(.*?) *```\n", re.S)


@pytest.fixture
def clone(tmp_path):
    """Return a clone of this repository, whose commits have an author."""
    git = ["git", "clone", "-q", "--no-hardlinks", ROOT, tmp_path / "clone"]
    failed = subprocess.run(git, check=False, capture_output=True).returncode
    if failed or not (tmp_path / "clone" / "CHANGELOG.md").is_file():
        pytest.skip("this folder is not a git repository")
    for name, value in (("user.name", "A"), ("user.email", "a@example.org")):
        subprocess.run(["git", "config", name, value], cwd=tmp_path / "clone", check=True)
    return tmp_path / "clone"


def output(clone: Path, *command: str) -> str:
    return subprocess.run(
        command, cwd=clone, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_commands_of_the_page_make_a_version_and_begin_the_next(clone):
    blocks = [textwrap.dedent(each) for each in BLOCK.findall(PAGE.read_text())]
    assert len(blocks) == 3
    script = "\n".join(blocks).replace("git tag -s", "git tag -a")  # no key to sign with
    done = subprocess.run(
        ["sh", "-euc", script], cwd=clone, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (tag,) = output(clone, "git", "tag", "--points-at", "HEAD~1").split()
    version, today = tag[1:], date.today().isoformat()
    shown = {name: output(clone, "git", "show", f"{tag}:{name}") for name in (
        "python/tvmrt/VERSION", "CHANGELOG.md", "CITATION.cff", *PACKAGES)}  # fmt: skip
    assert shown["python/tvmrt/VERSION"] == version
    assert f"\nversion: {version}\ndate-released: {today}\n" in shown["CITATION.cff"]
    assert all(shown[name].count(f': "{version}"') == 1 for name in PACKAGES)
    heads = re.findall(r"^## (.+)$", shown["CHANGELOG.md"], re.M)
    assert heads[:2] == ["Unreleased", f"{version} ({today})"]
    assert output(clone, "cat", "python/tvmrt/VERSION").endswith(".dev0")
    assert not output(clone, "git", "status", "--porcelain")


@pytest.mark.slow
def test_the_source_package_has_the_version_of_the_tag(clone):
    for name in ("build", "mesonpy"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    first = textwrap.dedent(BLOCK.findall(PAGE.read_text())[0])
    subprocess.run(["sh", "-euc", first], cwd=clone, check=True, capture_output=True)
    version = output(clone, "cat", "python/tvmrt/VERSION")
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o", "dist"]
    done = subprocess.run(command, cwd=clone, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert [each.name for each in (clone / "dist").iterdir()] == [f"tvmrt-{version}.tar.gz"]
