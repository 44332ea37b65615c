"""tvmrt as a backend of ``onnx.backend``: models and single nodes in, arrays out.

``onnx.backend.test.BackendTest(tvmrt.onnx_backend.Backend)`` runs ONNX's own tests through it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend as BaseBackend
from onnx.backend.base import BackendRep, Device, DeviceType, namedtupledict

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule

__all__ = ["Backend", "Network", "prepare", "run_model", "run_node", "supports_device"]


class Network(BackendRep):
    """A model that is compiled and loaded; one thread at a time may run it.

    Parameters
    ----------
    model
        The model: names and order of inputs and outputs are its own.
    executor
        The executor of its library.
    """

    def __init__(self, model: onnx.ModelProto, executor: GraphModule) -> None:
        given = {tensor.name for tensor in model.graph.initializer}
        given |= {tensor.values.name for tensor in model.graph.sparse_initializer}
        self._declared = [info.name for info in model.graph.input]
        self._inputs = [name for name in self._declared if name not in given]
        self._result = namedtupledict("Outputs", [info.name for info in model.graph.output])
        self._executor = executor

    def run(self, inputs: Any, **kwargs: Any) -> tuple[np.ndarray, ...]:
        """Run once.

        Parameters
        ----------
        inputs
            Values in the order of the model's inputs, or by name. What has weights in the model
            as its default may be left out, and if it is there it is passed over: the library has it
            as a constant.
        kwargs
            Nothing; onnx's interface has them.

        Returns
        -------
        The outputs, arrays of one's own, in a tuple that knows their names, too.

        Raises
        ------
        ValueError
            If there are too few or too many, or one does not fit.
        KeyError
            If there is no input of a name.
        """
        if kwargs:
            raise TypeError(f"run() knows no option {next(iter(kwargs))}; options go to prepare()")
        for name, value in self._by_name(inputs).items():
            self._executor.set_input(name, value)
        self._executor.run()
        count = self._executor.get_num_outputs()
        return self._result(*(self._executor.get_output(i).numpy() for i in range(count)))

    def _by_name(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, Mapping):
            return {k: v for k, v in inputs.items() if k in self._inputs or k not in self._declared}
        values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        whole = len(values) == len(self._declared)
        names = self._declared if whole else self._inputs
        if len(values) != len(names):
            raise ValueError(
                f"{len(values)} inputs are given; the model has {', '.join(self._inputs) or 'none'}"
            )
        return {k: v for k, v in zip(names, values) if k in self._inputs}


class Backend(BaseBackend):
    """The interface of ``onnx.backend.base``, all of it class methods."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **options: Any) -> Network:
        """Compile and load a model.

        Parameters
        ----------
        model
            The model.
        device
            ``"CPU"``; other devices are an option of ``tvmrt.compile``.
        options
            As ``tvmrt.compile`` takes them.

        Raises
        ------
        ValueError
            For a device that is none.
        tvmrt.error.UnsupportedError, tvmrt.error.CompileError
            As ``tvmrt.compile`` and ``export_library`` raise them.
        """
        if not cls.supports_device(device):
            raise ValueError(f"device {device} is not supported; the backend's device is CPU")
        return Network(model, cls._load(model, options))

    @classmethod
    def _load(cls, model: onnx.ModelProto, options: Mapping[str, Any]) -> GraphModule:
        """An executor of the model's library, whose file is gone as soon as it is loaded."""
        library = tvmrt.compile(model, executor="graph", **options)
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            path = os.path.join(folder, "network.so")
            library.export_library(path)
            module = tvmrt.runtime.load_module(path)
        return GraphModule(module[library.module_name](tvmrt.cpu(0)))

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
            Arrays for its inputs, in order, or by name; those left out (``""``) have none.
        device
            As in :meth:`prepare`.
        outputs_info
            Element type and shape of each output, for nodes whose outputs' shape is not known
            before they run. Left out, ONNX's inference tells the types.
        options
            ``opset_version``, the version of ONNX's own operators (the newest that the installed
            onnx has), and options as ``tvmrt.compile`` takes them.
        """
        version = options.pop("opset_version", onnx.defs.onnx_opset_version())
        names = list(dict.fromkeys(name for name in node.input if name))
        values = inputs if isinstance(inputs, Mapping) else dict(zip(names, _listed(inputs)))
        arrays = {name: np.asarray(value) for name, value in values.items()}
        model = _model_of(node, arrays, outputs_info, version)
        return cls.prepare(model, device, **options).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether it is the CPU: ``"CPU"`` or ``"CPU:0"``."""
        try:
            return Device(device).type == DeviceType.CPU
        except (AttributeError, ValueError):
            return False


def _listed(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _model_of(
    node: onnx.NodeProto,
    values: Mapping[str, np.ndarray],
    outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None,
    version: int,
) -> onnx.ModelProto:
    """A model of one node."""

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
    """The version of a node's domain in which the installed onnx has it last; 1 for others'."""
    try:
        return onnx.defs.get_schema(node.op_type, domain=node.domain).since_version
    except onnx.defs.SchemaError:
        return 1


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device
