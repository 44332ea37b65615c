"""Test the bridge to apache-tvm-ffi: arrays, maps, shapes and modules, on both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from bridge_case import aligned, bridge, compile_c, from_ffi, to_ffi, tvm_ffi

import tvmrt


def plain(value):
    """Convert a container of either side to Python's own."""
    if hasattr(value, "items"):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, tvm_ffi.Array, tvmrt.runtime.Array)):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


CONTAINERS = {
    "list": [1, 2.5, None, "text", "a longer text"],
    "nested": [[1, []], {"a": [2], "b": {"c": 3}}],
    "dict": {"a": 1, "b": "two", "a longer key": [3]},
    "many": {f"key {i}": i for i in range(40)},
}


@pytest.mark.parametrize("name", CONTAINERS)
@pytest.mark.parametrize("side", [to_ffi, from_ffi])
def test_container_arrives_and_comes_back(side, name):
    seen = []
    result = side(lambda value: seen.append(plain(value)) or value)(CONTAINERS[name])
    assert plain(result) == seen[0] == CONTAINERS[name]


def test_tensors_in_containers_share_their_memory():
    array = aligned((4,))

    def fill(values):
        np.from_dlpack(values[0])[:] = 3

    to_ffi(lambda values: np.from_dlpack(values[0]).fill(2))([tvm_ffi.from_dlpack(array)])
    assert (array == 2).all()
    from_ffi(fill)([tvmrt.nd.from_dlpack(array)])
    assert (array == 3).all()


def test_shapes_arrive():
    assert to_ffi(list)(tvm_ffi.Shape((2, 3))) == [2, 3]
    assert tuple(from_ffi(lambda shape: shape)(tvmrt.runtime.ShapeTuple([4, 5]))) == (4, 5)
    assert tuple(to_ffi(lambda: tvmrt.runtime.ShapeTuple([6]))()) == (6,)


def test_tuples_arrive_as_arrays():
    assert plain(from_ffi(list)(tvmrt.runtime.container.tuple_object([1, "two"]))) == [1, "two"]


def test_objects_without_a_counterpart_are_refused():
    with pytest.raises(TypeError, match="OpaquePyObject"):
        from_ffi(lambda: [object()])()


def test_modules_give_their_functions(toolbox, tmp_path):
    assert bridge.to_tvm_ffi(toolbox)("add3")(1, 2, 4) == 7
    get = to_ffi(lambda: toolbox)()
    assert get("add3")(1, 2, 3) == 6
    assert get("no such") is None
    for arguments in ((), (5,), ("add3", 1)):
        with pytest.raises(TypeError, match="called with the name of one of its functions"):
            get(*arguments)
    library = compile_c(
        Path(__file__).with_name("ffi_library.c"), tmp_path / "module.so", "-DRAISE=1"
    )
    module = from_ffi(lambda: tvm_ffi.load_module(str(library)))()
    assert isinstance(module, tvmrt.runtime.Module)
    assert module["same"](5) == 5
    assert module() == 1234
    assert not module.implements_function("no such")
    assert bridge.from_tvm_ffi(tvm_ffi.load_module(str(library)))["same"](6) == 6


def test_error_returns_with_its_traceback(toolbox):
    """Call Python of tvm-ffi from classic C, called by tvm-ffi."""

    def somewhere_deep():
        raise IndexError("far away")

    call = bridge.to_tvm_ffi(toolbox["call"])
    with pytest.raises(IndexError, match="far away") as caught:
        call(tvm_ffi.convert(somewhere_deep))
    assert "somewhere_deep" in [entry.name for entry in caught.traceback]
