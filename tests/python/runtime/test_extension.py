"""Edge cases of the call extension: wrong arguments, borrowed tensors, failed allocations."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import _core


@pytest.fixture
def tensor() -> tvmrt.nd.NDArray:
    return tvmrt.nd.array(np.arange(6, dtype="float32").reshape(2, 3))


class OldArray:
    """A DLPack producer without options."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()


class Wrong:
    def __dlpack__(self, **options):
        return "no capsule"


def test_hooks_are_known_by_their_names():
    with pytest.raises(TypeError, match="no hook named 'nonsense'"):
        _core.configure(nonsense=print)


def test_hook_of_another_class_is_refused():
    with pytest.raises(TypeError, match="must be derived from"):
        _core.configure(tensor_class=int)


def test_adopted_objects_are_of_our_classes():
    with pytest.raises(TypeError, match="derived from Object"):
        _core.adopt(int, 0)


def test_functions_and_objects_know_themselves():
    function = tvmrt.get_global_func("runtime.Array")
    assert {function: 1}[function] == 1
    shape = tvmrt.runtime.ShapeTuple([1, 2])
    assert shape.same_as(shape)
    assert not shape.same_as(tvmrt.runtime.ShapeTuple([1, 2]))
    assert not shape.same_as(7)


def test_tensor_reports_its_dlpack_device(tensor):
    assert tensor.__dlpack_device__() == (1, 0)


@pytest.mark.parametrize(
    "options", [{"stream": None}, {"dl_device": (1, 0)}, {"max_version": None}]
)
def test_options_of_dlpack_are_taken(tensor, options):
    assert "dltensor" in repr(tensor.__dlpack__(**options))


@pytest.mark.parametrize(
    ("arguments", "options", "text"),
    [
        ((1,), {}, "keyword arguments only"),
        ((), {"colour": 1}, "no option 'colour'"),
        ((), {"max_version": 1}, "max_version is a tuple"),
    ],
    ids=["positional", "unknown", "version"],
)
def test_other_options_of_dlpack_are_refused(tensor, arguments, options, text):
    with pytest.raises(TypeError, match=text):
        tensor.__dlpack__(*arguments, **options)


def test_producers_without_options_are_read(tensor):
    assert (tvmrt.nd.from_dlpack(OldArray(tensor)).numpy() == tensor.numpy()).all()


def test_producer_without_a_capsule_is_refused():
    with pytest.raises(TypeError, match="returned no capsule"):
        tvmrt.nd.from_dlpack(Wrong())


def test_strided_array_is_rejected():
    with pytest.raises(ValueError, match="contiguous"):
        tvmrt.nd.from_dlpack(np.zeros((4, 4), "float32")[:, ::2])


def test_borrowed_tensor_ends_with_its_call():
    kept = []
    keep = tvmrt.runtime.convert(kept.append)
    keep(np.zeros(3, "float32"))
    for use in (kept[0].numpy, kept[0].__dlpack__, kept[0].__dlpack_device__):
        with pytest.raises(ValueError, match="borrowed"):
            use()


@pytest.mark.parametrize("number", [np.float32(1.5), np.float64(2.5), np.int8(3), np.bool_(True)])
def test_numbers_of_numpy_are_numbers(number):
    assert tvmrt.get_global_func("runtime.Box")(number) == number


SWEEP = """
import gc, sys
import numpy as np
import tvmrt, _testcapi
from tvmrt.runtime import _core

def echo(*values):
    return values[0] if values else None

def use():
    function = _core.function_from_callable(echo)
    tensor = tvmrt.nd.array(array)
    assert function("text") == "text"
    assert function(2.5, *range(12)) == 2.5
    assert function(tensor).shape == (2, 3)
    function(tensor.shape, array, b"bytes", None, True)
    shape = tvmrt.runtime.ShapeTuple([2, 3])
    assert shape.same_as(shape)
    tensor.strides
    str(tensor.dtype)
    capsule = tensor.__dlpack__()
    _core.from_dlpack(capsule)
    _core.from_dlpack(array)
    numpy = tensor.numpy()
    port = (0, (2, 3), array.dtype, tvmrt.runtime.DataType("float32"))
    call = _core.ArrayCall(function, function, function, (port,), (port,) * 2)
    assert call(array)[1].shape == (2, 3)

array = np.zeros((2, 3), "float32")
use()
failures = n = 0
gc.disable()
while True:
    _testcapi.set_nomemory(n, n + 1)
    try:
        use()
    except MemoryError:
        failed = True
    except Exception as error:  # the text of an error may be what found no memory
        failed = True
    else:
        failed = False
    finally:
        _testcapi.remove_mem_hooks()
    failures += failed
    use()
    n += 1
    if n > 400:
        break
print(failures)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="hooks of the interpreter's allocator")
def test_each_failed_allocation_of_the_interpreter_is_an_exception():
    pytest.importorskip("_testcapi")
    result = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", SWEEP],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert int(result.stdout) > 50
