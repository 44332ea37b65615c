"""The graph executor, which calls the generated operators in the order of a graph."""

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
        ``library["default"](tvmrt.cpu(0))``, or the result of create().
    """

    def debug_get_output(self, node: str | int, out: NDArray) -> NDArray:
        """Run up to a node and copy its output; only debug executors support this.

        Parameters
        ----------
        node
            Name or index of the node.
        out
            Destination tensor.
        """
        self.module["debug_get_output"](node, out)
        return out

    def share_params(self, other: GraphModule, params_bytes: Any) -> None:
        """Use the parameters of another executor of the same network.

        Parameters
        ----------
        other
            The other executor; it must live as long as this one.
        params_bytes
            Bytes created by save_param_dict() that name the parameters.
        """
        self.module["share_params"](other.module, params_bytes)
        self._alive["shared"] = other

    # ---- schedulers ----

    def set_scheduler(self, name: str) -> None:
        """Choose a scheduler for the steps of a run.

        Parameters
        ----------
        name
            "sync" runs the steps in order, on the caller's thread. "async" uses one thread per
            device, so devices work in parallel, within a run and across executors. Any scheduler
            that was registered with ``tvmrt_scheduler_register`` may be named. Networks compiled
            with ``schedule="async"`` start with "async".

        Raises
        ------
        ValueError
            If there is no such scheduler.
        """
        self.module["set_scheduler"](name)

    def run_async(self) -> None:
        """Start a run and return; the default scheduler is "async".

        Until :meth:`wait` has returned True or raised, no other method may be called, and tensors
        set without a copy must not change.
        """
        self.module["run_async"]()

    def wait(self, timeout_ms: int = -1) -> bool:
        """Wait for the run that :meth:`run_async` started.

        Parameters
        ----------
        timeout_ms
            Maximum time to wait in milliseconds; negative for no limit.

        Returns
        -------
        bool
            Whether the run has finished; also True if none is in progress.

        Raises
        ------
        TVMError
            If a step failed, with the reason.
        """
        return bool(self.module["wait"](timeout_ms))
