"""Callbacks from C to Python: arguments, results, exceptions, lifetimes, threads."""

from __future__ import annotations

import gc
import threading
import time
import traceback
import weakref

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import PackedFunc, convert


def test_callback_gets_and_returns_values():
    seen = []

    def function(*args):
        seen.extend(args)
        return "result"

    assert convert(function)(1, 2.5, "text", None, b"ab") == "result"
    assert seen == [1, 2.5, "text", None, b"ab"]


RESULTS = {
    "none": None,
    "int": 3,
    "float": 2.5,
    "str": "text",
    "bytes": b"a\0b",
    "list": [1, 2, 3],
    "bool": 1,
}


@pytest.mark.parametrize("name", RESULTS)
def test_callback_result_returns(name):
    assert convert(lambda: RESULTS[name])() == RESULTS[name]


def test_library_function_hands_text_on(toolbox):
    assert toolbox["call"](lambda: "text") == "text"
    assert toolbox["call"](lambda: b"\0bytes") == b"\0bytes"


@pytest.mark.parametrize("kind", ["numpy", "ndarray", "from-dlpack"])
def test_callback_returns_tensors(toolbox, kind):
    values = np.arange(4, dtype=np.float32)
    make = {"numpy": lambda a: a, "ndarray": tvmrt.nd.array, "from-dlpack": tvmrt.nd.from_dlpack}
    result = toolbox["call"](lambda: make[kind](values))
    np.testing.assert_array_equal(result.numpy(), values)


def test_callback_argument_tensor_shares_memory(toolbox):
    tensor = tvmrt.nd.array(np.zeros(3, np.float32))

    def function(got):
        got[:] = np.ones(3)

    toolbox["call"](function, tensor)
    np.testing.assert_array_equal(tensor.numpy(), np.ones(3))


def test_borrowed_tensor_ends_with_the_call(toolbox):
    kept = []

    def function(got):
        got[:] = got.numpy() + 10
        kept.append(got)

    assert toolbox["call_with_stack_tensor"](function) == 11
    for use in (lambda t: t.numpy(), lambda t: t.shape, toolbox["count"]):
        with pytest.raises(ValueError, match="borrowed"):
            use(kept[0])


def test_kept_managed_tensor_stays(toolbox):
    kept = []
    toolbox["call"](kept.append, tvmrt.nd.array(np.arange(3, dtype=np.float32)))
    gc.collect()
    np.testing.assert_array_equal(kept[0].numpy(), [0, 1, 2])


@pytest.mark.parametrize("make", [tvmrt.nd.array, np.asarray], ids=["managed", "borrowed"])
def test_text_of_a_callback_outlives_its_arguments(make):
    said, kept = [], []

    def function(argument):
        kept.append(weakref.ref(argument, lambda _: said.append(convert(lambda: "at the end")())))
        return "the result"

    assert convert(function)(make(np.zeros(2, np.float32))) == "the result"
    assert said == ["at the end"]


def test_functions_and_modules_pass_through_callbacks(toolbox):
    def function(add, module):
        return add(1, 2, 3) + module["add3"](4, 5, 6)

    assert toolbox["call"](function, toolbox["add3"], toolbox) == 21


def test_recursion_through_c(toolbox):
    call = toolbox["call"]

    def depth(n):
        return 0 if n == 0 else 1 + call(depth, n - 1)

    assert call(depth, 50) == 50


def test_many_arguments_reach_a_callback(toolbox):
    assert toolbox["call"](lambda *a: sum(a), *range(30)) == sum(range(30))


class Precious(Exception):
    """An exception whose text cannot be produced."""


def test_exception_passes_through_unchanged(toolbox):
    original = Precious("a", 1)

    def function():
        raise original

    with pytest.raises(Precious) as caught:
        toolbox["call"](function)
    assert caught.value is original
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames][-1] == "function"


def test_exception_passes_several_layers(toolbox):
    call = toolbox["call"]

    def outer():
        return call(inner)

    def inner():
        return {}["missing"]

    with pytest.raises(KeyError, match="missing") as caught:
        call(call, outer)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["outer", "inner"]


def test_exception_is_the_cause_when_c_adds_to_its_text(toolbox):
    def function():
        raise ValueError("negative extent")

    with pytest.raises(tvmrt.TVMError, match="layer conv1: ValueError: negative extent") as caught:
        toolbox["call_with_context"](function)
    assert isinstance(caught.value.__cause__, ValueError)


def test_swallowed_exception_is_forgotten(toolbox):
    class Local(Exception):
        pass

    local = Local()
    watch = weakref.ref(local)

    def function():
        raise Local.__new__(Local)

    del local
    toolbox["call_ignoring_errors"](function)
    assert watch() is None
    with pytest.raises(tvmrt.TVMError, match="fresh") as caught:
        toolbox["raise_error"]("fresh")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_requests_to_stop_pass_through(toolbox, kind):
    def function():
        raise kind

    with pytest.raises(kind):
        toolbox["call"](function)


def test_bad_result_of_a_callback_is_an_error(toolbox):
    with pytest.raises(TypeError, match="cannot be passed"):
        toolbox["call"](object)


def test_closure_is_freed_with_its_last_reference(toolbox):
    class Payload:
        def __call__(self):
            return 5

    payload = Payload()
    watch = weakref.ref(payload)
    function = convert(payload)
    del payload
    assert isinstance(function, PackedFunc)
    assert toolbox["call"](function) == 5
    del function
    assert watch() is None


def test_temporary_closure_is_freed_after_the_call(toolbox):
    class Payload:
        def __call__(self):
            return 5

    payload = Payload()
    watch = weakref.ref(payload)
    assert toolbox["call"](payload) == 5
    del payload
    assert watch() is None


# ---- threads ----


def test_callback_on_a_foreign_thread(toolbox):
    names = []

    def function(value):
        names.append(threading.current_thread() is threading.main_thread())
        return value + 1

    assert toolbox["call_on_thread"](function) == 21
    assert names == [False]


def test_exception_on_a_foreign_thread_keeps_its_type(toolbox):
    def function(value):
        raise ValueError(f"no {value}")

    with pytest.raises(ValueError, match="no 20"):
        toolbox["call_on_thread"](function)


def test_exception_on_a_foreign_thread_is_freed(toolbox):
    class Local(Exception):
        pass

    watches = []

    def function(value):
        error = Local("gone")
        watches.append(weakref.ref(error))
        raise error

    with pytest.raises(tvmrt.TVMError, match="gone"):
        toolbox["call_on_thread"](function)
    gc.collect()
    assert watches[0]() is None


def test_gil_is_released_while_c_runs(toolbox):
    sleep = toolbox["sleep_ms"]
    for milliseconds in (300, 1000, 5000, 20000):  # this thread may wait on a busy machine
        thread, turns = threading.Thread(target=sleep, args=(milliseconds,)), 0
        thread.start()
        while thread.is_alive():
            time.sleep(0.001)
            turns += 1
        thread.join()
        if turns >= 10:  # one or two may fit before and after the sleep
            return
    pytest.fail("this thread waited for the sleep to end")


def test_calls_from_many_threads(toolbox):
    add, call, failures = toolbox["add3"], toolbox["call"], []

    def work(number):
        for i in range(300):
            if add(number, i, 1) != number + i + 1 or call(lambda x: x + 1, i) != i + 1:
                failures.append((number, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
