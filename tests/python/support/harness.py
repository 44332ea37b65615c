"""Batches of single-node networks: compiled together on first use, reported case by case."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from nn_case import Case, build_model, case, reference_outputs, run_compiled

__all__ = ["Batch", "Part", "case"]


class Part:
    """A case of a batch, the argument of a parametrised test."""

    def __init__(self, batch: Batch, number: int) -> None:
        self.batch = batch
        self.number = number
        self.case = batch.cases[number]

    def check(self) -> None:
        """Compare every output with the reference, in type, shape and value."""
        wanted = reference_outputs(self.case, self.batch.opset, self.batch.evaluator)
        found = self.batch.found(self.number)
        for i, array in enumerate(wanted[: self.case.outputs]):
            got, golden = found[i], np.asarray(array)
            assert (got.dtype, got.shape) == (golden.dtype, golden.shape)
            np.testing.assert_allclose(
                got, golden, self.case.rtol, self.case.atol, equal_nan=True, err_msg=f"output {i}"
            )


class Batch:
    """Cases in one opset. Iterating gives one pytest parameter a case.

    ``evaluator`` computes the expected outputs; the ONNX reference evaluator is used for operators
    or types that it does not support.
    """

    def __init__(self, opset: int, cases: Iterable[Case], evaluator: str = "onnxruntime") -> None:
        self.opset = opset
        self.cases = list(cases)
        self.evaluator = evaluator
        self._found: list[list[np.ndarray] | None] | None = None

    def __iter__(self) -> Iterator:
        for number, each in enumerate(self.cases):
            yield pytest.param(Part(self, number), id=f"{each.op}-{each.id}-opset{self.opset}")

    def found(self, number: int) -> list[np.ndarray]:
        """Return the compiled network's results. A case that breaks the batch is compiled alone."""
        if self._found is None:
            try:
                self._found = self._run(self.cases)
            except Exception:  # only the faulty case raises it again
                self._found = [None] * len(self.cases)
        result = self._found[number]
        return self._run([self.cases[number]])[0] if result is None else result

    def _run(self, cases: list[Case]) -> list[list[np.ndarray]]:
        model, feeds = build_model(cases, self.opset)
        with tempfile.TemporaryDirectory() as folder:
            found = run_compiled(model, feeds, folder)
        return [
            [found[f"c{number}_o{i}"] for i in range(each.outputs)]
            for number, each in enumerate(cases)
        ]
