"""Prove networks; print alarms, admitted statements and processor seconds of each.

    python plugins/proof/tests/bench/networks.py net.onnx ... --target riscv32

The lines of operators are printed as they are ready. Exit code 1 if a network has alarms.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def prove(network: str, target: str) -> int:
    """Print the result of one network; return the script's exit code."""
    with tempfile.TemporaryDirectory(prefix="proof-") as folder:
        net = Path(folder) / "net"
        options = ["--target", target, "--interface-api", "c", "--proof"]
        command = [sys.executable, "-m", "tvmrt", "compile", network, "-o", str(net), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        print(f"{Path(network).name} on {target}", flush=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        code = subprocess.run(["sh", str(net / "proof" / "run.sh")], check=False).returncode
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{Path(network).name} on {target}: {seconds:.0f} s of processor time", flush=True)
    return code


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="+", help="ONNX or .tflite files")
    parser.add_argument("--target", default="riscv32")
    arguments = parser.parse_args()
    return max(prove(network, arguments.target) for network in arguments.networks)


if __name__ == "__main__":
    sys.exit(main())
