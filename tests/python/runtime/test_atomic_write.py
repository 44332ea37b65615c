"""Files are replaced atomically, even by concurrent writers."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import load_param_dict_from_file, save_param_dict_to_file

WRITER = """
import sys
import numpy as np
from tvmrt.runtime import save_param_dict_to_file
params = {"w": np.full(int(sys.argv[2]), 1, np.float32)}
for _ in range(300):
    save_param_dict_to_file(params, sys.argv[1])
"""


def params(size):
    return {"w": tvmrt.nd.array(np.ones(size, np.float32))}


def test_processes_that_write_one_path_do_not_disturb_each_other(tmp_path):
    path, sizes = tmp_path / "net.params", (10, 20000)
    save_param_dict_to_file(params(10), path)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(size)]) for size in sizes
    ]
    while any(writer.poll() is None for writer in writers):
        values = load_param_dict_from_file(path)["w"].numpy()
        assert values.size in sizes
        assert values.all()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert os.listdir(tmp_path) == ["net.params"]


def test_other_files_are_kept(tmp_path):
    """Including temporary files of a killed process with an equal process number."""
    path = tmp_path / "net.params"
    left = [f"net.params.{os.getpid()}.{i}.tmp" for i in range(1000)]
    others = {"net.params.tmp", *left}
    for name in others:
        (tmp_path / name).write_text(name)
    save_param_dict_to_file(params(3), path)
    assert set(os.listdir(tmp_path)) == {"net.params", *others}
    assert all((tmp_path / name).read_text() == name for name in others)
    assert load_param_dict_from_file(path)["w"].numpy().size == 3


def test_failed_write_leaves_no_file(tmp_path):
    folder = tmp_path / "net.params"
    folder.mkdir()
    with pytest.raises(OSError, match=r"cannot write .*net\.params"):
        save_param_dict_to_file(params(3), folder)
    assert os.listdir(tmp_path) == ["net.params"]
    with pytest.raises(OSError, match=r"cannot write .*absent.net\.params"):
        save_param_dict_to_file(params(3), tmp_path / "absent" / "net.params")
