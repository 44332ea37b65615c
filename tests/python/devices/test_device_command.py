"""``tvmrt device``: the list of devices and the generated skeletons."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tvmrt.compiler.devices.skeleton import write_skeleton

TVMRT = [sys.executable, "-m", "tvmrt"]
LINES = {"c": 60, "py": 40}  # a device of one operator in one file


@pytest.mark.parametrize("python", [False, True], ids=["c", "python"])
def test_skeleton_is_short(tmp_path, python):
    source = write_skeleton("gate", tmp_path, python)[0]
    assert len(source.read_text().splitlines()) <= LINES[source.suffix[1:]]


def test_list_shows_every_device():
    done = subprocess.run([*TVMRT, "device", "list", "--json"], capture_output=True, check=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["devices"]}
    assert {"cpu", "ccompiler"} <= set(rows)
    assert all(row["text"] for row in rows.values())


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("two words", "is not a letter"),
        ("gate", "exists"),
        ("cpu", "there is a device cpu already"),
        ("ccompiler", "choose another: 'tvmrt device list' shows"),
        ("cmsis_nn", "there is a device cmsis-nn already"),
    ],
)
def test_new_refuses_names_and_folders(tmp_path, name, problem):
    (tmp_path / "gate").mkdir()
    command = [*TVMRT, "device", "new", name, "-o", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert problem in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["gate"]
