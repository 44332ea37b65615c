"""PyTorch modules, exported programs and files, converted by ``torch.onnx``.

Modules are traced first: it is quick, and its warnings name the line of the user's code that a
trace cannot record. Only if there are some, or the trace fails, ``torch.export`` is tried, which
takes seconds and records sizes and some decisions.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tvmrt.conversion import TORCH_EXPORT, Converted, Settings, torch_inputs, torch_quantized
from tvmrt.conversion.arrays import example_advice, leaves, to_array
from tvmrt.conversion.exporter import first_sentence, import_exporter, report_failure
from tvmrt.conversion.original import Original
from tvmrt.conversion.torch_export import CONTROL_FLOW, export_module, silent
from tvmrt.file_suffix import suffix_of
from tvmrt.option_syntax import option

INSTEAD = "export it yourself with torch.onnx.export() and give the ONNX file"


def convert_file(path: Any, settings: Settings) -> Converted:
    """Convert a TorchScript file or an exported program."""
    name = os.fspath(path)
    torch = import_exporter("torch", f"{name} is a PyTorch file", "torch onnxscript", TORCH_EXPORT)
    is_program = suffix_of(name) == ".pt2"
    try:
        with silent():
            if is_program:
                torch_quantized.register_operators()
                module = torch.export.load(name)
            else:
                module = torch.jit.load(name, map_location="cpu")
    except Exception as error:  # torch raises anything
        what = "not a complete exported program" if is_program else "not TorchScript"
        advice = (
            "write it again with torch.export.save() in a process that has imported the libraries "
            "of its operators, and copy the whole file"
            if is_program
            else f"if it has weights, load them into the module and give that, or {TORCH_EXPORT}"
        )
        raise ValueError(f"{name} is {what} ({first_sentence(error)}); {advice}") from None
    return convert_model(module, settings)


def convert_model(model: Any, settings: Settings) -> Converted:
    """Convert a module, with inputs of the given shapes or like the example, or an exported
    program."""
    torch = import_exporter("torch", "the model is of PyTorch", "torch", INSTEAD)
    what = f"a {type(model).__name__}"
    if isinstance(model, torch.export.ExportedProgram):
        return _convert_program(torch, model, settings)
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"{what} of PyTorch is not a module; {INSTEAD}")
    if torch_quantized.is_quantized(model):
        raise ValueError(
            f"{what} of convert_pt2e() has integers whose arithmetic a trace does not record; give "
            "the program that torch.export.export() makes of it"
        )
    if not settings.shapes and settings.example is None:
        required = [name for name, needed in _parameters(model).items() if needed]
        shapes = {name: (1, 3, 224, 224) for name in required or ["x"]}
        raise ValueError(
            f"{what} of PyTorch does not record the shapes of its inputs; give for example "
            f"{option('shapes', shapes)}, or {example_advice()}"
        )
    inputs = torch_inputs.of_module(model, list(_parameters(model)), settings)
    call = torch_inputs.Call(torch, model, inputs)
    with _evaluating(model):
        _check_inputs(call, what, bool(settings.example is None))
    _check_mode(torch, model, call, what)
    with _evaluating(model):
        network, note = export_module(torch, call, what, INSTEAD)

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        with _evaluating(model):
            return call(feeds)

    advice = f"{note}; {CONTROL_FLOW}" if note else CONTROL_FLOW
    original = Original(what, "torch.onnx", run, inputs.drawn, advice=advice)
    return Converted(network, None, torch_inputs.declared_dims(settings), original)


def _convert_program(torch: Any, program: Any, settings: Settings) -> Converted:
    if settings.example is not None:
        raise ValueError(f"an exported program has examples of its own; omit {option('example')}")
    what = "an ExportedProgram"
    with report_failure("torch.onnx", what, INSTEAD), silent():
        network = torch.onnx.export(program, dynamo=True, verbose=False).model_proto
    module, tree = program.module(), torch.utils._pytree
    examples, structure = tree.tree_flatten(program.example_inputs or ((), {}))

    def run(feeds: Mapping[str, Any]) -> list[Any]:
        tensors = [torch_inputs.tensor(torch, each) for each in feeds.values()]
        positional, named = tensors, {}
        if examples:
            positional, named = tree.tree_unflatten(tensors, structure)
        with torch.no_grad():
            return [to_array(each) for each in leaves(module(*positional, **named))]

    examples = [to_array(each) for each in examples]
    nodes = torch_quantized.quantized_nodes(torch, module, network)
    original = Original(what, "torch.onnx", run, examples=examples, advice=INSTEAD, nodes=nodes)
    return Converted(network, settings.shapes, settings.dims, original)


def _parameters(model: Any) -> dict[str, bool]:
    """Return the parameters of ``forward`` in order, and whether each is required."""
    schema = getattr(model.forward, "schema", None)
    if schema is not None:  # TorchScript
        return {each.name: not each.has_default_value() for each in schema.arguments[1:]}
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {p.name: p.default is p.empty for p in parameters if p.kind in kinds}


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    """Set a module and all modules in it to evaluation, and restore their modes."""
    modes = [(each, each.training) for each in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for each, training in modes:
            each.training = training


def _check_inputs(call: torch_inputs.Call, what: str, drawn: bool) -> None:
    """Raise ValueError if the module does not take its inputs."""
    try:
        call(call.inputs.first)
    except Exception as error:  # of the module's code
        inputs_text = (
            f"float32 inputs of the shapes {call.inputs.shapes()}" if drawn else "the example"
        )
        advice = example_advice() if drawn else "give inputs that it takes"
        raise ValueError(
            f"forward() of {what} does not take {inputs_text}: {first_sentence(error)}; {advice}"
        ) from None


def _check_mode(torch: Any, model: Any, call: torch_inputs.Call, what: str) -> None:
    """Raise ValueError for a module in training mode that computes something else then.

    A copy is run, because layers such as batch normalisation change in training mode.
    """
    if not any(each.training for each in model.modules()):
        return
    import copy

    with _evaluating(model):
        expected = call(call.inputs.first)
    try:
        with torch.random.fork_rng(devices=()):
            results = torch_inputs.Call(torch, copy.deepcopy(model), call.inputs)(call.inputs.first)
        same = all(torch_inputs.equal(a, b) for a, b in zip(expected, results))
    except Exception:  # batch normalisation of one row, or a module that cannot be copied
        same = False
    if not same:
        raise ValueError(
            f"{what} is in training mode, where it computes other results than in evaluation, as "
            "dropout and batch normalisation do; call its eval() first"
        )
