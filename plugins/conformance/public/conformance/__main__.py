"""``python -m tvmrt.conformance CHECK TARGET TOLERANCE [CASE...]``: run one check, print JSON."""

from __future__ import annotations

import importlib
import sys

from . import firmware
from .device_under_test import load_device
from .runner import CHECKS, NOT_OPENED, as_json


def main() -> None:
    """Print the findings as the last line; exit with a text if the device cannot be opened."""
    check, target, tolerance, *only = sys.argv[1:]
    if check not in CHECKS:
        raise SystemExit(f"unknown check {check}")
    module = importlib.import_module(f"{__package__}.{check}")
    try:
        device = load_device(target)
    except Exception as problem:  # the parent process raises it
        text = " ".join(str(problem).split()) or type(problem).__name__
        print(text, file=sys.stderr)
        raise SystemExit(NOT_OPENED) from None
    if firmware.is_for_firmware(device):
        found = firmware.check(device, check, float(tolerance), tuple(only))
    else:
        found = module.check(device, float(tolerance), tuple(only))
    print(as_json(found))


if __name__ == "__main__":
    main()
