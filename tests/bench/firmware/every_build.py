"""Build and run firmware with every compiler, level, option and processor in QEMU, and compare the
results.

One line a build that is wrong, with what the compiler or the emulator says, and their number at the
end; the exit code is 1 where there is one. All take some 40 minutes on two processors.

    python tests/bench/firmware/every_build.py [WORD ...]

Words choose builds by parts of their names, as gcc-O1-frames-cortex-m7: those that have all.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "support"))
sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "firmware"))
from compilers import Build, every_build
from firmware_program import DIGITS
from test_compilers import PICTURES, by_onnxruntime, results, unpacked


def wrong(build: Build, archives: list[Path], images: np.ndarray, expected: np.ndarray) -> str:
    """Return the error of a build, or an empty text."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = results(build, archives, images, Path(folder))
        except Exception as error:
            return f"{build}: {str(error)[-1500:]}"
    near = np.allclose(found, expected, rtol=2e-4, atol=1e-6)
    return "" if near else f"{build}: off by {np.abs(found - expected).max():.3g}"


def main() -> int:
    with np.load(DIGITS / "digits_test.npz") as data:
        images = (data["images"][:PICTURES].astype(np.float32) / 16).reshape(-1, 1, 1, 8, 8)
    expected = by_onnxruntime(images)
    builds = [b for b in every_build() if all(word in str(b) for word in sys.argv[1:])]
    builds = [b for b in builds if b.missing_tool() is None]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        targets = {b.target for b in builds}
        archives = {target: unpacked(target, Path(folder, target)) for target in targets}
        jobs = [pool.submit(wrong, b, archives[b.target], images, expected) for b in builds]
        errors = [text for text in (job.result() for job in jobs) if text]
    print("\n".join([*errors, f"{len(builds)} builds, {len(errors)} of them with errors"]))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
