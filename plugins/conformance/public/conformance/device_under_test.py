"""Device under test: look-up, offering it all cases, compiling one library."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import tvmrt
from tvmrt.compiler.sdk.devices import Device, ModuleBlob, device_names, find_device
from tvmrt.error import TVMError
from tvmrt.file_suffix import suffix_of

from .case import OPSET, Case
from .cases import all_cases


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


def reference(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of onnxruntime or, if it is missing, of ONNX's reference evaluator.

    onnxruntime runs without optimisations, node by node as ONNX defines them: its fused 8-bit
    matmuls saturate sums on some processors.
    """
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        return ReferenceEvaluator(model).run(None, feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, feeds)


@dataclass
class AcceptedCase:
    """Case that the device supports in part. ``regions`` are the operators of each region."""

    case: Case
    regions: list[list[str]] = field(default_factory=list)

    @property
    def operator(self) -> str:
        return self.case.name.partition(":")[0]


def accepted_cases(device: Device, only: Sequence[str] = ()) -> list[AcceptedCase]:
    """Return the cases that the device supports in part, filtered by name prefixes ``only``. A
    case that raises an error is included, so that the failure is reported."""
    cases = [c for c in all_cases() if not only or c.name.startswith(tuple(only))]
    try:
        return [c for c in regions_of(cases, device) if c.regions]
    except _FAILURES:
        return [claim for case in cases for claim in _accepted_case(case, device)]


_FAILURES = (TVMError, ValueError, TypeError, KeyError, NotImplementedError)


def regions_of(cases: list[Case], device: Device, **options: Any) -> list[AcceptedCase]:
    """Return the regions of every case, compiled together with these options."""
    summary = tvmrt.compile(merge_cases(cases).model(), devices=[device], **options).summary
    if device.name == "cpu":  # the network itself is its region
        return [AcceptedCase(case, [[node.op_type for node in case.nodes]]) for case in cases]
    result = [AcceptedCase(case) for case in cases]
    for row in summary.regions:
        number = int(row.onnx_nodes[0].partition("_")[0][1:])
        result[number].regions.append(row.operators)
    return result


def _accepted_case(case: Case, device: Device) -> list[AcceptedCase]:
    try:
        return [claim for claim in regions_of([case], device) if claim.regions]
    except _FAILURES:
        return [AcceptedCase(case)]


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


class LoadedNetwork:
    """A network loaded on the device."""

    def __init__(self, device: Device, case: Case, folder: Path, **options: Any) -> None:
        self.case = case
        self.library = tvmrt.compile(case.model(), devices=[device], **options)
        self.path = folder / "network.so"
        self.library.export(self.path)
        self.module = tvmrt.runtime.load_module(str(self.path))

    @property
    def blob(self) -> ModuleBlob | None:
        """Return the device's module; None if it generates C source."""
        modules = self.library.sources.modules
        return modules[0] if modules else None

    def instance(self, feeds: dict[str, np.ndarray] | None = None, module: Any = None) -> Any:
        """Return a new executor with its inputs set, of ``module`` if given."""
        from tvmrt.contrib.graph_executor import GraphModule

        executor = GraphModule((module or self.module)["default"](tvmrt.cpu(0)))
        for name, array in (feeds or self.case.feeds).items():
            executor.set_input(name, array)
        return executor

    @staticmethod
    def outputs(executor: Any) -> list[np.ndarray]:
        """Run once and return the outputs."""
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]


__all__ = [
    "OPSET",
    "AcceptedCase",
    "LoadedNetwork",
    "accepted_cases",
    "merge_cases",
    "load_device",
    "reference",
]
