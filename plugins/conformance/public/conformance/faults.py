"""Check that wrong calls and damaged libraries give errors, and the device then still works."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tvmrt
from tvmrt.compiler.sdk.devices import TYPE_KEY, CSource, Device

from .device_under_test import LoadedNetwork, accepted_cases
from .finding import Finding

CHECK = "faults"
CUTS = 40  # number of truncated or modified payloads


def check(device: Device, tolerance: float, only: tuple[str, ...] = ()) -> list[Finding]:
    """Check wrong arguments of a region's function, and damage to the payload of its module."""
    accepted = [claim for claim in accepted_cases(device, only) if claim.regions]
    if not accepted:
        return []
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        network = LoadedNetwork(device, accepted[0].case, Path(folder))
        found = list(_wrong_calls(network))
        if network.blob is None:
            detail = "its code is compiled into the library: there is no module to damage"
            return [*found, Finding(CHECK, "damaged module", True, detail)]
        if network.blob.type_key != TYPE_KEY:
            detail = f"modules of kind {network.blob.type_key} have their own reader"
            return [*found, Finding(CHECK, "damaged module", True, detail)]
        return [*found, *_damage(network, device)]


def _wrong_calls(network: LoadedNetwork) -> Iterator[Finding]:
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
    yield _must_work("a right call after that", lambda: function(*good))


def _tensor(shape: tuple[int, ...], dtype: np.dtype) -> Any:
    return tvmrt.nd.array(np.ones(shape, dtype))


def _must_fail(what: str, action: Callable[[], Any]) -> Finding:
    try:
        action()
    except Exception as problem:  # any error is accepted
        return Finding(CHECK, what, bool(str(problem)), str(problem).splitlines()[0][:200])
    return Finding(CHECK, what, False, "was taken without an error")


def _must_work(what: str, action: Callable[[], Any]) -> Finding:
    try:
        action()
    except Exception as problem:  # a finding, not an end of the test
        return Finding(CHECK, what, False, str(problem))
    return Finding(CHECK, what, True)


def _damage(network: LoadedNetwork, device: Device) -> Iterator[Finding]:
    load = tvmrt.get_global_func("tvmrt.device.load_regions")
    text, constants = _parts(network.blob.payload)

    def change_field(change: Callable[[dict], None]) -> bytearray:
        head = json.loads(text)
        change(head)
        return bytearray(json.dumps(head).encode())

    def newer(head: dict) -> None:
        head["device_version"] = 1 << 30

    def unknown(head: dict) -> None:
        head["regions"][0]["nodes"][0]["op"] = "no_such_operator"

    def elsewhere(head: dict) -> None:
        head["device"] = "no_such_device"

    def outside(head: dict) -> None:
        head["regions"][0]["nodes"][0]["inputs"][0] = 1 << 20

    yield _must_work("the module as it is", lambda: load(bytearray(text), bytearray(constants)))
    if not _is_scripted(device.name):
        yield _must_fail("a newer version", lambda: load(change_field(newer), bytearray(constants)))
        unknown_text = change_field(unknown)
        run = _loaded_and_run(load, unknown_text, constants, network)
        yield _must_fail("an unknown operator", run)
    yield _must_fail("another device", lambda: load(change_field(elsewhere), bytearray(constants)))
    yield _must_fail(
        "a tensor out of range", lambda: load(change_field(outside), bytearray(constants))
    )
    yield _survives("text and constants cut short or changed", load, text, constants)


def _is_scripted(name: str) -> bool:
    """Whether the run-time half is a frontend's, which checks neither version nor operators."""
    return tvmrt.get_global_func(f"device.{name}.describe", allow_missing=True) is None


def _parts(payload: bytes) -> tuple[bytes, bytes]:
    size = int.from_bytes(payload[:8], "little")
    return payload[8 : 8 + size], payload[16 + size :]


def _loaded_and_run(load, text, constants, network: LoadedNetwork) -> Callable[[], Any]:
    """Return an action that loads the module and calls its first function; either should fail."""
    (region, *_) = network.library.partition.regions

    def action() -> None:
        module = load(text, bytearray(constants))
        good = [_tensor(v.shape, v.dtype.numpy) for v in [*region.inputs, *region.outputs]]
        module[region.symbol](*good)

    return action


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
