"""Test the device dnnl built with oneDNN 3 from its wheel, and packaged as its own wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from wheels import built_wheel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
WHEELS = ["onednn-cpu-gomp==2023.2.0", "onednn-devel-cpu-gomp==2023.2.0"]  # oneDNN 3.2, OpenMP


def sh(*command, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )


@pytest.fixture(scope="module")
def meson() -> Path:
    found = Path(sys.executable).with_name("meson")
    if not found.exists() or shutil.which("ninja") is None:
        pytest.skip("meson or ninja is not installed")
    return found


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    """Return the folder with the unpacked wheels, as in a virtual environment."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--prefix", folder]
    if sh(*pip, *WHEELS).returncode != 0:
        pytest.skip("the wheels of oneDNN 3 cannot be downloaded for this machine")
    return folder


@pytest.fixture(scope="module")
def environment(meson, prefix, tmp_path_factory) -> dict[str, str]:
    """Return the environment variables with which the plug-in built here is found."""
    folder = tmp_path_factory.mktemp("build")
    options = ["-Dpython=disabled", "-Dtests=disabled", "-Dplugins=dnnl", "-Dwerror=true"]
    made = sh(meson, "setup", folder, ROOT, f"-Ddevice_prefixes=dnnl={prefix}", *options)
    assert made.returncode == 0, made.stdout
    plugin = "src_runtime/libtvmrt_device_dnnl.so"
    built = sh("ninja", "-j2", "-C", folder, plugin)
    assert built.returncode == 0, built.stdout
    return {**os.environ, "TVMRT_DEVICE_PATH": str((folder / plugin).parent)}


def test_library_of_the_wheel_is_the_one_that_runs(environment, prefix):
    code = (
        "import tvmrt; assert tvmrt.get_global_func('tvmrt.device.find')('dnnl'); "
        "print(open('/proc/self/maps').read())"
    )
    done = sh(sys.executable, "-c", code, env=environment)
    assert done.returncode == 0, done.stderr
    libraries = {line.split()[-1] for line in done.stdout.splitlines() if "libdnnl" in line}
    assert libraries and all(str(prefix) in path for path in libraries)


def test_conformance_run_passes(environment):
    pytest.importorskip("tvmrt.conformance")
    done = sh(sys.executable, "-m", "tvmrt", "device", "test", "dnnl", env=environment)
    assert done.returncode == 0, done.stdout


def test_tests_of_the_device_pass(environment):
    names = ["test_dnnl.py", "test_dnnl_integers.py", "test_dnnl_refusals.py"]
    tests = [Path(__file__).with_name(name) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests]
    done = sh(*command, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    skipped = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("needs a processor" in line for line in skipped), skipped  # the device was there


def test_prefix_without_onednn_is_refused_with_what_is_missing(meson, tmp_path):
    options = ["-Dpython=disabled", "-Dtests=disabled", "-Dplugins=dnnl"]
    made = sh(meson, "setup", tmp_path / "b", ROOT, f"-Ddevice_prefixes=dnnl={tmp_path}", *options)
    assert made.returncode != 0
    assert f"the plug-in dnnl lacks oneDNN, which is not in {tmp_path}" in made.stdout


REGION = """
import sys
sys.path[:0] = {paths!r}
import tvmrt
assert tvmrt.__file__.startswith({folder!r}), tvmrt.__file__
print(tvmrt.get_global_func("tvmrt.device.find")("dnnl") != 0)
"""


def test_device_is_its_own_wheel(tmp_path):
    pytest.importorskip("wheel")
    pytest.importorskip("mesonpy")
    if not Path("/usr/include/oneapi/dnnl/dnnl.h").exists():
        pytest.skip("oneDNN is not installed")
    folder = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    others = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    text = REGION.format(paths=[str(folder), *others], folder=str(folder))
    found = []
    for package in (built_wheel(tmp_path), built_wheel(tmp_path, "dnnl")):
        subprocess.run([*install, str(package)], check=True)
        ran = sh(sys.executable, "-S", "-E", "-c", text)
        assert ran.returncode == 0, ran.stderr
        found.append(ran.stdout.strip())
    assert found == ["False", "True"]
