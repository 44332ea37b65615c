"""Device under test: look-up, offering it cases, compiling one library."""

from __future__ import annotations

import gc
import importlib.util
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tvmrt
from tvmrt.compiler.sdk.devices import Device, device_names, find_device
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.error import TVMError
from tvmrt.file_suffix import suffix_of
from tvmrt.runtime.executor import AotModule

from .case import Case
from .cases import CARDS, drawn
from .reference import difference

TARGET = "native"  # of the host's code, which is not tested


def load_device(target: str) -> Device:
    """Return a device by name, by its plug-in (``.so``) or by the Python file that registers it.

    Raises
    ------
    ValueError
        If the name is unknown, or the file does not register exactly one device.
    OSError, TVMError
        If the file cannot be loaded.
    """
    path = Path(target)
    if suffix_of(path) in (".so", ".dylib"):
        before = set(tvmrt.runtime.list_devices())
        tvmrt.load_device_plugin(path)
        return _newly_registered(set(tvmrt.runtime.list_devices()) - before, path)
    if suffix_of(path) == ".py":
        before = set(device_names())
        _import_file(path)
        return _newly_registered(set(device_names()) - before, path)
    return find_device(target)


def _newly_registered(names: set[str], path: Path) -> Device:
    if len(names) != 1:
        listed = ", ".join(sorted(names)) or "none"
        raise ValueError(f"{path} must register exactly one device; it registers {listed}")
    return find_device(names.pop())


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)


def description(device: Device) -> dict[str, Any]:
    """Return what ``describe`` of a device's run-time half says; {} if it has none."""
    tvmrt.get_global_func("tvmrt.device.find")(device.name)  # loads its plug-in
    describe = tvmrt.get_global_func(f"device.{device.name}.describe", allow_missing=True)
    return {} if describe is None else json.loads(str(describe()))


@dataclass
class AcceptedCase:
    """Case that the device supports in part. ``regions`` are the operators of each region, and
    ``problem`` is why the compiler failed."""

    case: Case
    regions: list[list[str]] = field(default_factory=list)
    problem: str = ""


@lru_cache(maxsize=2)
def accepted_cases(device: Device, only: tuple[str, ...] = ()) -> list[AcceptedCase]:
    """Return the cases that the device supports in part, filtered by name prefixes ``only``. A card
    whose first cases it takes is drawn further. A case that raises an error is included, so that
    the failure is reported."""
    record = _record[0] if _record else None
    if record is not None and record.is_file():
        kept = json.loads(record.read_text(encoding="utf-8"))
        cases = [c for card in kept for c in (*drawn(card), *drawn(card, True))]
        return [AcceptedCase(c, kept[c.card][c.name]) for c in cases if c.name in kept[c.card]]
    first = _accepted([c for card in CARDS for c in drawn(card) if _is_in(c, only)], device)
    kept = {claim.case.card: {} for claim in first}
    more = [case for card in kept for case in drawn(card, True) if _is_in(case, only)]
    found = [*first, *_accepted(more, device)]
    if record is not None:
        for claim in found:
            kept[claim.case.card][claim.case.name] = claim.regions
        record.write_text(json.dumps(kept), encoding="utf-8")
    return found


_record: list[Path] = []


def keep_accepted_cases(path: Path) -> None:
    """Read the accepted cases from a file if it exists; else write it when they are known."""
    _record[:] = [path]


def few_of_each(claims: Sequence[AcceptedCase], count: int, nbytes: int) -> list[Case]:
    """Return at most ``count`` cases of each operator that run on the device, with at most
    ``nbytes`` bytes of tensors."""
    found: dict[str, list[Case]] = {}
    for claim in claims:
        arrays = [*claim.case.feeds.values(), *claim.case.weights.values(), *claim.case.golden]
        if claim.regions and sum(array.nbytes for array in arrays) <= nbytes:
            found.setdefault(claim.case.card, []).append(claim.case)
    return [case for cases in found.values() for case in cases[:count]]


def _is_in(case: Case, only: tuple[str, ...]) -> bool:
    return not only or case.name.startswith(only)


