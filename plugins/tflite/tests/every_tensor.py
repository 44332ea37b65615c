"""Compare every tensor of a network with LiteRT's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tflite_case import feeds_for, ours

from tvmrt.plugins.tflite import verify
from tvmrt.plugins.tflite.frontend import AllTensorsModel, load_model, made_by_operators


def check_every_tensor(source: Path | bytes, folder: Path, tolerance: float = 1e-5) -> list[str]:
    """Compare every tensor between operators with LiteRT's: integers bit by bit, floats within the
    tolerance relative to the largest value. Return the names of the compared operators."""
    data = source if isinstance(source, bytes) else source.read_bytes()
    main = load_model(data).subgraphs[0]
    indices = [*main.outputs, *made_by_operators(main)]
    feeds = feeds_for(data)
    _, right = verify.litert_tensors(data, feeds, indices)
    actual = ours(AllTensorsModel(data), feeds, folder)
    makers = {i: op.name for op in main.operators for i in op.outputs}
    held = []
    for index, mine, wanted in zip(indices, actual, right):
        if wanted is None:
            continue
        where = f"{makers.get(index)} {main.tensors[index].name}"
        assert mine.shape == wanted.shape and mine.dtype == wanted.dtype, where
        if wanted.dtype.kind == "f":
            bound = tolerance * max(1.0, float(np.abs(wanted).max(initial=0)))
            np.testing.assert_allclose(mine, wanted, rtol=0, atol=bound, err_msg=where)
        else:
            np.testing.assert_array_equal(mine, wanted, err_msg=where)
        held.append(makers.get(index, ""))
    return held
