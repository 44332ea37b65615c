"""Publishing: the source package in a clean environment, bills of materials, workflows."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ADDRESS = "https://example.org/people/tvmrt/blob/v9"
# A C compiler, what it starts, and what ninja's rules start. PATH has nothing else of the machine.
COMPILER = ("cc", "gcc", "as", "ld", "ar", "rm")
PROGRAM = """
import sys
import tvmrt
assert tvmrt.__file__.startswith(sys.prefix), tvmrt.__file__
print(tvmrt.__version__, tvmrt.get_global_func("runtime.NumThreads")())
"""


@pytest.fixture(scope="module")
def clean(tmp_path_factory) -> tuple[Path, dict[str, str]]:
    """Return an environment without packages, and variables with an empty home and PATH."""
    folder = tmp_path_factory.mktemp("clean")
    tools = folder / "tools"
    tools.mkdir()
    real = [p for p in os.environ["PATH"].split(os.pathsep) if not p.endswith("ccache")]
    for name in COMPILER:
        found = shutil.which(name, path=os.pathsep.join(real))
        if found is None:
            pytest.skip(f"{name} is not installed")
        (tools / name).symlink_to(found)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    (folder / "home").mkdir()
    kept = {n: v for n, v in os.environ.items() if n.startswith("PIP_") or n.endswith("_proxy")}
    variables = {**kept, "PATH": str(tools), "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8"}
    variables["CFLAGS"] = "-O0"  # half the time; how fast the code is does not matter here
    return folder, variables


@pytest.fixture(scope="module")
def source_package(tmp_path_factory) -> Path:
    """Build the source package as ``python -m build`` does."""
    if importlib.util.find_spec("build") is None:
        pytest.skip("build, which makes source packages, is not installed")
    repository = ["git", "rev-parse", "HEAD"]
    if subprocess.run(repository, cwd=ROOT, capture_output=True, check=False).returncode:
        pytest.skip("meson makes source packages of git repositories only")
    folder = tmp_path_factory.mktemp("sdist")
    # otherwise build installs the backend from the package index
    present = importlib.util.find_spec("mesonpy") is not None
    flags = ["--no-isolation"] if present else []
    command = [sys.executable, "-m", "build", "--sdist", *flags, "-o", folder, ROOT]
    variables = {**os.environ, "TVMRT_README_URL": ADDRESS}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (found,) = folder.glob("tvmrt-*.tar.gz")
    return found


@pytest.mark.slow
def test_source_package_names_authors_licence_and_addresses(source_package):
    with tarfile.open(source_package) as archive:
        names = archive.getnames()
        (info,) = [name for name in names if re.fullmatch(r"[^/]+/PKG-INFO", name)]
        text = archive.extractfile(info).read().decode()
    head = text.partition("\n\n")[0].splitlines()
    assert "Author: tvmrt developers" in head
    assert "License-Expression: Apache-2.0" in head
    assert "License-File: LICENSE" in head
    assert "Project-URL: Source, https://example.org/people/tvmrt" in head
    assert f"Project-URL: Changelog, {ADDRESS}/CHANGELOG.md" in head
    folder = info.partition("/")[0]
    assert {f"{folder}/{name}" for name in ("LICENSE", "CHANGELOG.md", "meson.build")} <= {*names}


@pytest.mark.slow
def test_source_package_installs_where_only_a_compiler_is(source_package, clean):
    folder, variables = clean
    python = folder / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir"]
    probe = [*pip, "download", "-q", "--no-deps", "-d", folder / "probe", "meson-python"]
    if subprocess.run(probe, env=variables, capture_output=True, check=False).returncode:
        pytest.skip("there is no package index")
    done = subprocess.run(
        [*pip, "install", "-q", source_package], env=variables, cwd=folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    said = subprocess.run(
        [python, "-I", "-c", PROGRAM], env=variables, cwd=folder,
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert said[0] == (ROOT / "python" / "tvmrt" / "VERSION").read_text().strip()
    assert int(said[1]) >= 1
    packages = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    (licence,) = packages.glob("tvmrt-*.dist-info/licenses/LICENSE")
    assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert not list((folder / "home").rglob("*.so"))


def _make_wheel(folder: Path) -> Path:
    """Write a wheel with one library, one module and two requirements."""
    metadata = """Metadata-Version: 2.4
