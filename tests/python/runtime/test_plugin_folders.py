"""Plug-in folders: the build finds them, can omit them, and works without any."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import libraries
import pytest

import tvmrt
from tvmrt.compiler.devices.skeleton import write_skeleton

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "examples" / "plugin_c" / "acme.c"
PARTS = ("libtvmrt_named.so", "libtvmrt_regions.so", "libtvmrt_schedules.so")
"""Libraries of the runtime itself, which are always built."""
BUILD = "plugin_sources = files('src/acme.c')\nplugin_prefixes = ['acme.', 'device.acme.']\n"
USE = """
import ctypes, sys
runtime = ctypes.CDLL(sys.argv[1])
found = ctypes.c_void_p()
assert runtime.TVMFuncGetGlobal(sys.argv[2].encode(), ctypes.byref(found)) == 0
print(found.value is not None)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not SOURCE.is_file(), reason="the source tree is not here"),
    pytest.mark.skipif(shutil.which("ninja") is None, reason="ninja is not installed"),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Copy the sources of the libraries without the folder of plug-ins."""
    made = tmp_path_factory.mktemp("tree")
    for name in ("include", "src_backend", "src_runtime", "tests/c", "tests/fuzz"):
        shutil.copytree(ROOT / name, made / name)
    for name in ("meson.build", "meson.options", "tests/meson.build", "python/tvmrt/VERSION"):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, made / name)
    return made


def _set_up(tree: Path, build: Path, *options: str) -> subprocess.CompletedProcess:
    meson = Path(sys.executable).with_name("meson")
    if not meson.exists():
        pytest.skip("meson is not installed")
    fixed = ["-Dpython=disabled", "-Dtests=disabled"]
    command = [meson, "setup", build, tree, *fixed, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _has(library: Path, function: str) -> bool:
    command = [sys.executable, "-c", USE, str(library), function]
    return subprocess.check_output(command, text=True).strip() == "True"


def _rows(build: Path) -> list[str]:
    lines = (build / "src_runtime" / "plugins.txt").read_text().splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    return [row for row in rows if row.split()[1] not in PARTS]


def test_build_without_plugins_omits_their_runtime_parts(tree, tmp_path):
    assert _set_up(tree, tmp_path).returncode == 0
    library = "src_runtime/libtvm_runtime.so"
    subprocess.run(["ninja", "-C", tmp_path, library], check=True, stdout=subprocess.DEVNULL)
    assert _rows(tmp_path) == []
    assert _has(tmp_path / library, "runtime.NumThreads")
    assert not _has(tmp_path / library, "rpc.ServerLoop")
    refused = _set_up(tree, tmp_path / "other", "-Dplugins=nobody")
    assert refused.returncode != 0
    assert "there is no folder plugins/nobody with a meson.build" in refused.stdout


def test_link_to_the_runtime_finds_the_plugins_of_its_folder(tmp_path):
    (library,) = tvmrt.libinfo.find_lib_path()
    (tmp_path / "linked.so").symlink_to(library)
    assert _has(tmp_path / "linked.so", "runtime.String")


@pytest.mark.parametrize("static", [False, True])
def test_folder_becomes_a_library_or_a_part_of_the_runtime(tree, tmp_path, static):
    own = tmp_path / "tree"
    shutil.copytree(tree, own)
    (own / "plugins" / "acme" / "src").mkdir(parents=True)
    shutil.copy(SOURCE, own / "plugins" / "acme" / "src")
    (own / "plugins" / "acme" / "meson.build").write_text(BUILD)
    build = tmp_path / "build"
    option = "-Dstatic_plugins=acme" if static else "-Dplugins=acme"
    done = _set_up(own, build, option, "-Dwerror=true")
    assert done.returncode == 0, done.stdout
    library = "src_runtime/libtvm_runtime.so"
    targets = [library, "src_runtime/libtvmrt_regions.so"]  # it registers a device
    targets += [] if static else ["src_runtime/libtvmrt_acme.so"]
    subprocess.run(["ninja", "-C", build, *targets], check=True, stdout=subprocess.DEVNULL)
    assert len(_rows(build)) == (0 if static else 2)
    assert _has(build / library, "acme.twice")


def test_folders_of_devices_become_a_library_or_a_part_of_the_runtime(tree, tmp_path):
    """The folder's name decides; nothing else in the tree changes."""
    own = tmp_path / "tree"
    shutil.copytree(tree, own)
    for each in ("npu", "vpu"):
        write_skeleton(each, own / "plugins")
    build = tmp_path / "build"
    done = _set_up(own, build, "-Dplugins=npu", "-Dstatic_plugins=vpu", "-Dwerror=true")
    assert done.returncode == 0, done.stdout
    targets = ["src_runtime/libtvm_runtime.so", "src_runtime/libtvmrt_device_npu.so"]
    subprocess.run(["ninja", "-C", build, *targets], check=True, stdout=subprocess.DEVNULL)
    built = build / "src_runtime"
    assert [p.name for p in built.glob("libtvmrt_device_*.so")] == ["libtvmrt_device_npu.so"]
    program = tmp_path / "run_region"
    links = [built / "libtvm_runtime.so", f"-Wl,-rpath,{built}"]
    source = libraries.DATA / "run_region.c"
    subprocess.run(["cc", f"-I{own / 'include'}", source, "-o", program, *links], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "TVMRT_DEVICE_PATH"}
    for each in ("npu", "vpu"):
        subprocess.run([program, each], check=True, env=environment)


def test_standalone_devices_need_no_external_libraries(tree, tmp_path):
    """On any machine: a device that needs a library is built only on request."""
    own = tmp_path / "tree"
    shutil.copytree(tree, own)
    for name in ("npu", "vpu"):
        write_skeleton(name, own / "plugins")
    with open(own / "plugins" / "vpu" / "meson.build", "a") as build:
        build.write("plugin_needs_library = true\n")
    for option, wanted in (("standalone", {"npu"}), ("standalone,vpu", {"npu", "vpu"})):
        build = tmp_path / option
        assert _set_up(own, build, f"-Dplugins={option}").returncode == 0
        targets = ["ninja", "-C", build, "-t", "targets", "all"]
        text = subprocess.check_output(targets, text=True)
        assert set(re.findall(r"libtvmrt_device_(\w+)\.so:", text)) == wanted


def test_runtime_parts_can_be_built_in(tree, tmp_path):
    names = [re.sub(r"libtvmrt_(\w+)\.so", r"\1", name) for name in PARTS]
    done = _set_up(tree, tmp_path, f"-Dstatic_plugins={','.join(names)}", "-Dwerror=true")
    assert done.returncode == 0, done.stdout
    library = "src_runtime/libtvm_runtime.so"
    subprocess.run(["ninja", "-C", tmp_path, library], check=True, stdout=subprocess.DEVNULL)
    table = (tmp_path / "src_runtime" / "plugins.txt").read_text()
    assert not [name for name in PARTS if name in table]
    for function in ("device.cpu.describe", "runtime.Array", "tvmrt.device.list"):
        assert _has(tmp_path / library, function)
