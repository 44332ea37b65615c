"""Archives for the device cmsis-nn, built on this machine with the mock in
plugins/cmsis_nn/tests/mock_cmsis_nn instead of CMSIS-NN."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from archives import unpack
from firmware_call import Network

import tvmrt

PATH = Path(__file__).parent / "mock_cmsis_nn"
STRICT = "-O1 -Wall -Wextra -Werror -fPIC -fvisibility=default"


def compiled(model, **options):
    """Return a network compiled for firmware that runs on this machine."""
    more = {"target": "host", "runtime": "crt", "executor": "aot", **options}
    return tvmrt.compile(model, devices=["cmsis-nn"], module_name="net", **more)


def make(library, folder: Path, *variables: str) -> subprocess.CompletedProcess:
    """Run the Makefile of the network's archive in a folder."""
    library.export(folder / "net.tar")
    unpack(folder / "net.tar", folder)
    command = ["make", "-s", "CC=cc", f"CFLAGS={STRICT}", *variables]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def loaded(library, folder: Path, *variables: str) -> Network:
    """Load the network of an archive that was built with the mock."""
    done = make(library, folder, f"CMSIS_NN={PATH}", *variables)
    assert done.returncode == 0, done.stderr
    whole = ["-Wl,--whole-archive", str(folder / "libnet.a"), "-Wl,--no-whole-archive"]
    # its own error text, not that of a runtime in this process
    command = ["cc", "-shared", "-Wl,-Bsymbolic", *whole, "-lm", "-o", str(folder / "net.so")]
    subprocess.run(command, check=True)
    return Network(library, ctypes.CDLL(str(folder / "net.so")))
