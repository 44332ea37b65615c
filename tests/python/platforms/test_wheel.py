"""The wheel: its contents, and inference without a compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from elf_hardening import weaknesses
from wheels import built_wheel

import tvmrt

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("mesonpy", reason="meson-python, which builds wheels, is not installed")

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_f32.onnx"
DEVICE = """
import sys
sys.path[:0] = {paths!r}
import tvmrt
assert tvmrt.__file__.startswith({folder!r}), tvmrt.__file__
print(tvmrt.get_global_func("tvmrt.device.find")({name!r}) != 0)
"""
# Without site, so that no installed or editable tvmrt comes first.
PROGRAM = """
import sys
sys.path[:0] = {paths!r}
import numpy as np
import tvmrt
assert tvmrt.__file__.startswith({folder!r}), tvmrt.__file__
net = tvmrt.load({library!r})
np.save({result!r}, np.asarray(net(np.load({image!r}))))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build a wheel as it is published, except for the container image."""
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_wheel_has_no_traces_of_the_build_machine(wheel):
    home = os.path.expanduser("~")
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    assert any(name.endswith("libtvm_runtime.so") for name in files)
    places = [str(ROOT).encode(), b"/pip-", home.encode() + b"/"]
    assert not [(name, p) for name, data in files.items() for p in places if p in data]


@pytest.mark.slow
def test_its_description_has_no_dead_link(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    assert "What runs where" in text
    assert not re.findall(r"\]\((?!https://|#)[^)]*\)", text)


@pytest.mark.slow
def test_its_libraries_need_only_what_a_tag_allows(wheel):
    pytest.importorskip("auditwheel")
    said = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.search(r'platform tag:\s+"(manylinux|musllinux)_', said), said


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="libraries here are no ELF files")
def test_its_libraries_have_all_defences(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    found = {
        path.name: weaknesses(path)
        for path in tmp_path.rglob("*.so*")
        if path.read_bytes()[:4] == b"\x7fELF"
    }
    assert len(found) >= 6
    assert not {name: lacks for name, lacks in found.items() if lacks}


@pytest.mark.slow
def test_wheel_runs_a_network_without_a_compiler(wheel, tmp_path):
    library, image = tmp_path / "net.so", tmp_path / "image.npy"
    tvmrt.compile(DIGITS).export_library(library)
    session = ort.InferenceSession(DIGITS)
    (wanted,) = session.get_inputs()
    np.save(image, np.random.default_rng(3).random(wanted.shape, np.float32))
    folder = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    subprocess.run([*install, str(wheel)], check=True)
    others = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    text = PROGRAM.format(
        paths=[str(folder), *others], folder=str(folder), library=str(library),
        result=str(tmp_path / "result.npy"), image=str(image),
    )  # fmt: skip
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-S", "-E", "-c", text], check=True, env=environment)
    (expected,) = session.run(None, {wanted.name: np.load(image)})
    np.testing.assert_allclose(np.load(tmp_path / "result.npy"), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_device_is_its_own_wheel(wheel, tmp_path):
    pytest.importorskip("wheel")
    built = [p.parent.name for p in ROOT.glob("plugins/*/meson.build")
             if "plugin_needs_library = true" in p.read_text()
             and tvmrt.get_global_func("tvmrt.device.find")(p.parent.name)]  # fmt: skip
    if not built:
        pytest.skip("no device with a library is built")
    folder = tmp_path / "installed"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    others = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    text = DEVICE.format(paths=[str(folder), *others], folder=str(folder), name=built[0])
    found = []
    for package in (wheel, built_wheel(tmp_path, built[0])):
        subprocess.run([*install, str(package)], check=True)
        program = [sys.executable, "-S", "-E", "-c", text]
        found += subprocess.check_output(program, text=True).split()
    assert found == ["False", "True"]
