"""onnxruntime's quantiser: ranges of tensors by its calibrators, networks with nodes in int8.

Activations have one zero point each, weights are symmetric with a scale for each channel. Linear
quantisation is written as QuantizeLinear and DequantizeLinear, which tvmrt turns into integer
layers.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import version_converter

from tvmrt.compiler.sdk.frontend import unused_name
from tvmrt.plugins.quantize.samples import Feed

CALIBRATIONS = ("MinMax", "Entropy", "Percentile")  # names of onnxruntime's methods
_COLLECTED = 8  # runs whose tensors the calibrators keep in memory at once


class Quantizer:
    """A network that is prepared for quantisation: batch normalisation is folded, nodes are named.

    Raises ValueError if onnxruntime cannot read the network or finds nothing to quantise.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        if any("QuantizeLinear" in n.op_type or "QLinear" in n.op_type for n in model.graph.node):
            raise ValueError("the network is quantised already; give the float32 network")
        self.prepared = _prepare(model)
        kinds = _quantizable()
        self.nodes = {n.name: n.op_type for n in self.prepared.graph.node if n.op_type in kinds}
        if not self.nodes:
            raise ValueError("the network has no float32 operator that can be quantised")

    def ranges(self, calibration: str, feeds: Sequence[Feed]) -> Any:
        """Return the range of each tensor over the runs."""
        from onnxruntime.quantization import CalibrationMethod, create_calibrator

        with _silent(), tempfile.TemporaryDirectory(prefix="tvmrt-quantize-") as folder:
            path = Path(folder) / "prepared.onnx"
            onnx.save(self.prepared, path)
            calibrator = create_calibrator(
                path,
                sorted(_quantizable()),
                augmented_model_path=str(Path(folder) / "augmented.onnx"),
                calibrate_method=CalibrationMethod[calibration],
            )
            for start in range(0, len(feeds), _COLLECTED):
                calibrator.collect_data(_Reader(feeds[start : start + _COLLECTED]))
            return calibrator.compute_data()

    def model(self, ranges: Any, nodes: Sequence[str]) -> onnx.ModelProto:
        """Return the network with these nodes in int8. ValueError if onnxruntime cannot quantise
        one of them."""
        from onnxruntime.quantization import QuantType
        from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

        copy = onnx.ModelProto()
        copy.CopyFrom(self.prepared)
        if not nodes:
            return copy
        with _silent():
            quantizer = QDQQuantizer(
                copy, True, False, QuantType.QInt8, QuantType.QInt8, ranges, list(nodes), [],
                sorted(_quantizable()), {},
            )  # fmt: skip
            try:
                quantizer.quantize_model()
            except Exception as problem:  # its errors share no base class
                raise ValueError(f"onnxruntime cannot quantise the network: {problem}") from problem
        return quantizer.model.model


_MIN_OPSET = 13  # the first whose DequantizeLinear has a scale for each channel


def _prepare(model: onnx.ModelProto) -> onnx.ModelProto:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    with _silent(), tempfile.TemporaryDirectory(prefix="tvmrt-quantize-") as folder:
        source, target = Path(folder) / "source.onnx", Path(folder) / "prepared.onnx"
        try:
            given, model = model, onnx.ModelProto()
            model.CopyFrom(given)
            # before version 4 weights are inputs, too, which may be replaced in a run
            _drop(model.graph.input, {tensor.name for tensor in model.graph.initializer})
            model.ir_version = max(model.ir_version, 4)
            if _opset(model) < _MIN_OPSET:
                model = version_converter.convert_version(model, _MIN_OPSET)
            onnx.save(model, source)
            # symbolic shape inference needs a further package; onnx infers what calibration needs
            quant_pre_process(str(source), str(target), skip_symbolic_shape=True)
            prepared = onnx.load(target)
        except Exception as problem:  # onnxruntime's errors share no specific base class
            reason = " ".join(str(problem).split())
            raise ValueError(f"onnxruntime cannot prepare the network: {reason}") from problem
    _flatten_biases(prepared.graph)
    _name_nodes(prepared.graph)
    return prepared


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a name of its own; the quantiser selects nodes by name."""
    names: set[str] = set()
    for number, node in enumerate(graph.node):
        node.name = unused_name(node.name or f"{node.op_type}_{number}", names.__contains__)
        names.add(node.name)


def _flatten_biases(graph: onnx.GraphProto) -> None:
    """Give biases of Gemm of shape 1 x N the shape N; the quantiser takes no others."""
    weights = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        bias = weights.get(node.input[2]) if node.op_type == "Gemm" and node.input[2:] else None
        users = [each for each in graph.node if bias is not None and bias.name in each.input]
        if bias is not None and users == [node] and len(bias.dims) == 2 and bias.dims[0] == 1:
            del bias.dims[0]
            _drop(graph.value_info, {bias.name})


def _drop(infos: Any, names: set[str]) -> None:
    """Drop declarations of tensors from a list of the graph."""
    kept = [each for each in infos if each.name not in names]
    del infos[:]
    infos.extend(kept)


def _opset(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operators."""
    return max(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))


def _quantizable() -> set[str]:
    """Return the ONNX operators that onnxruntime quantises."""
    from onnxruntime.quantization.registry import QDQRegistry, QLinearOpsRegistry

    return {*QDQRegistry, *QLinearOpsRegistry}


class _Reader:
    """Feeds in the form that calibrators take."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self._feeds: Iterator[Feed] = iter(feeds)

    def get_next(self) -> Feed | None:
        return next(self._feeds, None)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Drop what the quantiser prints and logs: advice for its own users."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
