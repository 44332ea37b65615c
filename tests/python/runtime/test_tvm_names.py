"""TVM modules that deployment scripts import with ``import tvmrt as tvm``."""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tvmrt as tvm
from tvmrt import toolchains
from tvmrt.contrib import cc, dlpack, ndk, tar, utils

ADD = "int add(int a, int b) { return a + b; }\n"


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


def _triple() -> str:
    command = ["cc", "-dumpmachine"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_compilers_link(tmp_path, monkeypatch):
    source = tmp_path / "add.c"
    source.write_text(ADD + "#ifdef TWICE\nint twice(int a) { return 2 * a; }\n#endif\n")
    cc.create_shared(str(tmp_path / "a.so"), [str(source)], cc="cc")
    assert ctypes.CDLL(str(tmp_path / "a.so")).add(2, 3) == 5
    other = cc.cross_compiler("cc", options=["-DTWICE"])
    other(str(tmp_path / "b.so"), str(source))
    assert ctypes.CDLL(str(tmp_path / "b.so")).twice(4) == 8
    assert other.output_format == cc.create_shared.output_format == "so"
    assert other.get_target_triple() == _triple()
    wrapped = cc.cross_compiler(cc.create_shared, output_format="dso", add_files=[str(source)])
    main = tmp_path / "main.c"
    main.write_text("int add(int, int); int more(void) { return add(1, 1); }\n")
    monkeypatch.setenv("CXX", "cc")
    wrapped(str(tmp_path / "c.so"), [str(main)])
    assert ctypes.CDLL(str(tmp_path / "c.so")).more() == 2 and wrapped.output_format == "dso"
    main.write_text("int add(int, int); int main(void) { return add(3, 4); }\n")
    cc.create_executable(str(tmp_path / "program"), [str(main), str(source)])
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 7
    monkeypatch.setenv("TVM_NDK_CC", "cc")
    ndk.create_shared(str(tmp_path / "d.so"), [str(source)])
    assert ctypes.CDLL(str(tmp_path / "d.so")).add(1, 1) == 2


def test_compilers_say_why_not(tmp_path, monkeypatch):
    source = tmp_path / "bad.c"
    source.write_text("nonsense\n")
    with pytest.raises(RuntimeError, match=r"(?s)Compilation error:\n.*nonsense"):
        cc.create_shared(str(tmp_path / "a.so"), [str(source)], cc="cc")
    with pytest.raises(RuntimeError, match="no-such-compiler cannot be run"):
        cc.create_shared(str(tmp_path / "a.so"), [str(source)], cc="no-such-compiler")
    monkeypatch.delenv("TVM_NDK_CC", raising=False)
    with pytest.raises(RuntimeError, match="Require environment variable TVM_NDK_CC"):
        ndk.create_shared("a.so", [])
    for name in ("CXX", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchains, "zig_package", lambda: None)
    with pytest.raises(ValueError, match="no C compiler"):
        cc.create_shared("a.so", [])


def test_archives_of_objects(tmp_path):
    (tmp_path / "objects").mkdir()
    for name in ("a.o", "b.o"):
        (tmp_path / "objects" / name).write_bytes(name.encode())
    files = sorted((tmp_path / "objects").iterdir())
    tar.tar(tmp_path / "both.tar", files)
    tar.untar(tmp_path / "both.tar", tmp_path / "out")
    assert [p.read_bytes() for p in sorted((tmp_path / "out").iterdir())] == [b"a.o", b"b.o"]
    assert tar.tar.output_format == "tar"
    with pytest.raises(ValueError, match=r"cannot contain a name twice: a\.o"):
        tar.tar(tmp_path / "both.tar", [files[0], files[0]])
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        archive.add(files[0], "../escaped.o")
    with pytest.raises(ValueError, match=r"\.\./escaped\.o points outside the archive"):
        tar.untar(tmp_path / "bad.tar", tmp_path / "out")
    assert not (tmp_path / "escaped.o").exists()


def test_functions_of_tensors_of_others():
    double = dlpack.convert_func(
        tvm.convert(lambda x, by: tvm.nd.array(x.numpy() * by)), np.ndarray, np.ndarray.__dlpack__
    )
    np.testing.assert_array_equal(double(np.arange(3.0), 2).numpy(), [0, 2, 4])
    torch = pytest.importorskip("torch")
    fill = dlpack.to_pytorch_func(
        tvm.convert(lambda x: x.copyfrom(np.full(3, 7, np.float32)) and 0)
    )
    ones = torch.ones(3)
    fill(ones)
    assert ones.tolist() == [7, 7, 7]


def test_testing_and_support(capsys):
    tvm.testing.assert_allclose([1.0], [1.0 + 5e-8])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose([1.0], [1.1])
    with pytest.raises(AssertionError):
        tvm.testing.assert_allclose(np.zeros((1, 2)), np.zeros(2))
    assert tvm.testing.device_enabled("llvm -mcpu=native")
    assert not tvm.testing.device_enabled("cuda")
    assert tvm.support.libinfo()["TVM_VERSION"] == tvm.__version__
    tvm.support.describe()
    assert tvm.__version__ in capsys.readouterr().out
    assert tvm.contrib.graph_runtime.GraphModule is tvm.contrib.graph_executor.GraphModule


@pytest.mark.parametrize(
    "name, instead",
    [
        ("relay", "tvmrt.compile"), ("relay.frontend", "tvmrt.compile"), ("relax", "tvmrt.compile"),
        ("te", "tvmrt.custom"), ("driver.tvmc", "the command 'tvmrt'"),
        ("runtime.vm", "executor"), ("contrib.download", "urlretrieve"), ("autotvm", "tune"),
        ("micro", 'target="cortex-m4"'), ("contrib.pipeline_executor", "schedule='async'"),
        ("runtime.relax_vm", "executor"),
        ("target", "target="), ("build", "tvmrt.compile"), ("script", "tvmrt.custom"),
    ],
)  # fmt: skip
def test_unsupported_name_error_names_the_alternative(name, instead):
    with pytest.raises(ImportError, match=instead):
        importlib.import_module(f"tvmrt.{name}")
    if "." not in name:
        with pytest.raises(AttributeError, match=instead):
            getattr(tvm, name)
        with pytest.raises(ImportError, match=instead):
            exec(f"from tvmrt import {name}")


def test_loaded_module_without_export_library_names_an_alternative(tmp_path):
    module = tvm.runtime.system_lib()
    with pytest.raises(AttributeError, match=r"not part of tvmrt; tvmrt\.compile\("):
        module.export_library(tmp_path / "net.so")
    assert not hasattr(module, "export_library")
    with pytest.raises(AttributeError, match="'Module' object has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018


def test_other_names_raise_attribute_error():
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'tvmrt\.nonsense'"):
        importlib.import_module("tvmrt.nonsense")
    with pytest.raises(ModuleNotFoundError, match="No module named 'relay'"):
        importlib.import_module("relay")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tvm.nonsense  # noqa: B018


def test_views_at_an_offset():
    values = np.arange(1024, dtype="int32")
    array = tvm.nd.array(values)
    view = array._create_view([512], relative_byte_offset=2048)
    np.testing.assert_array_equal(view.numpy(), values[512:])
    inner = view._create_view((4, 2), "float32", 1024)
    np.testing.assert_array_equal(inner.numpy(), values[768:776].view("float32").reshape(4, 2))
    view.copyfrom(np.zeros(512, "int32"))
    assert array.numpy()[511] == 511 and not array.numpy()[512:].any()
    for tensor, shape, offset, text in (
        (array, [2048], 0, "the NDArray being viewed only contains 4096 bytes"),
        (array, [1024], 8192, "would occupy bytes 8192 <= i_byte < 12288"),
        (view, [1024], 2048, "would occupy bytes 2048 <= i_byte < 6144"),
        (view, [512], 2048, "would occupy bytes 2048 <= i_byte < 4096"),
    ):
        with pytest.raises(ValueError, match=text):
            tensor._create_view(shape, relative_byte_offset=offset)
    with pytest.raises(ValueError, match="negative"):
        array._create_view([1], relative_byte_offset=-4)
