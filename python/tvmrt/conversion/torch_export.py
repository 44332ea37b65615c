"""Export of a PyTorch module to ONNX: by a trace, or by ``torch.export``."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from tvmrt.conversion.exporter import first_sentence, report_failure
from tvmrt.conversion.torch_inputs import Call

CONTROL_FLOW = (
    "a decision by values, sizes or a state in Python is a constant of the network; use "
    "torch.where, torch.cond or operations of tensors"
)
# Warnings of tensors that are constants; whether one depends on a size shows in the comparison.
_HARMLESS = "registered as constants"


def export_module(torch: Any, call: Call, what: str, instead: str) -> tuple[Any, str]:
    """Return the ONNX network of a module, and a note on the code that a trace may not record.

    Raises
    ------
    ValueError
        If the module cannot be recorded; the text names the line of its code.
    """
    tensors = tuple(call.tensors(call.inputs.first))
    wrapped = _wrapper(torch, call)
    names = [each.name for each in call.inputs.drawn]
    dynamic = {
        each.name: {i: n for i, n in enumerate(each.shape) if isinstance(n, str)}
        for each in call.inputs.drawn
    }
    failure, note = None, ""
    try:
        network, unsafe, note = _trace(torch, wrapped, tensors, names, dynamic)
        if not unsafe:
            return network, note
    except Exception as error:  # torch raises anything
        failure, unsafe = error, ""
    program = _export_program(torch, wrapped, tensors, names, dynamic)
    if program is not None:
        return program, unsafe
    if unsafe:
        missing = _missing_for_export()
        more = f"; torch can record more {missing}" if missing else ""
        raise ValueError(f"torch.onnx cannot export {what}: {unsafe}; {CONTROL_FLOW}{more}")
    with report_failure("torch.onnx", what, instead):
        raise failure or ValueError("unknown reason")


def _missing_for_export() -> str:
    """Return what ``torch.export`` needs to write a network; empty if nothing is missing."""
    if importlib.util.find_spec("onnxscript") is None:
        return "with the package onnxscript"
    # it imports triton, which ends a process in which TensorFlow has loaded another LLVM
    clashes = "tensorflow" in sys.modules and "triton" not in sys.modules
    has_triton = clashes and importlib.util.find_spec("triton") is not None
    return "in a process without TensorFlow" if has_triton else ""


def _wrapper(torch: Any, call: Call) -> Any:
    """Return a module that takes the tensors by position and returns tensors only."""
    if isinstance(call.module, torch.jit.ScriptModule):  # is exported with its branches and loops
        return call.module

    class Flat(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = call.module

        def forward(self, *tensors: Any) -> Any:
            results = call.forward(*tensors)
            return results[0] if len(results) == 1 else results

    return Flat().eval()


def _trace(
    torch: Any, module: Any, tensors: Any, names: list[str], dynamic: Any
) -> tuple[Any, str, str]:
    """Return the network of a trace, the first warning that it is unsafe, and another one."""
    import onnx

    file = io.BytesIO()
    set_log = getattr(getattr(torch, "_C", None), "_jit_set_onnx_log_enabled", None)
    if set_log is not None:  # it prints the whole graph if an operator is not supported
        set_log(False)
    with silent() as caught, torch.no_grad():
        torch.onnx.export(
            module, tensors, file, input_names=names, dynamic_axes=dynamic, dynamo=False
        )
    warnings_of_trace = [
        each for each in caught if issubclass(each.category, torch.jit.TracerWarning)
    ]
    notes = {_HARMLESS in str(each.message): _text(each) for each in reversed(warnings_of_trace)}
    return onnx.load_model_from_string(file.getvalue()), notes.get(False, ""), notes.get(True, "")


def _text(warning: Any) -> str:
    return f"{warning.filename}:{warning.lineno}: {first_sentence(warning.message)}"


def _export_program(
    torch: Any, module: Any, tensors: Any, names: list[str], dynamic: Any
) -> Any | None:
    """Return the network by ``torch.export``; None if that fails, or fixes a dynamic dimension."""
    if _missing_for_export():
        return None
    shapes = (tuple(dynamic[name] or None for name in names),)
    try:
        with silent(), torch.no_grad():
            network = torch.onnx.export(
                module, tensors, input_names=names, dynamic_shapes=shapes, dynamo=True,
                verbose=False,
            ).model_proto  # fmt: skip
    except Exception:  # the trace has the better reason
        return None
    found = [[d.dim_param for d in each.type.tensor_type.shape.dim] for each in network.graph.input]
    fixed = any(not dims[axis] for name, dims in zip(names, found) for axis in dynamic[name])
    return None if fixed or len(found) != len(names) else network


@contextlib.contextmanager
def silent() -> Iterator[list[Any]]:
    """Hide what exporters print and log for their developers; return the list of warnings. Output
    of other threads is hidden, too."""
    output = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(output))
        stack.enter_context(contextlib.redirect_stderr(output))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        yield caught
