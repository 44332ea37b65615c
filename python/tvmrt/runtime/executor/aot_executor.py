"""The ahead-of-time executor: the whole network is one generated function."""

from __future__ import annotations

from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.module import Module

__all__ = ["AotModule"]


class AotModule(Executor):
    """A network whose main function is generated code.

    Parameters
    ----------
    module
        ``library["default"](tvmrt.cpu(0))``.
    """

    def __init__(self, module: Module) -> None:
        super().__init__(module)

    def get_input_name(self, index: int) -> str:
        """Return the name of an input."""
        return str(self.module["get_input_name"](index))
