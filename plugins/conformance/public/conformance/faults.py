"""Check that wrong calls and damaged libraries give errors, and the device then still works."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import TYPE_KEY, CSource, Device

from .asynchronous import LONG_MS, is_asynchronous, time_limit
from .device_under_test import Network, accepted_cases
from .finding import Finding, find

CHECK = "faults"
TOLERANCE = 0.01  # of a result; other checks compare more exactly
CUTS = 40  # number of truncated or modified payloads


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Check wrong arguments of a region's function, and damage to the payload of its module."""
    accepted = [claim for claim in accepted_cases(device, only) if claim.regions]
    if not accepted:
        return []
    longest = max(accepted, key=lambda claim: len(claim.regions[0]))
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = Network(device, [longest.case], Path(folder))
        found = list(_wrong_calls(network))
        modules = network.library.sources.modules
        if not modules:
            detail = "its code is compiled into the library: there is no module to damage"
            return [*found, Finding(CHECK, "damaged module", True, detail)]
        if modules[0].type_key != TYPE_KEY:
            detail = f"modules of kind {modules[0].type_key} have their own reader"
            return [*found, Finding(CHECK, "damaged module", True, detail)]
        found += _damage(network, device)
        if not _is_scripted(device.name):
            found += [
                _fails_at_unknown_operator(
                    what, Network(device, [longest.case], Path(folder), **options)
                )
                for what, options in _ways_to_run(device).items()
            ]
        return found


def _wrong_calls(network: Network) -> Iterator[Finding]:
    """Pass too few tensors, a wrong shape, a wrong type: each must fail, and the next call work."""
    if not network.library.partition.regions:
        yield Finding(CHECK, "wrong calls", True, "its code is the network's: no region is called")
        return
    (region, *_) = network.library.partition.regions
    if isinstance(region.code, CSource) and region.code.entry == "pointers":
        yield Finding(CHECK, "wrong calls", True, "its functions take pointers, not tensors")
        return
    function = network.module.get_function(region.symbol, query_imports=True)
    good = [_tensor(v.shape, v.dtype.numpy) for v in [*region.inputs, *region.outputs]]
    if isinstance(region.code, CSource):
        # generated for this network: only the number of arguments must be checked
        wrong = {"too few tensors": good[:-1]}
    else:
        first = region.inputs[0]
        other_shape = _tensor((*first.shape, 2), first.dtype.numpy)
        other_type = _tensor(first.shape, np.dtype("float64"))
        wrong = {
            "too few tensors": good[:-1],
            "another shape": [other_shape, *good[1:]],
            "another type": [other_type, *good[1:]],
            "no tensor": [1, *good[1:]],
        }
    for what, arguments in wrong.items():
        yield _must_fail(what, lambda arguments=arguments: function(*arguments))
    yield find(CHECK, "a right call after that", lambda: function(*good))


def _tensor(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return tvmrt.nd.array(np.ones(shape, dtype))


def _must_fail(what: str, action: Callable[[], Any]) -> Finding:
    try:
        action()
    except Exception as problem:  # any error is accepted
        return Finding(CHECK, what, bool(str(problem)), str(problem).splitlines()[0][:200])
    return Finding(CHECK, what, False, "was taken without an error")


def _damage(network: Network, device: Device) -> Iterator[Finding]:
    load = tvmrt.get_global_func("tvmrt.device.load_regions")
    text, constants = _parts(network.library.sources.modules[0].payload)

    def changed(change: Callable[[dict], None]) -> Callable[[], Any]:
        head = json.loads(text)
        change(head)
        return lambda: load(bytearray(json.dumps(head).encode()), bytearray(constants))

    yield find(CHECK, "the module as it is", lambda: changed(lambda head: None)() and "")
    for what, change in CHANGES.items():
        if what != "a newer version" or not _is_scripted(device.name):
            yield _must_fail(what, changed(change))
    yield _survives("text and constants cut short or changed", load, text, constants)


CHANGES: dict[str, Callable[[dict], None]] = {
    "a newer version": lambda head: head.update(device_version=1 << 30),
    "another device": lambda head: head.update(device="no_such_device"),
    "a tensor out of range": lambda head: head["regions"][0]["nodes"][0].update(inputs=[1 << 20]),
}


def _is_scripted(name: str) -> bool:
    """Whether the run-time half is a frontend's, which checks neither version nor operators."""
    return tvmrt.get_global_func(f"device.{name}.describe", allow_missing=True) is None


def _parts(payload: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(payload[:8], "little")
    return payload[8 : 8 + size], payload[16 + size :]


def _ways_to_run(device: Device) -> dict[str, dict[str, Any]]:
    """Return options of the compiler with which a run ends at once or in a later wait."""
    ways: dict[str, dict[str, Any]] = {"an unknown operator": {}}
    if is_asynchronous(device):
        ways |= {
            "an unknown operator in a started run": time_limit(device, LONG_MS),
            "an unknown operator with the asynchronous scheduler": {"schedule": "async"},
            "an unknown operator in generated code": {"schedule": "async", "executor": "aot"},
        }
    return ways


def _fails_at_unknown_operator(what: str, network: Network) -> Finding:
    """Check that each node whose operator is unknown fails a run, or its load; and that a correct
    network runs before and after that."""
    modules = network.library.sources.modules
    blob = modules[0]
    text, constants = _parts(blob.payload)
    head = json.loads(text)
    nodes = [node for region in head["regions"] for node in region["nodes"]]
    numbers = count()

    def run(payload: bytes = blob.payload) -> str:
        modules[0] = dataclasses.replace(blob, payload=payload)
        network.free()
        network.path = network.path.with_name(f"{next(numbers)}.so")
        network.library.export(network.path)
        return network.wrong(TOLERANCE)

    found = find(CHECK, what, run)
    for node in (nodes[0], nodes[-1]):
        if found.passed:
            op, node["op"] = node["op"], "no_such_operator"
            changed = json.dumps(head).encode()
            node["op"] = op
            sizes = [len(part).to_bytes(8, "little") for part in (changed, constants)]
            found = _must_fail(what, lambda: run(sizes[0] + changed + sizes[1] + constants))  # noqa: B023
            after = find(CHECK, what, run)
            found = found if after.passed else after
    return found


def _survives(what: str, load, text: bytes, constants: bytes) -> Finding:
    """Check that loading arbitrary bytes ends with a module or an error."""
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(CUTS):
        spoiled = bytearray(text)
        if rng.random() < 0.5:
            del spoiled[int(rng.integers(len(spoiled))) :]
        else:
            spoiled[int(rng.integers(len(spoiled)))] ^= 1 << int(rng.integers(7))
        rest = constants[: int(rng.integers(len(constants) + 1))]
        try:
            load(spoiled, bytearray(rest))
        except Exception:  # the expected result
            refused += 1
    return Finding(CHECK, what, refused > 0, f"{refused} of {CUTS} are refused")
