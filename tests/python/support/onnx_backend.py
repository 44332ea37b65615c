"""A backend for ``onnx.backend``: runs ONNX models and single nodes on arrays, so that ONNX's own
tests run with it (``tests/python/onnx_suite``)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend as BaseBackend
from onnx.backend.base import BackendRep, Device, DeviceType, namedtupledict

import tvmrt
from tvmrt.compiler.export.library import CompiledLibrary
from tvmrt.compiler.frontend.onnx import default_inputs
from tvmrt.compiler.frontend.onnx.inputs import make_given_inputs
from tvmrt.compiler.frontend.onnx.tensors import array_of, dense
from tvmrt.compiler.ir.bundle import Bundle, part_name
from tvmrt.compiler.request import make
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.option_syntax import option

__all__ = ["Backend", "CompiledModel", "prepare", "run_model", "run_node", "supports_device"]


def _is_text(info: onnx.ValueInfoProto) -> bool:
    return info.type.tensor_type.elem_type == onnx.TensorProto.STRING


MAX_ELEMENTS = 16  # default maximum of a result whose number of elements is dynamic


class CompiledModel(BackendRep):
    """A compiled and loaded model; one thread at a time may run it.

    Parameters
    ----------
    model
        The model; it defines the names and the order of inputs and outputs.
    executor
        The executor of its library.
    library
        The compiled library, which describes the tensors of sequences and optional values; None
        for models without any.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        executor: GraphModule | None,
        library: CompiledLibrary | None = None,
    ) -> None:
        self._declared = [info.name for info in model.graph.input]
        self._defaults = _default_values(model)
        self._inputs = [name for name in self._declared if name not in self._defaults]
        self._outputs = [info.name for info in model.graph.output]
        self._result = namedtupledict("Outputs", self._outputs)
        self._executor = executor
        self._bundles = {} if library is None else library.bundles
        self._tensors = self._outputs if library is None else library.program.output_names
        # strings that an output of the library indexes
        labels = {} if library is None else library.program.labels
        texts = {i.name for i in model.graph.output if _is_text(i)}
        self._labels = {k: np.asarray(v, object) for k, v in labels.items() if k in texts}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Run once.

        Parameters
        ----------
        inputs
            Values in the order of the model's inputs, or by name: arrays, a list of arrays for a
            sequence, None for an absent optional value. An input whose default is an initializer
            may be left out. Another value is accepted if ``prepare`` got its shape.
        kwargs
            Must be empty; part of the interface of onnx.

        Returns
        -------
        A named tuple of the outputs, each an array owned by the caller, a list of arrays, or None.

        Raises
        ------
        ValueError
            If there are too few or too many inputs, one does not fit, or one has a default that is
            a constant in the library.
        KeyError
            If there is no input of this name.
        """
        if kwargs:
            raise TypeError(f"run() has no option {next(iter(kwargs))}; options go to prepare()")
        executor = self._executor
        assert executor is not None  # DynamicNetwork overrides run()
        for name, value in self._by_name(inputs).items():
            if name in self._defaults:
                raise ValueError(
                    f"input {name} has a default value, which is a constant in the library; give "
                    f"prepare() the option {option('shapes', {name: np.shape(value)})}"
                )
            bundle = self._bundles.get(name)
            parts = {name: value} if bundle is None else bundle.flatten(name, value)
            for part, array in parts.items():
                executor.set_input(part, array)
        executor.run()
        index = {name: i for i, name in enumerate(self._tensors)}
        own = (self._bundles.get(name, Bundle((name,), False)) for name in self._outputs)
        return self._result(*(bundle.gather(lambda n: self._read(index[n])) for bundle in own))

    def _read(self, index: int) -> np.ndarray:
        """Return an output of the library with the strings of the model."""
        assert self._executor is not None
        array = self._executor.get_output(index).numpy()
        labels = self._labels.get(self._tensors[index])
        return array if labels is None else labels[array]

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        """Return the inputs by name, without those that equal the model's defaults."""
        if isinstance(inputs, Mapping):
            given = dict(inputs)
        else:
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            whole = len(values) == len(self._declared)
            names = self._declared if whole else self._inputs
            if len(values) != len(names):
                known = ", ".join(self._inputs) or "none"
                raise ValueError(f"{len(values)} inputs are given; the model has {known}")
            given = dict(zip(names, values))
        for name in given.keys() & self._defaults.keys():
            if np.array_equal(given[name], self._defaults[name]):
                del given[name]
        return given


class DynamicNetwork(CompiledModel):
    """A model with dynamic input shapes or sequence lengths; it is compiled when it is run, once
    for each combination. One thread at a time may run it. A sequence output that a loop builds
    from tensors of different shapes has up to 16 elements. For more, declare the maximum with the
    option ``sequences={"y": 32}`` of ``prepare``, together with the inputs' shapes and lengths.

    Parameters
    ----------
    model
        The model.
    load
        A function that compiles and loads the model for given input shapes and sequence lengths.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        load: Callable[[dict[str, Any], dict[str, Any]], CompiledModel],
    ) -> None:
        super().__init__(model, None)
        self._load = load
        self._lists = [
            info.name for info in model.graph.output if info.type.HasField("sequence_type")
        ]
        self._loaded: dict[tuple[Any, ...], CompiledModel] = {}

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run once, as :meth:`CompiledModel.run`; also raises the errors of compilation."""
        values = self._by_name(inputs)
        shapes: dict[str, Any] = {}
        sequences: dict[str, Any] = {}
        for name, value in values.items():
            if value is None or isinstance(value, (list, tuple)):
                sequences[name] = None if value is None else len(value)
                parts = {part_name(name, i): each for i, each in enumerate(value or ())}
            else:
                parts = {name: value}
            shapes.update((part, np.shape(array)) for part, array in parts.items())
        for name in self._lists:
            sequences.setdefault(name, MAX_ELEMENTS)
        form = (tuple(shapes.items()), tuple(sequences.items()))
        if form not in self._loaded:
            self._loaded[form] = self._load(shapes, sequences)
        return self._loaded[form].run(values, **kwargs)


