"""Modules that scripts written for TVM import, with ``import tvmrt as tvm``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvmrt as tvm
from tvmrt.contrib import utils


def test_folder_goes_with_its_object():
    folder = utils.tempdir()
    path = Path(folder.temp_dir)
    (folder / "a").write_text("text")
    assert folder.path == path and folder.listdir() == ["a"]
    assert Path(folder.relpath("a")).read_text() == "text"
    del folder
    assert not path.exists()
    kept = utils.tempdir(path)
    assert kept.temp_dir == str(path) and path.is_dir()
    with pytest.raises(FileExistsError):
        utils.tempdir(path)
    kept.remove()
    assert not path.exists()
    stays = utils.tempdir(keep_for_debug=True)
    path = stays.path
    del stays
    assert path.is_dir()
    path.rmdir()


def test_folder_goes_with_the_interpreter():
    program = "from tvmrt.contrib.utils import tempdir; t = tempdir(); print(t.temp_dir)"
    path = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    assert path and not Path(path).exists()


def test_arrays_are_compared_with_their_shapes():
    tvm.testing.assert_allclose([1.0], [1.0 + 5e-8])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose([1.0], [1.1])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.zeros((1, 2)), np.zeros(2))
    assert tvm.testing.device_enabled("llvm -mcpu=native")
    assert not tvm.testing.device_enabled("cuda")


def test_functions_are_registered_by_the_old_path():
    from tvmrt._ffi import base, get_global_func, libinfo, registry, runtime_ctypes

    @registry.register_func("test_import_paths.twice")
    def twice(x):
        return 2 * x

    assert get_global_func("test_import_paths.twice")(4) == 8
    assert "test_import_paths.twice" in registry.list_global_func_names()
    registry.remove_global_func("test_import_paths.twice")
    assert libinfo.__version__ == tvm.__version__
    assert str(runtime_ctypes.DataType("float32")) == "float32"
    assert base.TVMError is tvm.TVMError


def test_old_name_of_the_graph_executor():
    assert tvm.contrib.graph_runtime.GraphModule is tvm.contrib.graph_executor.GraphModule


@pytest.mark.parametrize("name", ["relay", "driver", "contrib.cc"])
def test_compiler_modules_do_not_exist(name):
    with pytest.raises(ModuleNotFoundError, match=f"No module named 'tvmrt.{name}'"):
        __import__(f"tvmrt.{name}")
