"""Sessions of onnxruntime for comparisons, with all element types as inputs and outputs."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx

# On x86 without VNNI, onnxruntime's uint8 by int8 matmul overflows unless this setting is on. Some
# networks fail to load with the setting.
EXACT_INT8_OPTION = "session.x64quantprecision"
# onnxruntime replaces the product with dequantised weights by a MatMulNBits, whose default rounds
# activations to 8 bits; 1 means float32.
FLOAT32_LEVEL = "1"
DEQUANTIZED_MATMUL_OPTION = "session.qdq_matmulnbits_accuracy_level"


def onnxruntime_session(
    model: Path | onnx.ModelProto, threads: int, optimise: bool = True, exact: bool = False
):
    """Return an onnxruntime session with that many threads.

    ``exact`` prefers correct results over speed. Raises ImportError if onnxruntime is not
    installed, and ValueError if it cannot load the network.
    """
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            "onnxruntime is not installed; install it with 'pip install onnxruntime'"
        ) from None
    level = onnxruntime.GraphOptimizationLevel
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    refused = ""
    for setting in ("1", "0") if exact else ("0",):
        choices = onnxruntime.SessionOptions()
        choices.intra_op_num_threads = threads
        choices.inter_op_num_threads = 1
        choices.log_severity_level = 4  # errors are reported below, or avoided by a retry
        choices.graph_optimization_level = (
            level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
        )
        choices.add_session_config_entry(EXACT_INT8_OPTION, setting)
        if exact:
            choices.add_session_config_entry(DEQUANTIZED_MATMUL_OPTION, FLOAT32_LEVEL)
        try:
            return onnxruntime.InferenceSession(source, choices, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions share no base class
            refused = " ".join(str(error).split())
    raise ValueError(f"onnxruntime rejects the network: {refused}")


def without_fixed_extents(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]
) -> onnx.ModelProto:
    """Return the model, or a copy without fixed extents if the inputs have other extents."""
    import onnx

    weights = {tensor.name for tensor in model.graph.initializer}
    fixed = [
        info
        for info in model.graph.input
        if info.name in inputs and info.name not in weights
        for dim, extent in zip(
            info.type.tensor_type.shape.dim, getattr(inputs[info.name], "shape", ())
        )
        if dim.HasField("dim_value") and dim.dim_value != extent
    ]
    if not fixed:
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = {info.name for info in fixed}
    changed_inputs = [info for info in copy.graph.input if info.name in names]
    for info in (*changed_inputs, *copy.graph.output, *copy.graph.value_info):
        for dim in info.type.tensor_type.shape.dim:
            dim.Clear()
    return copy


def run_onnxruntime(
    model: onnx.ModelProto, inputs: Mapping[str, Any], optimise: bool
) -> dict[str, Any]:
    """Return every output by name; sequences are lists."""
    model = without_fixed_extents(model, inputs)
    session = onnxruntime_session(model, 1, optimise=optimise, exact=True)
    try:
        return _run(session, inputs)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"onnxruntime cannot run the network: {reason}") from None


# Element types whose arrays onnxruntime does not convert from and to NumPy.
_RAW = re.compile(r"tensor\((u?int[24]|float[48]e\w+|bfloat16)\)")


def _run(session: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return every output of a session by name; arrays of small types have those of ml_dtypes."""
    raw = {each.name for each in session.get_inputs() if _RAW.fullmatch(each.type)}
    feeds = {name: _from_array(v) if name in raw else v for name, v in inputs.items()}
    names = [each.name for each in session.get_outputs()]
    small = [each.name for each in session.get_outputs() if _RAW.fullmatch(each.type)]
    plain = [name for name in names if name not in small]
    found = dict(zip(plain, session.run(plain, feeds))) if plain else {}
    if small:
        values = session.run_with_ort_values(small, _as_ort_values(feeds))
        found.update(zip(small, map(_to_array, values)))
    return {name: found[name] for name in names}


def _as_ort_values(feeds: Mapping[str, Any]) -> dict[str, Any]:
    from onnxruntime import OrtValue

    return {
        name: v if isinstance(v, OrtValue) else OrtValue.ortvalue_from_numpy(v)
        for name, v in feeds.items()
    }


def _from_array(array: np.ndarray) -> Any:
    """Return an array as a tensor of onnxruntime, through its packed bytes."""
    from onnx import numpy_helper
    from onnxruntime import OrtValue

    tensor = numpy_helper.from_array(array)
    value = OrtValue.ortvalue_from_shape_and_type(list(array.shape), tensor.data_type)
    ctypes.memmove(value.data_ptr(), tensor.raw_data, len(tensor.raw_data))
    return value


def _to_array(value: Any) -> np.ndarray:
    """Return a tensor of onnxruntime as an array, through its packed bytes."""
    from onnx import TensorProto, numpy_helper

    size = value.tensor_size_in_bytes()
    data = ctypes.string_at(value.data_ptr(), size) if size else b""
    kind, dims = value.element_type(), value.shape()
    return numpy_helper.to_array(TensorProto(data_type=kind, dims=dims, raw_data=data))
