"""The graph executor: it calls the generated operators in the order of a graph."""

from __future__ import annotations

import json
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

    # ---- schedulers ----

    def set_scheduler(self, name: str) -> None:
        """Choose how runs go through the network's steps.

        Parameters
        ----------
        name
            "sync": in their order, on the caller's thread; "async": one thread per device, so that
            devices work at the same time, within a run and over the runs of several executors; or a
            scheduler that a program registered by ``tvmrt_scheduler_register``. Networks that are
            compiled with ``schedule="async"`` start with "async".

        Raises
        ------
        ValueError
            If there is no such scheduler.
        """
        self.module["set_scheduler"](name)

    def run_async(self) -> None:
        """Start a run and return; "async" becomes the scheduler if none was chosen.

        Until :meth:`wait` has said that the run is over, only :meth:`wait` and :meth:`cancel` may
        be called, and tensors that were set without a copy must stay as they are.
        """
        self.module["run_async"]()

    def wait(self, timeout_ms: int = -1) -> bool:
        """Wait for the run that :meth:`run_async` started.

        Parameters
        ----------
        timeout_ms
            Milliseconds to wait at most; negative: without limit.

        Returns
        -------
        bool
            Whether the run is over; also True if none is under way.

        Raises
        ------
        TVMError
            If a step failed, with its reason, or the run was cancelled.
        """
        return bool(self.module["wait"](timeout_ms))

    def cancel(self) -> None:
        """Let no further step of the run begin; :meth:`wait` then raises. From any thread."""
        self.module["cancel"]()

    def get_trace(self, times: bool = False) -> dict[str, Any]:
        """Return what ran where in the last run.

        Parameters
        ----------
        times
            Add ``begin_us`` and ``end_us`` to each step, in microseconds since the run began.
            Without them the same network gives the same trace every time.

        Returns
        -------
        dict
            ``scheduler``, and ``steps``: ``name``, ``device``, ``position`` among the steps of that
            device (-1: it did not run) and ``after``, the steps that had to end before; where the
            CPU took the device's place, ``fallback`` says why.
        """
        return json.loads(str(self.module["get_trace"](int(times))))
