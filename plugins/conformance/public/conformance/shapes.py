"""Check regions after ``post_run`` and another ``pre_run``, also at new shapes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import Device

from .case import Case
from .cases import resized_cases
from .device_under_test import LoadedNetwork, reference
from .finding import Finding
from .operators import difference

CHECK = "shapes"


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Return a finding for each network that the device runs as one region."""
    return [
        finding
        for small, large in resized_cases()
        if not only or small.name.startswith(only)
        for finding in _checked(device, small, large, tolerance)
    ]


def _checked(device: Device, small: Case, large: Case, tolerance: float) -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = LoadedNetwork(device, small, Path(folder))
        regions = network.library.summary.regions
        if len(regions) != 1 or len(regions[0].onnx_nodes) != len(small.nodes):
            return []
        modules = [m for m in _imported_modules(network.module) if m.type_key == "device_region"]
        if not modules or _is_shape_specific(modules[0]):
            return []
        try:
            wrong = _run_all(network.module, modules[0], [small, small, large, small], tolerance)
        except Exception as problem:  # a finding, not an end of the test
            wrong = str(problem) or type(problem).__name__
    return [
        Finding(
            CHECK,
            small.name,
            not wrong,
            wrong or "prepared again at its shapes, at larger ones and back",
        )
    ]


def _is_shape_specific(module) -> bool:
    """Return whether the device's compiler has replaced an operator by its own code."""
    (region,) = json.loads(module.get_source())["regions"]
    return any(node["op"].startswith("custom_") for node in region["nodes"])


def _imported_modules(module) -> list:
    """Return all directly and indirectly imported modules."""
    return [m for own in module.imported_modules for m in (own, *_imported_modules(own))]


def _run_all(library, module, cases: list[Case], tolerance: float) -> str:
    """Run the region with the cases' shapes in turn; return a description of a mismatch, or ""."""
    region = json.loads(module.get_source())["regions"][0]
    reshape = tvmrt.get_global_func("tvmrt.device.reshape")
    run = library.get_function(region["symbol"], True)
    for case in cases:
        (x,) = case.feeds.values()
        shape = tvmrt.runtime.ShapeTuple(x.shape)
        reshape(library, region["symbol"], region["inputs"][0], shape)
        (golden,) = reference(case.model(), case.feeds)
        y = tvmrt.nd.array(np.full(golden.shape, np.nan, golden.dtype))
        run(tvmrt.nd.array(x), y)
        _, wrong = difference(y.numpy(), golden, tolerance)
        if wrong:
            return f"at {list(x.shape)}: {wrong}"
    return ""
