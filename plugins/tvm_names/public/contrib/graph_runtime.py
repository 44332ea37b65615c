"""The graph executor under its name before TVM 0.8."""

from tvmrt.contrib.graph_executor import GraphModule, create, get_device

__all__ = ["GraphModule", "create", "get_device"]
