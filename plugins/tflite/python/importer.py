"""Interface of the compiler and the commands to ``.tflite`` files; imports are deferred."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.plugin import Importer

if TYPE_CHECKING:
    import numpy as np

    from tvmrt.cli.describe import Description
    from tvmrt.cli.tolerance import TensorComparison
    from tvmrt.compiler.sdk.graph import Graph
    from tvmrt.compiler.sdk.pipeline import Request


class TfliteImporter(Importer):
    """Importer of ``.tflite`` files, given as paths (with any file name) or as bytes."""

    rival = "litert"

    def accepts(self, model: Any) -> bool:
        from tvmrt.plugins.tflite.frontend import AllTensorsModel, is_tflite

        return isinstance(model, AllTensorsModel) or is_tflite(model)

    def import_model(self, path: Any, request: Request) -> Graph:
        from tvmrt.compiler.sdk.pipeline import gather
        from tvmrt.plugins.tflite.frontend import import_model

        if request.sequences:
            raise KeyError("inputs of a .tflite network are tensors; give no sequences")
        if request.values:
            raise KeyError("a .tflite network has no inputs of fixed values; give no values")
        return import_model(
            path, request.shapes, request.value_of("tflite_rounding") or "reference",
            request.value_of("signature"), gather(request.operators), request.dims,
        )  # fmt: skip

    def describe(self, path: Path) -> Description:
        from tvmrt.plugins.tflite import description

        return description.describe(path)

    def verify(
        self,
        path: Path,
        inputs_file: Path | None,
        threads: int,
        outputs_only: bool,
        options: Mapping[str, Any],
    ) -> tuple[list[TensorComparison], str]:
        from tvmrt.plugins.tflite import verify

        return verify.rows_of(path, inputs_file, threads, outputs_only, options)

    def inputs(
        self, path: Path, inputs_file: Path | None, options: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        from tvmrt.plugins.tflite import litert

        return litert.inputs_of(path, options, inputs_file)

    def rival_call(
        self,
        path: Path,
        inputs: Mapping[str, np.ndarray],
        threads: int,
        options: Mapping[str, Any],
    ) -> Callable[[], Any]:
        from tvmrt.plugins.tflite import litert

        return litert.call_of(path, inputs, options["signature"], threads)
