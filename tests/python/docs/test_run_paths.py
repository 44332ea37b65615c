"""``./run test PATH`` installs, builds and runs only what the path needs, recorded by stubs of the
tools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EVERYDAY, QUICK = "-m not slow", "-m not slow or extended"
PARALLEL = f"-n {os.environ.get('TEST_PROCESSES', '2')} --dist loadfile --no-loadscope-reorder"


@pytest.fixture
def started(tmp_path):
    """Call ``./run`` in an environment of scripts that record their arguments."""
    (tmp_path / "bin").mkdir()
    log = tmp_path / "log"
    for name in ("python", "meson", "ninja"):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >>"{log}"\n')
        script.chmod(0o755)

    def run(*arguments: str, editable: str = "yes", tree: Path = ROOT) -> list[str]:
        log.write_text("")
        environment = {**os.environ, "VENV": str(tmp_path), "TVMRT_EDITABLE": editable}
        subprocess.run([tree / "run", *arguments], env=environment, check=True, capture_output=True)
        return log.read_text().splitlines()

    return run


def kinds(lines: list[str]) -> dict[str, str]:
    """Classify the commands: installation, C tests, Python tests."""
    found = {}
    for line in lines:
        if " pip install " in line:
            found["install"] = line
        elif line.startswith("meson test"):
            found["c"] = line.partition("--print-errorlogs")[2].strip()
        elif " pytest " in line:
            found["python"] = line.partition(" pytest ")[2]
    return found


def test_without_a_path_everything_everyday_runs(started):
    found = kinds(started("test"))
    assert found.keys() == {"install", "c", "python"}
    assert found["install"].endswith("--editable .[test-all]")
    assert found["c"] == "" and found["python"] == f"{EVERYDAY} {PARALLEL}"
    # a second call installs nothing
    again = kinds(started("test", "-m", "slow"))
    assert again == {"c": "", "python": f"{EVERYDAY} {PARALLEL} -m slow"}
    # what is here for all tests is used for those of a path, too
    assert kinds(started("test", "tests/compat")) == {"python": f"{QUICK} {PARALLEL} tests/compat"}


@pytest.mark.parametrize(
    "place",
    ["tests/python/cli", "./tests/python/cli/test_files.py", f"{ROOT}/tests/compat",
     "tests/python/docs/test_run_paths.py::test_without_a_path_everything_everyday_runs"],
)  # fmt: skip
def test_python_tests_need_no_c_tests(started, place):
    found = kinds(started("test", place, "-k", "threads"))
    assert found.keys() == {"install", "python"}
    assert found["install"].endswith("--editable .[test]")
    assert found["python"] == f"{QUICK} {place} -k threads"


@pytest.mark.parametrize(
    ("place", "names"),
    [("tests/c", ""), ("tests/c/", ""), ("tests/c/test_threads.c", "threads"),
     *((f"./{file.relative_to(ROOT).as_posix()}", file.stem.removeprefix("test_"))
       for file in sorted(ROOT.glob("plugins/*/tests/*.c"))[:1]),
     ("tests/c/check_headers.py", "headers"),
     ("threads", "threads"), ("out_of_memory", "out_of_memory")],
)  # fmt: skip
def test_c_tests_need_neither_an_installation_nor_python_tests(started, place, names):
    assert kinds(started("test", place)) == {"c": names}


def test_plugin_c_tests_of_equal_file_names_are_distinguished(started):
    for file in sorted(ROOT.glob("plugins/*/tests/test_out_of_memory.c")):
        place = file.relative_to(ROOT)
        assert kinds(started("test", place)) == {"c": f"out_of_memory_{place.parts[1]}"}


def test_paths_of_both_kinds_run_both(started):
    found = kinds(started("test", "threads", "tests/python/cli", "crt", "-x"))
    assert found["c"] == "threads crt"
    assert found["python"] == f"{QUICK} tests/python/cli -x"


def test_a_new_folder_of_a_plugin_is_installed(started, tmp_path):
    tree = tmp_path / "tree"
    (tree / "plugins/first/python").mkdir(parents=True)
    (tree / "tests/compat").mkdir(parents=True)
    for file in ("run", "pyproject.toml"):
        shutil.copy(ROOT / file, tree)
    assert "install" in kinds(started("test", "tests/compat", tree=tree))
    assert "install" not in kinds(started("test", "tests/compat", tree=tree))
    (tree / "plugins/second/python").mkdir(parents=True)
    assert "install" in kinds(started("test", "tests/compat", tree=tree))


def test_the_copy_is_built_once_for_several_extras(started):
    first = kinds(started("test", "tests/python/cli", editable="no"))["install"]
    second = kinds(started("docs-site", editable="no"))["install"]
    assert " .[test]" in first
    assert " tvmrt[docs]" in second


def test_run_says_at_once_what_it_does_and_what_failed_in_an_installation(tmp_path):
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "python"
    script.write_text("#!/bin/sh\necho from pip: $*\nexit 1\n")
    script.chmod(0o755)
    environment = {**os.environ, "VENV": str(tmp_path), "TVMRT_EDITABLE": "yes"}
    command = [ROOT / "run", "demo"]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("demo: compile two networks")
    assert second.startswith("installing the tools of the build into")
    printed, message = done.stderr.splitlines()
    assert printed.startswith("from pip: -m pip install")
    assert (done.returncode, message) == (2, "run: pip cannot install the tools of the build")
    assert not list(tmp_path.glob("pip-*"))
