"""Devices with a run-time part in Python: a method computes one operator with numpy."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tvmrt.compiler.ir import DTYPES

from .base import Context, Device
from .region_json import constants_of


@dataclass(frozen=True)
class RegionNode:
    """Operator of a loaded region, as in the compiler but without types."""

    op: str
    name: str
    attrs: dict[str, Any]


class PythonDevice(Device):
    """Base of devices in Python: subclass it and define ``supports`` and ``compute``.

    Registering enters the compile-time and the run-time part. Tensors are dense, row-major arrays;
    ``layout`` is not supported. Before a program loads a library with such regions it must import
    the device's module, or the device must be installed with an entry point ``tvmrt.devices``.
    """

    _starts = False  # whether the function from ``_prepare`` can also start runs asynchronously

    def refuses(self, context: Context) -> str | None:
        """Refuse boards, which cannot run Python."""
        if context.runtime == "crt":
            return f"{self.name} runs in Python, which a board has not"
        return None

    def compute(self, node: RegionNode, inputs: Sequence[np.ndarray | None]) -> Any:
        """Compute one operator and return its result, or a list of several.

        ``inputs`` must not be written to. Called from any thread, with Python's lock held.
        """
        raise NotImplementedError(f"device {self.name} does not implement compute")

    def enter_runtime(self) -> None:
        """Register the run-time half, ``device.<name>.run`` and ``pre_run``, in this process."""
        from tvmrt.runtime import register_func

        if self.layout != "dense":
            raise ValueError(
                f"device {self.name}: compute supports layout dense, not {self.layout}"
            )

        def pre_run(symbol: str, text: str, constants: Any, options: str) -> Any:
            return self._prepare(str(text), bytes(constants), str(options))

        def unprepared(*_: Any) -> None:
            raise RuntimeError(f"device {self.name}: pre_run was not called for a region")

        register_func(f"device.{self.name}.pre_run", pre_run, override=True)
        register_func(f"device.{self.name}.run", unprepared, override=True)
        if self._starts:
            register_func(f"device.{self.name}.start", unprepared, override=True)

    def _prepare(self, text: str, constants: bytes, options: str) -> Any:
        """Return the function that computes a region in one context."""
        return _LoadedRegion(self, json.loads(text), constants).run


class PackageDevice(PythonDevice):
    """Device with a Python package of its name as run-time part.

    The contexts of a region share the object that ``_load`` creates for it.
    """

    def __init__(self) -> None:
        self._loaded: WeakValueDictionary[bytes, Any] = WeakValueDictionary()

    def absent(self) -> str | None:
        """Return None if the package is installed, else the reason; it is not imported."""
        spec = importlib.util.find_spec(self.name)
        return None if spec else f"the package {self.name} is not installed"

    def refuses(self, context: Context) -> str | None:
        """Refuse boards, and this machine if the package is missing."""
        return super().refuses(context) or self.absent()

    def _load_once(self, text: str, constants: bytes, options: str) -> Any:
        key = hashlib.sha256(f"{text}\0{options}\0".encode() + constants).digest()
        region = self._loaded.get(key)
        if region is None:
            region = self._load(json.loads(text), constants, json.loads(options))
            self._loaded[key] = region
        return region

    def _load(self, region: dict[str, Any], constants: bytes, options: dict[str, Any]) -> Any:
        raise NotImplementedError


class _LoadedRegion:
    """Region in the form of region_json, with its constants as arrays."""

    def __init__(self, device: PythonDevice, region: dict[str, Any], constants: bytes) -> None:
        self._device = device
        self._region = region
        self._nodes = [RegionNode(n["op"], n["name"], n["attrs"]) for n in region["nodes"]]
        self._constants = constants_of(region, constants)

    def run(self, symbol: str, *tensors: Any) -> None:
        """Compute the region; ``tensors`` are its inputs, then its outputs."""
        region, values = self._region, dict(self._constants)
        count = len(region["inputs"])
        for number, tensor in zip(region["inputs"], tensors):
            values[number] = tensor.numpy()
        for node, row in zip(self._nodes, region["nodes"]):
            operands = [None if i < 0 else values[i] for i in row["inputs"]]
            result = self._device.compute(node, operands)
            results = result if isinstance(result, (list, tuple)) else [result]
            if result is None or len(results) != len(row["outputs"]):
                raise self._result_count_error(node, result, len(row["outputs"]))
            for number, array in zip(row["outputs"], results):
                values[number] = self._check_result(array, number, node)
        for number, tensor in zip(region["outputs"], tensors[count:]):
            tensor.copyfrom(values[number])

    def _result_count_error(self, node: RegionNode, result: Any, expected: int) -> ValueError:
        count = len(result) if isinstance(result, (list, tuple)) else 1
        text = (
            "None; a 'return' is missing" if result is None else f"{count} results, not {expected}"
        )
        return ValueError(
            f"device {self._device.name}: compute of {node.name} ({node.op}) returned {text}"
        )

    def _check_result(self, array: np.ndarray, number: int, node: RegionNode) -> np.ndarray:
        expected, shape = self._region["tensors"][number], np.shape(array)
        maximum = expected["shape"]
        minimum = expected.get("least", maximum)
        if len(shape) != len(maximum) or not all(
            a <= n <= b for a, n, b in zip(minimum, shape, maximum)
        ):
            lower = f"{minimum} to " if minimum != maximum else ""
            raise ValueError(
                f"device {self._device.name}: compute of {node.name} ({node.op}) returned shape "
                f"{list(shape)}, expected {lower}{maximum}"
            )
        return np.ascontiguousarray(array, DTYPES[expected["dtype"]].numpy).reshape(shape)