def _accepted(cases: Sequence[Case], device: Device) -> list[AcceptedCase]:
    try:
        return [claim for claim in regions_of(list(cases), device) if claim.regions]
    except _FAILURES as problem:
        if len(cases) == 1:
            return [AcceptedCase(cases[0], problem=str(problem))]
        return [claim for case in cases for claim in _accepted([case], device)]


_FAILURES = (TVMError, ValueError, TypeError, KeyError, NotImplementedError)


def regions_of(cases: list[Case], device: Device, **options: Any) -> list[AcceptedCase]:
    """Return the regions of every case, compiled together with these options."""
    if not cases:
        return []
    options = {"target": TARGET, **options}
    summary = tvmrt.compile(merge_cases(cases).model(), devices=[device], **options).summary
    if device.name == "cpu":  # the network itself is its region
        return [AcceptedCase(case, [[node.op_type for node in case.nodes]]) for case in cases]
    result = [AcceptedCase(case) for case in cases]
    for row in summary.regions:
        number = int(row.onnx_nodes[0].partition("_")[0][1:])
        result[number].regions.append(row.operators)
    return result


def merge_cases(cases: list[Case]) -> Case:
    """Return all cases as one network; names get the case's number as a prefix."""
    result = Case("all", [], {}, {}, ())
    for number, case in enumerate(cases):
        prefix = f"c{number}_"
        for node in case.nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = prefix + node.name
            copy.input[:] = [prefix + name if name else "" for name in node.input]
            copy.output[:] = [prefix + name for name in node.output]
            result.nodes.append(copy)
        result.feeds.update({prefix + name: array for name, array in case.feeds.items()})
        result.sizes.update({prefix + name: axes for name, axes in case.sizes.items()})
        result.weights.update({prefix + name: array for name, array in case.weights.items()})
        result.outputs += tuple(prefix + name for name in case.outputs)
    return result


class Network:
    """Cases as one library for the device, which is loaded when it is first used."""

    def __init__(self, device: Device, cases: Sequence[Case], folder: Path, **options: Any) -> None:
        self.cases, self.merged = list(cases), merge_cases(list(cases))
        self.path = Path(tempfile.mkdtemp(dir=folder)) / "network.so"  # loaded ones stay loaded
        self.is_aot = options.get("executor") == "aot"
        self._compile(device, {"target": TARGET, **options})

    def _compile(self, device: Device, options: dict[str, Any]) -> None:
        self.library = tvmrt.compile(self.merged.model(), devices=[device], **options)
        self.library.export(self.path)

    @cached_property
    def module(self) -> Any:
        return tvmrt.runtime.load_module(str(self.path))

    def free(self) -> None:
        """Free the library; its executors must be gone."""
        self.__dict__.pop("module", None)
        gc.collect()

    def executor(self, feeds: dict[str, np.ndarray] | None = None, module: Any = None) -> Any:
        """Return a new executor with its inputs set."""
        kind = AotModule if self.is_aot else GraphModule
        executor = kind((module or self.module)["default"](tvmrt.cpu(0)))
        for name, array in (self.merged.feeds if feeds is None else feeds).items():
            executor.set_input(name, array)
        return executor

    def outputs(self, executor: Any) -> list[np.ndarray]:
        """Run once and return the outputs."""
        executor.run()
        return [executor.get_output(i).numpy() for i in range(len(self.merged.outputs))]

    def wrong(self, tolerance: float, executor: Any = None, runs: int = 1) -> str:
        """Run and return the first wrong result of the last run, or nothing."""
        executor = executor or self.executor()
        for _ in range(runs):
            arrays = self.outputs(executor)
        for case, found in outputs_by_case(self.cases, arrays):
            for array, golden in zip(found, case.golden):
                if text := difference(array, golden, tolerance)[1]:
                    return f"{case.name}: {text}"
        return ""


def outputs_by_case(cases: Sequence[Case], arrays: Sequence[np.ndarray]) -> Iterator[tuple]:
    """Yield each case with its outputs, of the outputs of the merged network."""
    first = 0
    for case in cases:
        last = first + len(case.outputs)
        yield case, arrays[first:last]
        first = last
