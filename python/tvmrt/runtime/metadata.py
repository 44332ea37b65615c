"""Metadata of compiled networks: functions, their parameters, and the memory that each needs."""

from __future__ import annotations

from dataclasses import dataclass

from tvmrt.runtime import _core
from tvmrt.runtime._library import decode, ffi, pointer
from tvmrt.runtime.data_type import DataType
from tvmrt.runtime.device import Device

__all__ = ["FunctionInfo", "ModelMetadata", "ParameterInfo"]


@dataclass(frozen=True)
class ParameterInfo:
    """Input or output of a function.

    ``relay_name_hint``: Name in the network. ``tir_name_hint``: Name in generated code. ``shape``:
    Extents; dynamic ones have their maximum. ``device``: Device of its memory.
    """

    relay_name_hint: str
    tir_name_hint: str
    shape: tuple[int, ...]
    dtype: DataType
    device: Device


@dataclass(frozen=True)
class FunctionInfo:
    """Function of a network. Sizes in bytes: of its intermediate values, of ``params``, of its
    weights. ``params``: The inputs, then the outputs."""

    function_name: str
    params: tuple[ParameterInfo, ...]
    num_inputs: int
    num_outputs: int
    workspace_size_bytes: int
    io_size_bytes: int
    constant_size_bytes: int

    @property
    def inputs(self) -> tuple[ParameterInfo, ...]:
        """The parameters that it reads."""
        return self.params[: self.num_inputs]

    @property
    def outputs(self) -> tuple[ParameterInfo, ...]:
        """The parameters that it writes."""
        return self.params[self.num_inputs :]


@dataclass(frozen=True)
class ModelMetadata:
    """Metadata of a network, with the names of the struct in ``tvm/runtime/metadata.h``.

    ``functions``: The main function, then all operators and regions of devices.
    """

    version: int
    functions: tuple[FunctionInfo, ...]
    module_name: str


def read(address: int) -> ModelMetadata:
    """Copy the TVMModelMetadata at an address."""
    model = ffi.cast("TVMModelMetadata*", pointer(address))
    functions = tuple(_function(model.functions[i]) for i in range(model.num_functions))
    return ModelMetadata(model.version, functions, decode(model.module_name))


def _function(row: ffi.CData) -> FunctionInfo:
    params = tuple(_parameter(row.params[i]) for i in range(row.num_inputs + row.num_outputs))
    sizes = row.workspace_size_bytes, row.io_size_bytes, row.constant_size_bytes
    return FunctionInfo(decode(row.function_name), params, row.num_inputs, row.num_outputs, *sizes)


def _parameter(row: ffi.CData) -> ParameterInfo:
    dtype = DataType.__new__(DataType)
    _core.DataType.__init__(dtype, row.dtype.code, row.dtype.bits, row.dtype.lanes)
    return ParameterInfo(
        decode(row.relay_name_hint),
        decode(row.tir_name_hint),
        tuple(row.shape[i] for i in range(row.ndim)),
        dtype,
        Device(row.device.device_type, row.device.device_id),
    )
