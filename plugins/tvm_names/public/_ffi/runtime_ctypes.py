"""Names of ``tvm._ffi.runtime_ctypes``."""

from __future__ import annotations

from tvmrt.runtime.data_type import DataType, DataTypeCode
from tvmrt.runtime.device import Device

__all__ = ["DataType", "DataTypeCode", "Device"]
