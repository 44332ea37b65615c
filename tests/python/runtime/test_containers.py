"""Containers, parameters and their conversions."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import ADT, Array, Map, Object, ShapeTuple, String, convert


def test_array_behaves_as_a_list():
    array = Array([1, "two", 3.5, None])
    assert len(array) == 4
    assert list(array) == [1, "two", 3.5, None]
    assert array[-1] is None
    assert array[0:2] == [1, "two"]
    assert array == [1, "two", 3.5, None]
    assert "two" in array
    with pytest.raises(IndexError, match="4 elements"):
        array[4]


def test_nested_containers():
    value = convert({"a": [1, 2, [3]], "b": {"c": "d"}})
    assert value["a"][2][0] == 3
    assert value["b"]["c"] == "d"


def test_a_million_nested_arrays_are_released():
    array = tvmrt.get_global_func("runtime.Array")
    nested = array(1)
    for _ in range(1_000_000):
        nested = array(nested)
    assert len(nested) == 1
    del nested  # such a deep recursion would crash the process


def test_map_behaves_as_a_dict():
    mapping = Map({"a": 1, "b": tvmrt.nd.array(np.arange(3.0))})
    assert len(mapping) == 2
    assert sorted(mapping) == ["a", "b"]
    assert "a" in mapping
    assert "z" not in mapping
    assert mapping["a"] == 1
    np.testing.assert_array_equal(mapping["b"].numpy(), [0, 1, 2])
    assert mapping.get("z", 7) == 7
    with pytest.raises(KeyError, match="z"):
        mapping["z"]


def test_shape_tuple():
    shape = ShapeTuple((1, 2, 3))
    assert tuple(shape) == (1, 2, 3)
    assert shape == (1, 2, 3)
    assert shape[-1] == 3


def test_adt():
    adt = ADT(5, [String("a"), ShapeTuple([1])])
    assert adt.tag == 5
    assert len(adt) == 2
    assert adt[0] == "a"


@pytest.mark.parametrize(
    "value", [Array([1, 2]), Map({"a": 1}), ShapeTuple([1, 2]), String("abc")], ids=repr
)
def test_pickle(value):
    assert pickle.loads(pickle.dumps(value)) == value


def test_unknown_object_has_its_type_key():
    assert Object.__name__ == "Object"
    assert ShapeTuple([1]).type_key == "runtime.ShapeTuple"
    assert Array([]).type_key == "Array"


def test_registered_class_is_used():
    original = tvmrt.runtime.object._classes_by_key["runtime.ShapeTuple"]
    try:

        @tvmrt.register_object("runtime.ShapeTuple")
        class Shape(Object):
            pass

        assert isinstance(convert(lambda: original([1]))(), Shape)
    finally:
        tvmrt.register_object("runtime.ShapeTuple")(original)


# ---- parameters ----


@pytest.fixture
def params():
    rng = np.random.default_rng(1)
    return {
        "weight": rng.standard_normal((2, 3)).astype(np.float32),
        "bias": np.arange(3, dtype=np.int8),
        "scalar": np.array(2.5),
    }


def assert_same(loaded, params):
    assert set(loaded) == set(params)
    for name, value in params.items():
        np.testing.assert_array_equal(loaded[name].numpy(), value)
        assert loaded[name].numpy().dtype == value.dtype


def test_params_round_trip_as_bytes(params):
    assert_same(tvmrt.load_param_dict(tvmrt.save_param_dict(params)), params)


def test_params_round_trip_as_file(params, tmp_path):
    tvmrt.runtime.save_param_dict_to_file(params, tmp_path / "net.params")
    assert_same(tvmrt.runtime.load_param_dict_from_file(tmp_path / "net.params"), params)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_params_of_a_single_number(dtype):
    params = {"w": np.ones((), dtype)}
    assert_same(tvmrt.load_param_dict(tvmrt.save_param_dict(params)), params)


def test_params_bytes_match_tvm():
    data = bytes(tvmrt.save_param_dict({"w": np.array([1.0], np.float32)}))
    head = struct.pack("<QQQQ", 0xF7E58D4F05049CB7, 0, 1, 1) + b"w" + struct.pack("<Q", 1)
    array = struct.pack("<QQiiiBBHqqf", 0xDD5E40F096B4A13F, 0, 1, 0, 1, 2, 32, 1, 1, 4, 1.0)
    assert data == head + array


@pytest.mark.parametrize("cut", [0, 7, 20, 60])
def test_truncated_params_are_refused(params, cut):
    data = tvmrt.save_param_dict(params)
    with pytest.raises((tvmrt.TVMError, ValueError)):
        tvmrt.load_param_dict(data[:cut])