class Backend(BaseBackend):
    """The interface of ``onnx.backend.base``; all methods are class methods."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> CompiledModel:
        """Compile and load a model.

        Parameters
        ----------
        model
            The model. With dynamic input shapes or sequence lengths that no option declares, it is
            compiled when it is run.
        device
            ``"CPU"``; select other devices with the option of ``tvmrt.compile``.
        options
            Options of ``tvmrt.compile``.

        Raises
        ------
        ValueError
            If the device is not supported.
        tvmrt.error.UnsupportedError, tvmrt.error.CompileError
            If ``tvmrt.compile`` or ``export_library`` raise them.
        """
        if not cls.supports_device(device):
            raise ValueError(f"device {device} is not supported; the backend's device is CPU")
        declared = any(options.get(name) for name in ("shapes", "dims", "sequences"))
        if not is_dynamic(model) or declared:
            return cls._load(model, options)
        return DynamicNetwork(
            model,
            lambda shapes, sequences: cls._load(
                model, {**options, "shapes": shapes, "sequences": sequences}
            ),
        )

    @classmethod
    def _load(cls, model: onnx.ModelProto, options: Mapping[str, Any]) -> CompiledModel:
        """Compile and load a model; the library file is deleted after loading."""
        model = make_given_inputs(model, options.get("shapes") or ())
        library = tvmrt.compile(model, make({**options, "executor": "graph"}).for_here())
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            path = os.path.join(folder, "network.so")
            library.export_library(path)
            module = tvmrt.runtime.load_module(path)
        executor = GraphModule(module[library.module_name](tvmrt.cpu(0)))
        return CompiledModel(model, executor, library)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, ...]:
        """Run one operator.

        Parameters
        ----------
        node
            The node.
        inputs
            Arrays for its inputs, in order, or by name; omitted inputs (``""``) have no array.
        device
            See :meth:`prepare`.
        outputs_info
            Element type and shape of each output, for nodes with dynamic output shapes. If None,
            ONNX's inference provides the types.
        options
            ``opset_version``, the version of the standard operators (default: the newest of the
            installed onnx), and options of ``tvmrt.compile``.
        """
        version = options.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(name for name in node.input if name))
        values = inputs if isinstance(inputs, Mapping) else dict(zip(names, _listed(inputs)))
        arrays = {name: np.asarray(value) for name, value in values.items()}
        model = _model_of(node, arrays, outputs_info, version)
        return cls.prepare(model, device, **options).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether the device is the CPU: ``"CPU"`` or ``"CPU:0"``."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False


def is_dynamic(model: onnx.ModelProto) -> bool:
    """Return whether a model has inputs with dynamic shapes or sequence lengths."""
    given = default_inputs(model)
    return any(_has_dynamic_type(info.type) for info in model.graph.input if info.name not in given)


def _default_values(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    """Return the default values of inputs by name."""
    names = default_inputs(model)
    weights = (*model.graph.initializer, *map(dense, model.graph.sparse_initializer))
    return {each.name: array_of(each) for each in weights if each.name in names}


def _has_dynamic_type(type: onnx.TypeProto) -> bool:
    tensor = type.tensor_type
    return type.WhichOneof("value") in ("sequence_type", "optional_type") or (
        type.HasField("tensor_type")
        and not all(
            [tensor.HasField("shape"), *(d.HasField("dim_value") for d in tensor.shape.dim)]
        )
    )


def _listed(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _model_of(
    node: onnx.NodeProto,
    values: Mapping[str, np.ndarray],
    outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None,
    version: int,
) -> onnx.ModelProto:
    """Return a model of one node."""

    def declared(name: str, dtype: Any, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)

    given = [declared(name, value.dtype, value.shape) for name, value in values.items()]
    names = [name for name in node.output if name]
    if outputs_info is None:
        made = [helper.make_empty_tensor_value_info(name) for name in names]
    else:
        made = [declared(name, *info) for name, info in zip(names, outputs_info)]
    domains = [helper.make_opsetid("", version)]
    if node.domain not in ("", "ai.onnx"):
        domains.append(helper.make_opsetid(node.domain, _newest(node)))
    graph = helper.make_graph([node], node.name or node.op_type, given, made)
    model = helper.make_model(graph, opset_imports=domains)
    if outputs_info is None:
        found = onnx.shape_inference.infer_shapes(model).graph.output
        for info, inferred in zip(model.graph.output, found):
            info.CopyFrom(inferred)
    return model


def _newest(node: onnx.NodeProto) -> int:
    """Return the latest version of a node's operator in the installed onnx; 1 if unknown."""
    try:
        return onnx.defs.get_schema(node.op_type, domain=node.domain).since_version
    except onnx.defs.SchemaError:
        return 1


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
