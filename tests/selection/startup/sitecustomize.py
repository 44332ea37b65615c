"""Start recording in each Python process of a test file: lines of Python, and the headers of
kernels that the compiler copies into generated code. ``record.py`` puts it on PYTHONPATH."""

import os
import sys

FILE = os.environ.get("TVMRT_RECORD_HEADERS")
KERNELS = f"tvm{os.sep}runtime{os.sep}kernels{os.sep}"


def _record(event: str, arguments: tuple) -> None:
    if event == "open" and isinstance(arguments[0], str) and KERNELS in arguments[0]:
        header = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(header, os.fsencode(arguments[0]) + b"\n")
        os.close(header)


if FILE:
    import coverage

    coverage.process_startup()
    sys.addaudithook(_record)
