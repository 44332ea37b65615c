"""Real networks in sessions with the execution provider, against onnxruntime's own results.

By default these are the three smallest files of TVMRT_MODELS; TVMRT_EP_NETWORKS=all takes all of
them, which takes half an hour.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import pytest

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.24")
from ep_case import session, taken  # noqa: E402

pytestmark = pytest.mark.slow
FOLDER = os.environ.get("TVMRT_MODELS")
FILES = sorted(Path(FOLDER or "/nowhere").glob("*.onnx"), key=lambda file: file.stat().st_size)
if os.environ.get("TVMRT_EP_NETWORKS") != "all":
    FILES = FILES[:3]


@pytest.mark.skipif(FOLDER is None, reason="TVMRT_MODELS is not set")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_network_is_computed_by_tvmrt_alone_and_right(path):
    ours, theirs = session(path), session(onnx.load(path), ours=False)
    assert len(taken(ours)) == len(ours.get_provider_graph_assignment_info()) == 1
    with np.load(path.with_suffix(".npz")) as data:
        feeds = {each.name: data[each.name] for each in ours.get_inputs()}
    for got, want in zip(ours.run(None, feeds), theirs.run(None, feeds), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if want.dtype.kind == "f":
            scale = float(np.abs(want).max(initial=1e-6))
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * scale)
        else:  # a rounded sum may change the index of a maximum
            assert np.mean(got != want) <= 0.01
