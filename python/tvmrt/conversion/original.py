"""The model that a network was converted from, as a function of arrays. Imports nothing slow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class Input(NamedTuple):
    """One input of the original; an extent is a number or the name of a dynamic dimension."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    example: Any = None  # an array that the model accepts


class Draws(NamedTuple):
    """Sets of inputs of the same sizes, and the number of them to compare.

    The original may refuse some: values outside of its domain, or sizes that do not fit.
    """

    wanted: int
    feeds: Iterator[Mapping[str, np.ndarray]]


class QuantizedNodes(NamedTuple):
    """Integer tensors of a quantised original, each of which is compared.

    ``network``: the network with these tensors as further outputs. ``names``: their names, in
    order. ``run``: return the outputs and these tensors for inputs by name and the results of the
    network; each is computed from the tensors that the network has before it.
    """

    network: Any
    names: Sequence[str]
    run: Callable[[Mapping[str, np.ndarray], Sequence[np.ndarray]], Sequence[np.ndarray]]


@dataclass(frozen=True)
class Original:
    """A model of another framework.

    Parameters
    ----------
    what
        The model, for error texts: ``a Classifier``.
    exporter
        The library that converted it.
    run
        Return the outputs for inputs by name: by name, or in the order of the network's outputs. A
        list stands for several possible results of one output.
    inputs
        Inputs to draw; the network may lack some. Default: the inputs of the network.
    examples
        For inputs of the network: arrays that the model accepts, by name or in order.
    advice
        What to do if the results differ, for the error text.
    draw
        Replacement for random values of ``inputs``: return the draws for the network's dynamic
        dimensions, (minimum, maximum) by name.
    min_same_labels
        Minimum part of the rows of integers that must agree. Below 1 for labels of equal scores.
    nodes
        Quantised tensors to compare; their network is the one to run.
    """

    what: str
    exporter: str
    run: Callable[[Mapping[str, np.ndarray]], Sequence[Any] | Mapping[str, Any]]
    inputs: Sequence[Input] = ()
    examples: Mapping[str, Any] | Sequence[Any] = ()
    advice: str = ""
    draw: Callable[[Mapping[str, Sequence[int]]], Iterator[Draws]] | None = None
    min_same_labels: float = 1.0
    nodes: QuantizedNodes | None = None

    def network_to_compare(self, network: Any) -> Any:
        """Return the network to compare with the original: ``network`` or that of ``nodes``."""
        return network if self.nodes is None else self.nodes.network
