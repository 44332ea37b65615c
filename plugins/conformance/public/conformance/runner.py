"""Run the checks, each in its own process, so that a crash of a device fails only one check."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence

from .cases import SEED
from .finding import Finding

CHECKS = (
    "operators", "sizes", "tensors", "asynchronous", "faults", "libraries", "leaks", "threads",
)  # fmt: skip
NOT_OPENED = 3  # exit code of a check whose device cannot be opened
SECONDS = 600  # time limit of one check; a device that hangs fails it


def run_checks(
    target: str,
    checks: Sequence[str] = CHECKS,
    tolerance: float = 1e-3,
    observe: Callable[[Finding], None] | None = None,
    only: Sequence[str] = (),
    seconds: float = SECONDS,
    seed: int = SEED,
) -> list[Finding]:
    """Test a device.

    Parameters
    ----------
    target
        Its name, the path of its plug-in (``.so``) or of the Python file that registers it.
    checks
        A subset of CHECKS, in order.
    tolerance
        Maximum error of a result, relative to its largest value.
    observe
        Called with each finding when it is available.
    only
        Prefixes of network names, such as "MatMul"; other networks are skipped.
    seconds
        Time limit of a check.
    seed
        The random numbers of the networks; other seeds draw other networks.

    Raises
    ------
    ValueError
        For an unknown check, and if the device is unknown or cannot be loaded.
    """
    result = []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        for check in checks:
            if check not in CHECKS:
                raise ValueError(f"unknown check {check}; the checks are {', '.join(CHECKS)}")
            arguments = [check, target, str(tolerance), str(seed), f"{folder}/accepted.json", *only]
            for finding in _run_in_process(check, arguments, seconds):
                result.append(finding)
                if observe is not None:
                    observe(finding)
    return result


def _run_in_process(check: str, arguments: Sequence[str], seconds: float) -> list[Finding]:
    command = [sys.executable, "-m", "tvmrt.conformance", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return [Finding(check, "time", False, f"not ended after {seconds:g} seconds")]
    if done.returncode == 0:
        rows = json.loads(done.stdout.splitlines()[-1])
        return [Finding(**row) for row in rows]
    stderr_lines = done.stderr.strip().splitlines()
    if done.returncode == NOT_OPENED:
        raise ValueError(stderr_lines[-1])
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name
        return [Finding(check, "process", False, f"it died by {name}")]
    return [
        Finding(
            check, "process", False, stderr_lines[-1] if stderr_lines else "it ended without a word"
        )
    ]


def as_json(findings: Sequence[Finding]) -> str:
    """Return findings as one line of JSON."""
    return json.dumps([dataclasses.asdict(finding) for finding in findings])
