"""Tensors of other frameworks as NumPy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tvmrt.option_syntax import choose, option


def to_array(value: Any) -> np.ndarray:
    """Return a tensor as an array; NumPy has no bfloat16, which becomes float32."""
    if hasattr(value, "detach"):  # torch
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    return np.asarray(value)


def leaves(result: Any) -> Iterator[Any]:
    """Yield the tensors in nested lists, tuples and dictionaries, in their order."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        for each in result:
            yield from leaves(each)
    elif result is not None and hasattr(result, "dtype"):
        yield result


def example_array(name: str, value: Any) -> np.ndarray:
    """Return an input of an example. Raise TypeError if it is neither a tensor nor an array."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise TypeError(
            f"{option('example')}: {name} is a {type(value).__name__}, not a tensor or an array"
        )
    return to_array(value)


def example_advice() -> str:
    """Return the sentence on the option that gives an example."""
    return choose(
        "give inputs that it takes, such as example=(ids, mask) or example={'ids': ids}",
        "give an .npz file of inputs that it takes with --example",
    )
