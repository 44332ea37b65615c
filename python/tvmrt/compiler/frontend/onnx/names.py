"""Strings that a network only chooses among: places in a list that is known when compiling.

Labels of classes are such. The place is what the network computes with and gives; whoever runs it
has the list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvmrt.compiler.ir import Value, constant

# Operators that take names from their first input to their result.
_CARRIERS = frozenset("Cast Expand Flatten Gather Identity Reshape Slice Squeeze Unsqueeze".split())

LOOKS_UP = frozenset("ArrayFeatureExtractor CategoryMapper LabelEncoder OneHotEncoder".split())


class Names(dict):
    """The names that the elements of a value are places of, by value."""

    def constant(self, array: np.ndarray, key: str) -> Value:
        """A constant of strings as the places of its elements among those that it has."""
        texts = [text_of(element) for element in array.reshape(-1).tolist()]
        names = list(dict.fromkeys(texts))
        places = {name: i for i, name in enumerate(names)}
        numbers = np.array([places[text] for text in texts], np.int64)
        value = constant(numbers.reshape(array.shape), key)
        self[value] = names
        return value

    def among(self, values: Sequence[Value | None]) -> list[int]:
        """Which of the values are places of names."""
        return [i for i, value in enumerate(values) if value is not None and value in self]

    def carries(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> bool:
        """Whether an operator needs no strings, but takes the places of those of its first input
        to its result."""
        ours = node.domain in ("", "ai.onnx") and node.op_type in _CARRIERS
        return ours and self.among(inputs) == [0]

    def carry(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], outputs: Sequence[Value | None]
    ) -> None:
        """Name what an operator took from its first input."""
        if self.carries(node, inputs) and outputs and outputs[0] is not None:
            self.setdefault(outputs[0], self[inputs[0]])


def text_of(element: object) -> str:
    """A string of an attribute or a constant, which may be bytes."""
    return element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)
