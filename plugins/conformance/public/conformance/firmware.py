"""Check devices that support only firmware: int8 layers, built by this machine's C compiler, and
run if all functions that their code calls are available."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Context, Device, call_device
from tvmrt.compiler.sdk.export import ERRORS, runtime_sources, vendor_code, vendor_includes
from tvmrt.error import CompileError
from tvmrt.libinfo import find_include_path

from .case import Case
from .cases import CARDS, drawn
from .device_under_test import AcceptedCase, merge_cases, outputs_by_case, regions_of
from .finding import Finding
from .operators import CHECK, judge

STEPS = 1  # between a right result and the reference: kernels of boards round sums in fixed point
FIRMWARE = {"target": "host", "runtime": "crt", "executor": "aot", "interface_api": "c"}
ALIGN_BYTES = 16  # of tensors, since hardware may require it


def is_for_firmware(device: Device) -> bool:
    """Return whether the device supports firmware but nothing that runs on this machine."""
    fields = {name: FIRMWARE[name] for name in ("target", "runtime", "executor")}
    here, there = (call_device(device, "refuses", c) for c in (Context(), Context(**fields)))
    return bool(here) and not there


def check(device: Device, check: str, tolerance: float, only: tuple[str, ...]) -> list[Finding]:
    """Return a finding per operator; the other checks are reported as skipped."""
    if check != CHECK:
        return [Finding(check, "firmware", True, "left out: the device is for firmware alone")]
    cards = [card for card in CARDS if card.endswith(" of int8")]
    cases = [c for card in cards for c in (*drawn(card), *drawn(card, True))]
    cases = [case for case in cases if not only or case.name.startswith(tuple(only))]
    accepted = [claim for claim in regions_of(cases, device, **FIRMWARE) if claim.regions]
    if not accepted:
        return [Finding(CHECK, "claims", False, "the device takes no layer of bytes in firmware")]
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        try:
            network = _FirmwareLibrary([claim.case for claim in accepted], device, Path(folder))
        except CompileError as problem:
            return _not_run(accepted, f"not built: {problem}")
        except subprocess.CalledProcessError as problem:
            return [Finding(CHECK, "build", False, problem.stderr.decode(errors="replace")[:300])]
        if network.lacks:
            return _not_run(accepted, f"built; not run: {network.lacks}")
        results = network.run()
    return judge(accepted, results, tolerance, STEPS)


def _not_run(accepted: Sequence[AcceptedCase], why: str) -> list[Finding]:
    names = dict.fromkeys(claim.case.operator for claim in accepted)
    return [Finding(CHECK, name, True, f"taken for firmware, {why}") for name in names]


class _FirmwareLibrary:
    """Cases as one library of C functions. ``lacks`` is the reason why it cannot be linked here."""

    def __init__(self, cases: list[Case], device: Device, folder: Path) -> None:
        self.cases, self.lacks = cases, ""
        self.library = tvmrt.compile(merge_cases(cases).model(), devices=[device], **FIRMWARE)
        sources, includes = self._write(folder)
        objects = [folder / f"{number}.o" for number in range(len(sources))]
        for source, target in zip(sources, objects):
            self._cc("-std=gnu11", "-O1", "-fPIC", *(f"-I{path}" for path in includes), "-c",
                     source, "-o", target)  # fmt: skip
        self.path = folder / "net.so"
        try:
            self._cc("-shared", "-Wl,-z,defs", "-Wl,-Bsymbolic", *objects, "-lm", "-o", self.path)
        except subprocess.CalledProcessError as problem:
            words = problem.stderr.decode(errors="replace").partition("undefined reference to ")
            self.lacks = f"it calls {words[2].split(maxsplit=1)[0][1:-1]}(), which boards have"

    def _write(self, folder: Path) -> tuple[list[Path], list[str | Path]]:
        """Write the C files of the network, of the vendors that it calls, and of the error
        functions; return them with the include folders."""
        vendors = list(dict.fromkeys(self.library.sources.vendors.values()))
        sources = [*self.library.write_sources(folder), *vendor_code(vendors)]
        for name, text in runtime_sources([ERRORS]).items():
            file = folder / "runtime" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            sources += [file] if file.suffix == ".c" else []
        return sources, [folder, *find_include_path(), *vendor_includes(vendors)]

    @staticmethod
    def _cc(*arguments: object) -> None:
        try:
            subprocess.run(["cc", *map(str, arguments)], check=True, capture_output=True)
        except FileNotFoundError:
            raise CompileError("the C compiler cc is not installed; install gcc or clang") from None

    def run(self) -> dict[str, list[np.ndarray] | str]:
        """Run once and return the outputs by case, or an error text."""
        feeds = merge_cases(self.cases).feeds
        given = [_align(feeds[t.name]) for t in self.library.summary.inputs]
        found = [_align(np.zeros(t.shape, t.dtype)) for t in self.library.summary.outputs]
        shared = ctypes.CDLL(str(self.path))
        code = shared[f"{self.library.sources.prefix}_run"](_pointers(given), _pointers(found))
        if code != 0:
            shared.TVMGetLastError.restype = ctypes.c_char_p
            error_text = shared.TVMGetLastError().decode(errors="replace")
            return {case.name: f"the run gave {code}: {error_text}" for case in self.cases}
        return {case.name: own for case, own in outputs_by_case(self.cases, found)}


def _align(array: np.ndarray) -> np.ndarray:
    """Return a copy of the array at an aligned address."""
    buffer = np.empty(array.nbytes + ALIGN_BYTES, np.uint8)
    start = -buffer.ctypes.data % ALIGN_BYTES
    target_view = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    target_view[...] = array
    return target_view


def _pointers(arrays: Sequence[np.ndarray]) -> ctypes.Array:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
