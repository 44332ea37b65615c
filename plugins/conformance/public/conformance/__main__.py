"""``python -m tvmrt.conformance CHECK TARGET TOLERANCE SEED RECORD [CASE...]``: run one check,
print JSON. RECORD is the file in which the processes of one test keep the accepted cases."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from . import cases, firmware
from .device_under_test import keep_accepted_cases, load_device
from .runner import CHECKS, NOT_OPENED, as_json


def main() -> None:
    """Print the findings as the last line; exit with a text if the device cannot be opened."""
    check, target, tolerance, seed, record, *only = sys.argv[1:]
    if check not in CHECKS:
        raise SystemExit(f"unknown check {check}")
    module = importlib.import_module(f"{__package__}.{check}")
    try:
        device = load_device(target)
    except Exception as problem:  # the parent process raises it
        text = " ".join(str(problem).split()) or type(problem).__name__
        print(text, file=sys.stderr)
        raise SystemExit(NOT_OPENED) from None
    cases.SEED = int(seed)
    keep_accepted_cases(Path(record))
    if firmware.is_for_firmware(device):
        found = firmware.check(device, check, float(tolerance), tuple(only))
    else:
        found = module.check(device, float(tolerance), tuple(only))
    print(as_json(found))


if __name__ == "__main__":
    main()
