"""Made by docs/option_types.py from tvmrt.Request: its options by their names."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from tvmrt.compiler.custom import OperatorSource
from tvmrt.devices import Device

class CompileOptions(TypedDict, total=False):
    executor: str | None
    runtime: str | None
    interface_api: str
    unpacked_api: bool | None
    abi: str
    target: str | None
    levels: Sequence[str]
    board: str | None
    devices: Sequence[str | Device]
    require_device: Sequence[str]
    device_fallback: bool
    schedule: str
    mixed_precision: str | None
    precision: str
    weights: str | None
    winograd: bool | None
    reproducible: bool
    row_chains: bool | None
    max_error: float | None
    calibration: Sequence[Mapping[str, Any]]
    device_options: Mapping[str, Mapping[str, Any]] | None
    operators: Sequence[OperatorSource] | OperatorSource
    shapes: Mapping[str, Sequence[int | str]] | None
    dims: Mapping[str, int | str | tuple[int, int]] | None
    example: Any
    trusted: bool
    sequences: Mapping[str, int | None] | None
    values: Mapping[str, int | Sequence[int]] | None
    real_time: bool
    requantize: str
    params: str | None
    pools: Mapping[str, int | tuple[int, str]] | None
    ram: int | None
    workspace_io: bool
    place: Mapping[str, str] | None
    max_memory: int | None
    module_name: str
    profile: bool
    record: bool
    trace_records: int | None
    cc: str | None
    dump_dir: str | os.PathLike[str] | None
    progress: Callable[[str, int, int], None] | None
    evidence: str | os.PathLike[str] | None
    evidence_inputs: Mapping[str, Any] | str | os.PathLike[str] | None
    evidence_key: str | os.PathLike[str] | None
    guard: str | None
    proof: bool
    stream: str | int | None
    tflite_rounding: str | None
    signature: str | None
