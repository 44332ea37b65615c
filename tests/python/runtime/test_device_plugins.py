"""Device plug-ins: built with the public headers, found by path or name, or rejected."""

from __future__ import annotations

import os
import subprocess
import sys

import libraries
import pytest
import simulated

import tvmrt
from tvmrt import libinfo
from tvmrt.compiler.devices.runtime_support import missing
from tvmrt.runtime import get_global_func


def build(folder, name="libtvmrt_device_nothing.so", **macros):
    """Compile the plug-in and return its path."""
    path = folder / name
    includes = [f"-I{p}" for p in libinfo.find_include_path()]
    defines = [f"-D{k}={v}" for k, v in macros.items()]
    command = ["cc", "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    source = libraries.DATA / "null_device.c"
    subprocess.run([*command, *includes, *defines, source, "-o", path], check=True)
    return path


def in_process(code, **environment):
    """Return the output of a new process."""
    command = [sys.executable, "-c", code]
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_plugin_registers_its_device_once(tmp_path):
    path = build(tmp_path, NAME='"nothing_by_path"')
    for _ in range(2):
        tvmrt.load_device_plugin(path)
    assert tvmrt.runtime.list_devices().count("nothing_by_path") == 1
    module = simulated.load_regions("nothing_by_path", {"r": 1})
    x = tvmrt.nd.empty(simulated.SHAPE)
    module["r"](x, x)


def test_unregistered_plugin_is_registered_again_on_demand(tmp_path, monkeypatch):
    build(tmp_path, "libtvmrt_device_nothing_again.so", NAME='"nothing_again"')
    monkeypatch.setenv("TVMRT_DEVICE_PATH", f"/no/such/folder:{tmp_path}")
    for _ in range(2):
        assert get_global_func("tvmrt.device.find")("nothing_again")
        get_global_func("tvmrt.device.unregister")("nothing_again")
        assert "nothing_again" not in tvmrt.runtime.list_devices()


def test_plugin_is_found_by_the_name_of_its_device(tmp_path):
    build(tmp_path)
    code = """
from tvmrt.runtime import get_global_func
print(get_global_func("tvmrt.device.find")("nothing"))
"""
    assert in_process(code, TVMRT_DEVICE_PATH=str(tmp_path)).strip() == "1"
    assert in_process(code).strip() == "0"


@pytest.mark.parametrize(
    ("macros", "error"),
    [
        ({"NO_ABI": 1}, "is not a device plug-in: it has no function tvmrt_plugin_abi"),
        ({"OTHER_ABI": 1}, "was built for version 2 of the device interface.* has version 1"),
        ({"NO_REGISTER": 1}, "has no function tvmrt_plugin_register"),
        ({"FAILS": '"no card in the slot."'}, "cannot be registered: no card in the slot"),
        ({"FAILS": '""'}, "cannot be registered; it returned no error text"),
        ({"NAME": '"no name"'}, "cannot be registered: .*'no name' is not a device name"),
    ],
    ids=["no-abi", "other-abi", "no-register", "fails", "fails-silently", "bad-name"],
)
def test_plugins_that_cannot_be_loaded_say_why(tmp_path, macros, error):
    path = build(tmp_path, "plugin.so", **macros)
    with pytest.raises((ValueError, tvmrt.TVMError), match=error):
        tvmrt.load_device_plugin(path)


def test_non_library_files_are_rejected(tmp_path):
    text = tmp_path / "plugin.so"
    text.write_text("int x;")
    for path in (text, tmp_path / "absent.so"):
        with pytest.raises(OSError, match="cannot load the plug-in"):
            tvmrt.load_device_plugin(path)


def test_plugin_may_register_a_differently_named_device(tmp_path, monkeypatch):
    build(tmp_path, "libtvmrt_device_promised.so", NAME='"another"')
    monkeypatch.setenv("TVMRT_DEVICE_PATH", str(tmp_path))
    assert "promised" in get_global_func("tvmrt.device.list_plugins")().split()
    assert not get_global_func("tvmrt.device.find")("promised")
    assert "another" in tvmrt.runtime.list_devices()


def test_replaced_plugin_is_looked_at_again(tmp_path):
    """Each replaces one that stays mapped; the first has no device."""
    path = tmp_path / "plugin.so"
    build(tmp_path, "new.so", FAILS='"no card in the slot."').rename(path)
    for _ in range(2):
        with pytest.raises(tvmrt.TVMError, match="no card in the slot"):
            tvmrt.load_device_plugin(path)
    names = [f"replaced_{i}" for i in range(3)]
    for name in names:
        build(tmp_path, "new.so", NAME=f'"{name}"').rename(path)
        for _ in range(2):
            tvmrt.load_device_plugin(path)
    assert [name for name in tvmrt.runtime.list_devices() if name.startswith("replaced_")] == names


def test_updated_plugin_registers_after_the_old_one_is_unloaded(tmp_path, monkeypatch):
    monkeypatch.setenv("TVMRT_DEVICE_PATH", str(tmp_path))
    find = get_global_func("tvmrt.device.find")
    path = build(tmp_path, "libtvmrt_device_updated.so", NAME='"updated"')
    assert find("updated")
    build(tmp_path, "new.so", NAME='"updated"', FAILS='"the new one."').rename(path)
    with pytest.raises(tvmrt.TVMError, match="the new one"):
        tvmrt.load_device_plugin(path)
    get_global_func("tvmrt.device.unregister")("updated")
    with pytest.raises(tvmrt.TVMError, match="the new one"):
        find("updated")
    build(tmp_path, "new.so", NAME='"updated"').rename(path)
    assert find("updated")


def test_overwritten_plugin_is_rejected(tmp_path):
    path = build(tmp_path, NAME='"written_over"')
    tvmrt.load_device_plugin(path)
    os.utime(path, (1, 1))
    with pytest.raises(OSError, match="was overwritten while it was loaded"):
        tvmrt.load_device_plugin(path)


def test_compiler_reports_a_differently_named_device(tmp_path, monkeypatch):
    build(tmp_path, "libtvmrt_device_awaited.so", NAME='"not_awaited"')
    monkeypatch.setenv("TVMRT_DEVICE_PATH", str(tmp_path))
    assert (
        missing("awaited") == "libtvmrt_device_awaited.so exists, but registers no device awaited"
    )


def test_missing_device_error_names_the_package(monkeypatch):
    monkeypatch.setenv("TVMRT_DEVICE_PATH", "/opt/my/devices")
    with pytest.raises(
        ValueError,
        match=r"needs device 'absent' for region 'r'.*put libtvmrt_device_absent.so into one of "
        r"/opt/my/devices:.*load its plug-in before .tvmrt.load_device_plugin",
    ):
        simulated.load_regions("absent", {"r": 1})


def test_device_of_functions_ends_its_regions():
    ended = []
    simulated.add_device("ending", 0)
    tvmrt.register_func("device.ending.post_run", ended.append)
    try:
        module = simulated.load_regions("ending", {"first": 1, "second": 2})
        assert ended == []
        del module
        assert ended == ["first", "second"]
    finally:
        tvmrt.runtime.remove_global_func("device.ending.post_run")
        simulated.remove_device("ending")
