"""Test the device opencl with failing OpenCL calls."""

from __future__ import annotations

from pathlib import Path

from failing_calls import check, sweep

OUT_OF_MEMORY, LOST, WORK_GROUP, OTHER = -5, -2, -54, -36
# The call, its status, whether the device is registered again before, and the error text.
CALLS = [
    ("clCreateContext", LOST, True, "clCreateContext: the OpenCL device is lost"),
    ("clCreateCommandQueue", OUT_OF_MEMORY, True, "device is out of memory"),
    ("clBuildProgram", OTHER, True, "does not compile"),
    ("clCreateBuffer", OUT_OF_MEMORY, False, "clCreateBuffer: the OpenCL device is out of memory"),
    ("clCreateKernel", OTHER, False, "clCreateKernel failed with OpenCL error -36"),
    ("clSetKernelArg", OTHER, False, "parameter failed with OpenCL error -36"),
    ("clEnqueueNDRangeKernel", WORK_GROUP, False, "local size does not suit"),
    ("clEnqueueReadBuffer", OTHER, False, "reading an output failed"),
    ("clWaitForEvents", LOST, False, "running a region: the OpenCL device is lost"),
]


def test_failing_opencl_calls_are_reported_and_device_survives(tmp_path):
    errors = sweep(
        tmp_path,
        Path(__file__).with_name("failing_opencl.c"),
        "opencl",
        "libOpenCL",
        [("Exp", ["x"], "e", {}), ("Neg", ["e"], "y", {})],
        {},
        (2, 3),
        [call[:3] for call in CALLS],
        devices=["opencl"],
    )
    check(CALLS, errors)
