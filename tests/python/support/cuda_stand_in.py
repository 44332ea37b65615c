"""The machine with a GPU that tests/c/cuda_stand_in pretends."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "c/cuda_stand_in"
FLAGS = ["-std=gnu11", "-shared", "-fPIC", "-O2", "-fvisibility=hidden"]


def build(folder: Path) -> Path:
    """Make libcuda, NVRTC and cuBLAS in a folder for TVMRT_CUDA_PATH."""
    driver = folder / "libcuda.so.1"  # without a name inside, by which a loader would find it
    for sources, library, extra in (
        (["driver.c", "kernels.c"], driver, ["-ldl", "-lpthread"]),
        (["compiler.c"], folder / "libnvrtc.so", []),
        (["products.c"], folder / "libcublas.so", [str(driver)]),
    ):
        files = [str(SOURCES / source) for source in sources]
        command = ["cc", *FLAGS, *files, "-o", str(library), *extra]
        subprocess.run(command, check=True)
    return folder
