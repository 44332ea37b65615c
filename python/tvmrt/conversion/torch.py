"""PyTorch modules, exported programs and files, converted by ``torch.onnx``."""

from __future__ import annotations

import inspect
import io
import os
import re
from typing import Any

from tvmrt.conversion import TORCH_EXPORT, Sizes
from tvmrt.conversion.exporter import first_sentence, import_exporter, report_failure
from tvmrt.file_suffix import suffix_of
from tvmrt.option_syntax import option

INSTEAD = "export it yourself with torch.onnx.export() and give the ONNX file"
_EXAMPLE_EXTENT = 2  # of dynamic dimensions during export


def convert_file(path: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert a TorchScript file or an exported program."""
    name = os.fspath(path)
    torch = import_exporter("torch", f"{name} is a PyTorch file", "torch onnxscript", TORCH_EXPORT)
    try:
        if suffix_of(name) == ".pt2":
            return convert_model(torch.export.load(name), sizes)
        module = torch.jit.load(name, map_location="cpu")
    except Exception as error:  # torch raises anything
        raise ValueError(
            f"{name} is neither TorchScript nor an exported program ({first_sentence(error)}); if "
            f"it has weights, load them into the module and {TORCH_EXPORT}"
        ) from None
    return convert_model(module, sizes)


def convert_model(model: Any, sizes: Sizes) -> tuple[Any, Sizes]:
    """Convert a module, with inputs of the given shapes, or an exported program."""
    torch = import_exporter("torch", "the model is of PyTorch", "torch", INSTEAD)
    what = f"a {type(model).__name__}"
    if isinstance(model, torch.export.ExportedProgram):
        with report_failure("torch.onnx", what, INSTEAD):
            return torch.onnx.export(model, dynamo=True, verbose=False).model_proto, sizes
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{what} of PyTorch is not a module; {INSTEAD}")
    if not sizes.shapes:
        example = {name: (1, 3, 224, 224) for name in _input_names(model)}
        raise ValueError(
            f"{what} of PyTorch does not record the shapes of its inputs; give for example "
            f"{option('shapes', example)}, or {INSTEAD}"
        )
    return _export_module(torch, model, sizes), _declared(sizes)


def _input_names(model: Any) -> list[str]:
    """Return the names of the required parameters of ``forward``."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return ["x"]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    found = [p.name for p in parameters if p.kind in kinds and p.default is p.empty]
    return found or ["x"]


def _export_module(torch: Any, model: Any, sizes: Sizes) -> Any:
    """Return the ONNX network of a module with float32 inputs of these shapes, in their order."""
    import onnx

    shapes = {name: list(shape) for name, shape in (sizes.shapes or {}).items()}
    dynamic = {
        name: {i: _dimension_name(n) for i, n in enumerate(shape) if isinstance(n, str)}
        for name, shape in shapes.items()
    }
    inputs = tuple(
        torch.zeros([_EXAMPLE_EXTENT if isinstance(n, str) else int(n) for n in shape])
        for shape in shapes.values()
    )
    file = io.BytesIO()
    training = model.training
    try:
        with report_failure("torch.onnx", f"a {type(model).__name__}", INSTEAD):
            torch.onnx.export(
                model.eval(), inputs, file, input_names=list(shapes), dynamic_axes=dynamic,
                dynamo=False,
            )  # fmt: skip
    finally:
        model.train(training)
    return onnx.load_model_from_string(file.getvalue())


def _dimension_name(text: str) -> str:
    """Return the name of a dimension that may be declared with bounds: ``N<=8``."""
    return re.split(r"<=|=", text, maxsplit=1)[0].strip()


def _bounds(text: str) -> tuple[int, int] | str:
    """Return the bounds of ``N<=8`` or ``N=2..8``, or the expression of ``N=2*M``."""
    match = re.fullmatch(r"[^<=]+(?:<=|=(?P<low>\d+)\.\.)(?P<high>\d+)", text)
    return (int(match["low"] or 1), int(match["high"])) if match else text.partition("=")[2]


def _declared(sizes: Sizes) -> Sizes:
    """Return the bounds that shapes declare; the exported network has the shapes itself."""
    extents = [n for shape in (sizes.shapes or {}).values() for n in shape if isinstance(n, str)]
    bounds = {_dimension_name(text): _bounds(text) for text in extents if "=" in text}
    return Sizes(None, {**bounds, **(sizes.dims or {})})
