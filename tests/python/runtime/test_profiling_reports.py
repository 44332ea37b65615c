"""Profiling reports as objects of C, and their texts."""

from __future__ import annotations

import json

import pytest

import tvmrt


def profiling(name):
    return tvmrt.get_global_func(f"runtime.profiling.{name}")


def metrics(name, microseconds, device="cpu0"):
    return {
        "Name": {"string": name},
        "Duration (us)": {"microseconds": microseconds},
        "Percent": {"percent": 40},
        "Count": {"count": 1},
        "Device": {"string": device},
        "Ratio": {"ratio": 0.5},
    }


CALLS = [metrics("op1", 1.5), metrics("op2", 2.25), metrics("op1", 1), metrics("op1", 9, "npu0")]
TEXT = json.dumps({"calls": CALLS, "device_metrics": {}, "configuration": {"n": {"count": 2}}})


@pytest.fixture
def made():
    """Return C's text of the report, from a function's name and its arguments."""
    from tvmrt.runtime._library import check, ffi, lib

    def call(name, values, codes):
        function, out, code = ffi.new("void**"), ffi.new("TVMValue*"), ffi.new("int*")
        check(lib.TVMFuncGetGlobal(f"runtime.profiling.{name}".encode(), function))
        check(lib.TVMFuncCall(function[0], values, codes, len(codes), out, code))
        return out, code[0]

    # by the handle only, since Python converts objects of C to Report
    buffer = ffi.new("char[]", TEXT.encode())
    values = ffi.new("TVMValue[4]")
    values[0].v_str = buffer
    report, code = call("FromJSON", values, ffi.new("int[]", [11]))
    assert code == 8  # an object

    def text(kind, *more):
        values[0].v_handle = report[0].v_handle
        for i, value in enumerate(more):
            values[1 + i].v_int64 = value
        out, _ = call(kind, values, ffi.new("int[]", [8] + [0] * len(more)))
        return ffi.string(out[0].v_str).decode()

    yield text
    check(lib.TVMObjectFree(report[0].v_handle))


def test_json_is_returned_unchanged(made):
    assert made("AsJSON") == TEXT


def test_numbers_have_points_in_every_locale(made, decimal_comma):
    table = made("AsTable")
    with decimal_comma():
        assert made("AsTable") == table


def test_table(made):
    assert made("AsTable").splitlines() == [
        "Name  Duration (us)  Percent  Count  Device",
        "op1            9.00    40.00      1  npu0",
        "op1            2.50    80.00      2  cpu0",
        "op2            2.25    40.00      1  cpu0",
        "Sum           13.75   160.00      4",
    ]
    single = [line.split()[:2] for line in made("AsTable", 0, 0, 0).splitlines()[1:]]
    assert single == [["op1", "1.50"], ["op2", "2.25"], ["op1", "1.00"], ["op1", "9.00"]]


def test_object_becomes_a_report_of_python():
    report = profiling("FromJSON")(TEXT)
    assert report.calls[0] == {"name": "op1", "count": 1, "seconds": 1.5e-6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the report"),
        ('{"calls": [{"Name": 1}]}', "the report"),
        ('{"calls": [{"Count": {"count": x}}]}', "'x' is not a number"),
    ],
)
def test_damaged_text_is_refused(text, message):
    with pytest.raises((ValueError, tvmrt.TVMError), match=message):
        profiling("FromJSON")(text)
