"""Quantised programs of PyTorch: their integer tensors are compared, node by node.

The float arithmetic of the original and the integers of the network may round a value to
neighbouring steps, and later layers amplify a step. So each tensor of the original is computed from
those that the network has before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.conversion import torch_inputs
from tvmrt.conversion.arrays import leaves, to_array
from tvmrt.conversion.original import QuantizedNodes

_OPERATORS = "quantized_decomposed."  # of torch, in the programs of convert_pt2e()
_QUANTIZE = f"{_OPERATORS}quantize_per_"


def register_operators() -> None:
    """Register the operators of quantised programs, which no file contains."""
    import torch.ao.quantization.fx._decomposed  # noqa: F401


def is_quantized(module: Any) -> bool:
    """Return whether a module is a program that ``convert_pt2e`` made."""
    nodes = getattr(getattr(module, "graph", None), "nodes", ())
    if callable(nodes):  # of TorchScript
        return False
    return any(str(each.target).startswith(_OPERATORS) for each in nodes)


def quantized_nodes(torch: Any, module: Any, network: Any) -> QuantizedNodes | None:
    """Return the quantised tensors of a program that its network computes, too; None without any.

    Parameters
    ----------
    module
        The program as an ``fx.GraphModule``.
    network
        The ONNX network of the program, whose tensors have the names of the nodes.
    """
    made = [each.name for each in module.graph.nodes if str(each.target).startswith(_QUANTIZE)]
    types = {each.name: each for each in network.graph.value_info}
    names = [name for name in made if name in types]
    if not names:
        return None
    observed = type(network)()
    observed.CopyFrom(network)
    observed.graph.output.extend(types[name] for name in names)

    def run(feeds: Mapping[str, Any], results: Sequence[np.ndarray]) -> list[np.ndarray]:
        actual = dict(zip(names, results[len(results) - len(names) :]))
        expected = {}

        class Replay(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                value = super().run_node(node)
                if node.name not in actual:
                    return value
                expected[node.name] = to_array(value)
                return torch_inputs.tensor(torch, actual[node.name])

        tensors = [torch_inputs.tensor(torch, each) for each in feeds.values()]
        with torch.no_grad():
            outputs = Replay(module).run(*tensors, enable_io_processing=False)
        return [to_array(each) for each in leaves(outputs)] + [expected[name] for name in names]

    return QuantizedNodes(observed, names, run)
