"""ArrayCall: arguments of the fast path, fallbacks, and errors."""

from __future__ import annotations

import numpy as np
import pytest

from tvmrt.runtime import DataType, _core

PORT = (0, (2, 3), np.dtype("float32"), DataType("float32"))
FLAG = (1, (), np.dtype("bool"), DataType("bool"))
ARRAY = np.arange(6, dtype="float32").reshape(2, 3)


def _executor(outputs=(PORT, FLAG), fails=None):
    """Return an executor that doubles its input; its other output reports a flag."""
    given = {}

    def run():
        if fails is not None:
            raise fails

    def get_output(number, out):
        out.copyfrom(given[number] * 2 if number == 0 else given[number])

    functions = [
        _core.function_from_callable(each)
        for each in (lambda number, value: given.update({number: value.numpy()}), run, get_output)
    ]
    return _core.ArrayCall(*functions, (PORT, FLAG), outputs)


def _frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("x", [ARRAY, ARRAY[::1], _frozen(ARRAY)], ids=["new", "view", "frozen"])
def test_arrays_that_fit_give_new_arrays(x):
    call = _executor()
    y, flag = call(x, np.array(True))
    again, _ = call(x + 1, np.array(False))
    np.testing.assert_array_equal(y, x * 2)
    np.testing.assert_array_equal(again, x * 2 + 2)
    assert flag.dtype == bool
    assert flag.shape == ()
    assert flag


def test_single_output_is_not_a_list():
    np.testing.assert_array_equal(_executor((PORT,))(ARRAY, np.array(True)), ARRAY * 2)


OTHERS = {
    "fewer": (ARRAY,),
    "list": (ARRAY.tolist(), np.array(True)),
    "subclass": (ARRAY.view(np.recarray), np.array(True)),
    "double": (ARRAY.astype("float64"), np.array(True)),
    "bytes swapped": (ARRAY.astype(">f4"), np.array(True)),
    "more rows": (np.zeros((3, 3), "float32"), np.array(True)),
    "more extents": (np.zeros((2, 3, 1), "float32"), np.array(True)),
    "columns first": (np.asfortranarray(ARRAY), np.array(True)),
    "the second": (ARRAY, np.array([True])),
}


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_mismatched_arrays_use_the_general_path(given):
    assert _executor()(*given) is NotImplemented


def test_named_inputs_use_the_general_path():
    assert _executor()(x=ARRAY, flag=np.array(True)) is NotImplemented


def test_the_error_of_a_run_is_raised():
    with pytest.raises(KeyError, match="on purpose"):
        _executor(fails=KeyError("on purpose"))(ARRAY, np.array(True))


def test_outputs_that_cannot_be_made_are_an_error():
    call = _executor(((0, (-1,), *PORT[2:]),))
    with pytest.raises(ValueError, match="negative"):
        call(ARRAY, np.array(True))


def test_a_wrong_description_is_refused():
    with pytest.raises(TypeError, match="ArrayCall"):
        _core.ArrayCall(print, print, print, (), ())
    with pytest.raises(TypeError, match="port"):
        _executor(((0, (2, 3)),))