Name: example
Version: 1.2
License-Expression: Apache-2.0
Requires-Dist: numpy>=1.23
Requires-Dist: onnx>=1.16; extra == "compile"
"""
    files = {
        "example/libexample.so.0": b"\x7fELF library",
        "example/__init__.py": b"",
        "example-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        "example-1.2.dist-info/METADATA": metadata.encode(),
    }
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files["example-1.2.dist-info/RECORD"] = (record + "example-1.2.dist-info/RECORD,,\n").encode()
    path = folder / "example-1.2-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


@pytest.mark.slow
def test_bill_of_materials_lists_libraries_and_requirements(tmp_path):
    pytest.importorskip("cyclonedx", reason="cyclonedx-python-lib is not installed")
    wheel = _make_wheel(tmp_path)
    for _ in range(2):  # a second bill replaces the first
        command = [sys.executable, "-W", "error", ROOT / ".ci" / "sbom.py", wheel]
        assert not subprocess.run(command, check=True, capture_output=True).stderr
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
        assert len(files) == len(archive.namelist())
    record = files["example-1.2.dist-info/RECORD"].decode().splitlines()
    rows = {row[0]: row[1:] for row in csv.reader(record)}
    assert set(rows) == set(files)
    for name, (digest, size) in rows.items():
        if not name.endswith("RECORD"):
            assert (digest, int(size)) == (_digest(files[name]), len(files[name])), name
    bill = json.loads(files["example-1.2.dist-info/sboms/tvmrt.cdx.json"])
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == "pkg:pypi/example@1.2"
    parts = {part["name"]: part for part in bill["components"]}
    assert set(parts) == {"example/libexample.so.0", "numpy"}
    expected = hashlib.sha256(b"\x7fELF library").hexdigest()
    assert parts["example/libexample.so.0"]["hashes"] == [{"alg": "SHA-256", "content": expected}]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", tmp_path / "t"]
    subprocess.run([*pip, wheel], check=True)
    assert list((tmp_path / "t").glob("*.dist-info/sboms/tvmrt.cdx.json"))


@pytest.mark.slow
def test_workflows_are_valid(tmp_path):
    tool = shutil.which("check-jsonschema", path=f"{Path(sys.executable).parent}")
    if tool is None:
        pytest.skip("check-jsonschema is not installed")
    command = [tool, "--builtin-schema", "vendor.github-workflows"]
    subprocess.run([*command, *WORKFLOWS], check=True)
    wrong = tmp_path / "wrong.yml"
    text = WORKFLOWS[0].read_text(encoding="utf-8")
    wrong.write_text(text.replace("runs-on:", "run-on:"), encoding="utf-8")
    refused = subprocess.run([*command, wrong], check=False, capture_output=True)
    assert refused.returncode == 1
    zizmor = shutil.which("zizmor", path=f"{Path(sys.executable).parent}")
    if zizmor is not None:
        subprocess.run([zizmor, "--offline", ROOT / ".github" / "workflows"], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_wheels_are_configured_for_every_python_and_libc(arch):
    pytest.importorskip("cibuildwheel")
    command = [sys.executable, "-m", "cibuildwheel", "--platform", "linux", "--archs", arch]
    done = subprocess.run(
        [*command, "--print-build-identifiers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    known = re.findall(r"Python :: 3\.(\d+)\"", project)
    expected = {
        f"cp3{minor}-{libc}_{arch}" for minor in known for libc in ("manylinux", "musllinux")
    }
    assert len(expected) >= 10 and expected <= set(done.stdout.split())


def test_workflows_start_what_the_repository_has():
    """Check jobs of ./run, files, and that the tested Pythons are those of the classifiers."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in WORKFLOWS}
    jobs = set(re.findall(r"^  ([a-z-]+)\)$", (ROOT / "run").read_text(), re.MULTILINE))
    started = {job for text in texts.values() for job in re.findall(r"\./run ([\w-]+)", text)}
    assert started and started <= jobs
    for text in texts.values():
        for path in re.findall(r"(?:^|[\s'])((?:\.ci|examples|tests)/[\w./-]+\w)", text):
            assert (ROOT / path).exists(), path
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    known = set(re.findall(r"Python :: (3\.\d+)\"", project))
    tested = set(re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", texts["tests.yml"])[1]))
    assert len(tested) >= 3 and tested <= known
