"""Test damaged params files through the Python API."""

from __future__ import annotations

from artefacts import network, stream
from artefacts.damage import FAILURES, damaged, joined, kinds, params_fields, tree_fields

import tvmrt
from tvmrt.contrib import graph_executor

PARAMS_THAT_LOAD = {
    "cut": set(),
    "zeroed": {
        "reserved",
        "tensor.reserved",
        "tensor.device_type",
        "tensor.device_id",
        "tensor.code",
        "tensor.data",
    },
    "maximal": {
        "reserved",
        "name",
        "tensor.reserved",
        "tensor.device_type",
        "tensor.device_id",
        "tensor.code",
        "tensor.lanes",
        "tensor.data",
    },
}
PARAMS_THAT_LOAD["halved"] = PARAMS_THAT_LOAD["maximal"]


def test_fields_cover_whole_files():
    """Check that the tables of fields below equal the files of the writers."""
    assert joined(params_fields()) == stream.params({"w": network.W})
    blob = network.graph_blob()
    assert stream.string(joined(tree_fields())) == blob


@kinds
def test_params(kind):
    loaded = set()
    for name, data in damaged(params_fields(), kind):
        try:
            tvmrt.runtime.load_param_dict(data)
            loaded.add(name)
        except FAILURES as error:
            assert "params file" in str(error), (name, error)
    assert loaded <= PARAMS_THAT_LOAD[kind]
    assert loaded >= PARAMS_THAT_LOAD[kind] - {"name", "tensor.lanes", "tensor.code"}


@kinds
def test_params_of_a_running_network(kind, plain):
    for name, data in damaged(params_fields(), kind):
        executor = graph_executor.create(network.graph_text(), plain, tvmrt.cpu(0))
        try:
            executor.load_params(data)
        except FAILURES:
            continue
        executor.run(x=network.X)
        assert executor.get_output(0).numpy().shape == (2, 3), name
