"""Executors: networks that are ready to run."""

from __future__ import annotations

from tvmrt.runtime.executor.aot_executor import AotModule
from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.executor.graph_executor import GraphModule

__all__ = ["AotModule", "Executor", "GraphModule"]
