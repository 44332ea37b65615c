"""A device is a folder: the build finds it, and its sources also build outside of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import libraries
import pytest

from tvmrt import libinfo
from tvmrt.compiler.devices.skeleton import write_skeleton

ROOT = Path(__file__).parents[3]
TPU = ROOT / "src_runtime" / "devices" / "tpu"


def sh(*command, **kwargs):
    result = subprocess.run(command, capture_output=True, text=True, check=False, **kwargs)
    assert result.returncode == 0, f"{command}\n{result.stdout[-3000:]}{result.stderr[-3000:]}"
    return result.stdout


@pytest.mark.skipif(not TPU.is_dir(), reason="the source tree is not here")
def test_folder_of_the_tree_builds_as_a_plugin_against_the_headers(tmp_path):
    plugin = tmp_path / "libtvmrt_device_tpu.so"
    includes = [f"-I{p}" for p in libinfo.find_include_path()]
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    sh("cc", *flags, *includes, *map(str, sorted(TPU.glob("*.c"))), "-lm", "-o", plugin)
    code = (
        "from tvmrt import runtime; runtime.load_device_plugin(%r); print(runtime.list_devices())"
    )
    assert "tpu" in sh(sys.executable, "-c", code % str(plugin))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not installed")
def test_new_folders_are_found_by_the_build(tmp_path):
    """One becomes a plug-in, one part of the library; nothing else in the tree is touched."""
    meson = Path(sys.executable).with_name("meson")
    if not meson.exists():
        pytest.skip("meson is not installed")
    tree = tmp_path / "tree"
    for name in ("include", "src_backend", "src_runtime", "tests/c", "tests/fuzz"):
        shutil.copytree(ROOT / name, tree / name)
    for name in ("meson.build", "meson.options", "tests/meson.build", "python/tvmrt/VERSION"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tree / name)
    for name in ("npu", "vpu"):
        write_skeleton(name, tree / "src_runtime" / "devices")
    with open(tree / "src_runtime" / "devices" / "vpu" / "meson.build", "a") as build:
        build.write("device_is_builtin = true\n")
    options = ["-Dpython=disabled", "-Dtests=disabled", "-Ddevices=npu,vpu", "-Dwerror=true"]
    sh(meson, "setup", tmp_path / "build", tree, *options)
    built = tmp_path / "build" / "src_runtime"
    targets = ["src_runtime/libtvm_runtime.so", "src_runtime/libtvmrt_device_npu.so"]
    sh("ninja", "-j2", "-C", tmp_path / "build", *targets)
    assert [p.name for p in built.glob("libtvmrt_device_*.so")] == ["libtvmrt_device_npu.so"]

    program = tmp_path / "run_region"
    source = libraries.DATA / "run_region.c"
    links = [built / "libtvm_runtime.so", f"-Wl,-rpath,{built}"]
    sh("cc", f"-I{tree / 'include'}", source, "-o", program, *links)
    environment = {k: v for k, v in os.environ.items() if k != "TVMRT_DEVICE_PATH"}
    for name in ("npu", "vpu"):
        sh(program, name, env=environment)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not installed")
def test_standalone_devices_are_those_without_libraries_of_others(tmp_path):
    """Whatever this machine has: what needs a library is not even looked at."""
    meson = Path(sys.executable).with_name("meson")
    if not meson.exists() or not TPU.is_dir():
        pytest.skip("meson or the source tree is not here")
    options = ["-Dpython=disabled", "-Dtests=disabled", "-Ddevices=standalone"]
    sh(meson, "setup", tmp_path, ROOT, *options)
    targets = sh("ninja", "-C", tmp_path, "-t", "targets", "all")
    built = set(re.findall(r"libtvmrt_device_(\w+)\.so:", targets))
    folders = [p.parent for p in TPU.parent.glob("*/meson.build")]
    needs = {
        p.name for p in folders if "device_needs_library = true" in (p / "meson.build").read_text()
    }
    assert built == {p.name for p in folders} - needs


@pytest.mark.slow
def test_option_that_names_no_folder_is_refused(tmp_path):
    meson = Path(sys.executable).with_name("meson")
    if not meson.exists() or not TPU.is_dir():
        pytest.skip("meson or the source tree is not here")
    command = [meson, "setup", tmp_path, ROOT, "-Dpython=disabled", "-Ddevices=gpu9"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "the option devices names gpu9; there are:" in result.stdout
