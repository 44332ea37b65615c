"""The graph executor: it calls the generated operators in the order of a graph."""

from __future__ import annotations

from typing import Any

from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.ndarray import NDArray

__all__ = ["GraphModule"]


class GraphModule(Executor):
    """A network as a graph of operators.

    Parameters
    ----------
    module
        ``library["default"](tvmrt.cpu(0))``, or what create() makes.
    """

    def debug_get_output(self, node: str | int, out: NDArray) -> NDArray:
        """Run up to a node and copy its output; only debug executors can.

        Parameters
        ----------
        node
            Name or index of the node.
        out
            Where to copy to.
        """
        self.module["debug_get_output"](node, out)
        return out

    def share_params(self, other: GraphModule, params_bytes: Any) -> None:
        """Use the parameters that another executor of the same network holds.

        Parameters
        ----------
        other
            The other executor; it must live as long as this one.
        params_bytes
            Bytes of save_param_dict() that name the parameters.
        """
        self.module["share_params"](other.module, params_bytes)
        self._kept["shared"] = other
