"""Test the bridge to apache-tvm-ffi: arrays, shapes and modules, on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from bridge_case import (
    SOURCE,
    aligned,
    both_sides,
    bridge,
    compile_c,
    ffi_tensor,
    from_ffi,
    to_ffi,
    tvm_ffi,
)

import tvmrt


def plain(value):
    """Convert an array of either side to a list."""
    if isinstance(value, (list, tuple, tvm_ffi.Array, tvmrt.runtime.Array)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


@both_sides
@pytest.mark.parametrize("value", [[1, 2.5, None, "text", "a longer text"], [[1, []], [[2]]]])
def test_array_arrives_and_comes_back(side, value):
    seen = []
    result = side(lambda array: seen.append(plain(array)) or array)(value)
    assert plain(result) == seen[0] == value


def test_tensors_in_arrays_share_their_memory():
    array, unaligned = aligned((4,)), aligned((4,), offset=4)

    def fill(values):
        np.from_dlpack(values[0])[:] = 3

    to_ffi(lambda values: np.from_dlpack(values[0]).fill(2))([ffi_tensor(array)])
    assert (array == 2).all()
    from_ffi(fill)([tvmrt.nd.from_dlpack(array)])
    assert (array == 3).all()
    assert from_ffi(lambda: [ffi_tensor(unaligned)])()[0].shape == (4,), "a copy"


def test_shapes_and_tuples_arrive():
    assert to_ffi(list)(tvm_ffi.Shape((2, 3))) == [2, 3]
    assert tuple(from_ffi(lambda shape: shape)(tvmrt.runtime.ShapeTuple([4, 5]))) == (4, 5)
    assert plain(from_ffi(list)(tvmrt.runtime.container.tuple_object([1, "two"]))) == [1, "two"]


@both_sides
def test_maps_are_refused(side):
    with pytest.raises(TypeError, match=r"argument 0: an? .*Map has no equivalent"):
        side(lambda map: None)({"a": 1})


def test_modules_give_their_functions(toolbox, tmp_path):
    get = to_ffi(lambda: toolbox)()
    assert get("add3")(1, 2, 3) == bridge.to_tvm_ffi(toolbox)("add3")(1, 2, 3) == 6
    assert get("no such") is None
    for arguments in ((), (5,), ("add3", 1)):
        with pytest.raises(TypeError, match="called with the name of one of its functions"):
            get(*arguments)
    library = compile_c(SOURCE, tmp_path / "module.so", "-DRAISE=1")
    module = from_ffi(lambda: tvm_ffi.load_module(str(library)))()
    assert isinstance(module, tvmrt.runtime.Module)
    assert module["same"](5) == 5
    assert module() == 1234
    assert not module.implements_function("no such")
    assert bridge.from_tvm_ffi(tvm_ffi.load_module(str(library)))["same"](6) == 6
