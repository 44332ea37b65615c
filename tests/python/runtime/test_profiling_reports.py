"""Profiling reports in TVM's format: objects, and their texts.

The expected texts were written by TVM's runtime for equal values.
"""

from __future__ import annotations

import json

import pytest

import tvmrt
from tvmrt.runtime.container import Array
from tvmrt.runtime.profiling import Report


def profiling(name):
    return tvmrt.get_global_func(f"runtime.profiling.{name}")


def row(name, microseconds, percent):
    return {
        "Name": name,
        "Duration (us)": profiling("Duration")(microseconds),
        "Count": profiling("Count")(1),
        "Device": "cpu0",
        "Percent": profiling("Percent")(percent),
    }


@pytest.fixture
def made():
    """Return C's report of three calls, from a function of the kind and its arguments."""
    metrics = {"cpu0": {"Duration (us)": {"microseconds": 2.5}}}
    ratio = {"Ratio": {"ratio": 0.5}}
    calls = [
        {"Name": {"string": "op1"}, "Duration (us)": {"microseconds": 1.5}, **ratio},
        {"Name": {"string": "op2"}, "Duration (us)": {"microseconds": 2.25}, **ratio},
        {"Name": {"string": "op1"}, "Duration (us)": {"microseconds": 1}, "Ratio": {"ratio": 1}},
    ]
    for call in calls:
        call |= {"Count": {"count": 1}, "Device": {"string": "cpu0"}, "Percent": {"percent": 60}}
    text = json.dumps(
        {"calls": calls, "device_metrics": metrics, "configuration": {"Threads": {"count": 2}}}
    )
    return lambda kind, *more: _through(text, kind, *more)


def _through(text, kind, *more):
    """Return C's text of the object that FromJSON returned, using the handle only."""
    from tvmrt.runtime._library import check, ffi, lib

    def call(name, values, codes):
        function, out, code = ffi.new("void**"), ffi.new("TVMValue*"), ffi.new("int*")
        check(lib.TVMFuncGetGlobal(f"runtime.profiling.{name}".encode(), function))
        check(lib.TVMFuncCall(function[0], values, codes, len(codes), out, code))
        return out, code[0]

    buffer = ffi.new("char[]", text.encode())
    values = ffi.new("TVMValue[1]")
    values[0].v_str = buffer
    report, code = call("FromJSON", values, ffi.new("int[]", [11]))
    assert code == 8  # an object
    values = ffi.new("TVMValue[]", 1 + len(more))
    values[0].v_handle = report[0].v_handle
    for i, value in enumerate(more):
        values[1 + i].v_int64 = value
    out, code = call(kind, values, ffi.new("int[]", [8] + [0] * len(more)))
    result = ffi.string(out[0].v_str).decode()
    check(lib.TVMObjectFree(report[0].v_handle))
    return result


def test_json_and_csv(made):
    assert made("AsJSON").startswith(
        '{"calls":[{"Name":{"string":"op1"},"Duration (us)":{"microseconds":1.50000000000000000},'
        '"Ratio":{"ratio":0.50000000000000000},"Count":{"count":1},'
    )
    assert json.loads(made("AsJSON"))["configuration"] == {"Threads": {"count": 2}}
    assert made("AsCSV").splitlines()[:2] == [
        "Count,Device,Duration (us),Name,Percent,Ratio",
        '1,"cpu0",1.5,"op1",60,0.5',
    ]


def test_numbers_have_points_in_every_locale(made, decimal_comma):
    kinds = ("AsJSON", "AsCSV", "AsTable")
    texts = [made(kind) for kind in kinds]
    with decimal_comma():
        assert [made(kind) for kind in kinds] == texts


def test_table(made):
    lines = [line.split() for line in made("AsTable").splitlines()]
    assert lines[:6] == [
        ["Name", "Duration", "(us)", "Percent", "Device", "Count", "Ratio"],
        ["op1", "2.50", "120.00", "cpu0", "2", "0.75"],
        ["op2", "2.25", "60.00", "cpu0", "1", "0.50"],
        ["----------"],
        ["Sum", "4.75", "180.00", "3"],
        ["Total", "2.50", "cpu0"],
    ]
    assert lines[-3:] == [["Configuration"], ["-------------"], ["Threads:", "2"]]
    single = [line.split()[0] for line in made("AsTable", 0, 0, 0).splitlines()[1:4]]
    assert single == ["op1", "op2", "op1"]


def test_report_of_containers():
    report = profiling("Report")(
        [row("op", 1.5, 60.0)], {"cpu0": {"Total": profiling("Ratio")(0.5)}}, {}
    )
    assert isinstance(report, Report)
    assert report.calls == [{"name": "op", "count": 1, "seconds": 1.5e-6}]
    assert profiling("DeviceWrapper")(tvmrt.cpu(0)).type_key == "runtime.profiling.DeviceWrapper"


def test_profiled_function():
    module = tvmrt.runtime.system_lib()
    made = tvmrt.get_global_func("runtime.CSourceModuleCreate")("int x;", "c", [], None)
    for holder in (module, made):
        with pytest.raises(AttributeError, match="no function 'no_such'"):
            profiling("ProfileFunction")(holder, "no_such", 1, 0, 0, [])
    function = profiling("ProfileFunction")(made, "get_func_names", 1, 0, 2, [])
    assert dict(function().items())["Duration (us)"].type_key == "runtime.profiling.Duration"
    with pytest.raises(ValueError, match="metric collectors are not supported"):
        profiling("ProfileFunction")(made, "get_func_names", 1, 0, 0, [Array([])])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "the report"),
        ('{"calls": [{"Name": {}}]}', "a metric is empty"),
        ('{"calls": [{"Name": {"apples": 1}}]}', "unknown kind of metric 'apples'"),
        ('{"calls": [{"Name": {"count": x}}]}', "'x' is not a number"),
        ('{"device_metrics": {"cpu0": 1}}', "the report"),
    ],
)
def test_damaged_text_is_refused(text, message):
    with pytest.raises((ValueError, tvmrt.TVMError), match=message):
        profiling("FromJSON")(text)


def test_invalid_report_entries_are_rejected():
    with pytest.raises(TypeError, match="call 0 is not a map"):
        profiling("Report")([1], {}, {})
    with pytest.raises(TypeError, match="duration, percent, ratio, count or string"):
        profiling("Report")([{"Name": [1]}], {}, {})
