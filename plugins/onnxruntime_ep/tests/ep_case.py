"""Networks and sessions for tests of the execution provider."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper, parser

from tvmrt.plugins import onnxruntime_ep

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'


def network(text: str, **weights: np.ndarray) -> onnx.ModelProto:
    """Return a model from the text of its graph, and its constants."""
    model = parser.parse_model(HEAD + text)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    model.graph.initializer.extend(constants)
    return model


def session(
    model: onnx.ModelProto | bytes | str | Path,
    values: Mapping[str, str] | None = None,
    entries: Mapping[str, str] | None = None,
    ours: bool = True,
    level: int = 4,
) -> onnxruntime.InferenceSession:
    """Return a session, with the execution provider if ``ours``, which records its nodes and logs
    messages of a ``level`` or above: 2 are warnings, 4 fatal errors."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = level
    if ours:
        onnxruntime_ep.add_to(options, values)
        options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    if isinstance(model, onnx.ModelProto):
        model = model.SerializeToString()
    return onnxruntime.InferenceSession(
        model if isinstance(model, bytes) else str(model),
        options,
        **({} if ours else {"providers": ["CPUExecutionProvider"]}),
    )


def taken(session: onnxruntime.InferenceSession) -> list[list[str]]:
    """Return the operators of each part that tvmrt computes."""
    return [
        [node.op_type for node in part.get_nodes()]
        for part in session.get_provider_graph_assignment_info()
        if part.ep_name == onnxruntime_ep.NAME
    ]


def assert_same(model: onnx.ModelProto, ours: Any, **feeds: np.ndarray) -> None:
    """Compare a session with onnxruntime's own computation."""
    wanted = session(model, ours=False).run(None, feeds)
    for got, want in zip(ours.run(None, feeds), wanted, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if want.dtype == object:
            assert list(got) == list(want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
