"""String tables: strings that a network only selects, as indices into a compile-time list.

Class labels are an example. The network computes and returns the index; the caller has the list.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from tvmrt.compiler.ir import Value, constant

# Operators that pass string indices from their first input to their result.
_PASS_THROUGH = frozenset(
    "Cast Expand Flatten Gather Identity Reshape Slice Squeeze Unsqueeze".split()
)

LOOKUP_OPERATORS = frozenset(
    "ArrayFeatureExtractor CategoryMapper LabelEncoder OneHotEncoder".split()
)


class StringTables(dict):
    """The string table of each value whose elements are indices into one."""

    def constant(self, array: np.ndarray, key: str) -> Value:
        """Return a constant of strings as indices into the table of its distinct strings."""
        texts = [decode_string(element) for element in array.reshape(-1).tolist()]
        names = list(dict.fromkeys(texts))
        index_of = {name: i for i, name in enumerate(names)}
        indices = np.array([index_of[text] for text in texts], np.int64)
        value = constant(indices.reshape(array.shape), key)
        self[value] = names
        return value

    def indices_of(self, values: Sequence[Value | None]) -> list[int]:
        """Return the indices of those values that have a string table."""
        return [i for i, value in enumerate(values) if value is not None and value in self]

    def passes_through(self, node: onnx.NodeProto, inputs: Sequence[Value | None]) -> bool:
        """Return whether an operator passes the string indices of its first input to its result
        unchanged."""
        ours = node.domain in ("", "ai.onnx") and node.op_type in _PASS_THROUGH
        return ours and self.indices_of(inputs) == [0]

    def propagate_strings(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], outputs: Sequence[Value | None]
    ) -> None:
        """Copy the string table of the first input to the result of such an operator."""
        if self.passes_through(node, inputs) and outputs and outputs[0] is not None:
            self.setdefault(outputs[0], self[inputs[0]])


def decode_string(element: object) -> str:
    """Decode a string of an attribute or a constant, which may be bytes."""
    return element.decode("utf-8", "replace") if isinstance(element, bytes) else str(element)
