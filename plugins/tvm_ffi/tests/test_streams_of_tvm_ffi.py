"""Test the current stream of a thread on both sides of the bridge to tvm-ffi.

The device of far_device.c has only memory. The tests check which stream a callee receives."""

from __future__ import annotations

import pytest

import tvmrt
from tvmrt.runtime._capi import ffi, lib

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")

from tvmrt.contrib.tvm_ffi import from_tvm_ffi, to_tvm_ffi  # noqa: E402 - needs the package

EXT_DEV = 12


@pytest.fixture(scope="module")
def tensor(far):
    return tvmrt.nd.empty((4,), device=tvmrt.device("ext_dev", 0))


@pytest.fixture
def device():
    device = tvmrt.device("ext_dev", 0)
    yield device
    device.set_raw_stream(0)


@tvm_ffi.convert
def seen_by_tvm_ffi(*_):
    return tvm_ffi.get_raw_stream(tvm_ffi.device("ext_dev", 0))


def classic_stream(*_):
    return int(ffi.cast("uintptr_t", lib.tvmrt_current_stream(EXT_DEV, 0)))


def test_a_function_of_tvm_ffi_sees_the_stream_of_its_caller(tensor, device):
    call = from_tvm_ffi(seen_by_tvm_ffi)
    assert call(tensor) == 0
    device.set_raw_stream(0x1230)
    assert call(tensor) == 0x1230
    assert seen_by_tvm_ffi(tensor) == 0x1230, "by DLPack's exchange interface"
    assert call(1) == 0 == seen_by_tvm_ffi(), "without a tensor of the device nothing is set"


def test_stream_of_tvm_ffi_is_kept_without_a_caller_stream(tensor, device):
    with tvm_ffi.use_raw_stream(tvm_ffi.device("ext_dev", 0), 0x4560):
        assert from_tvm_ffi(seen_by_tvm_ffi)(tensor) == 0x4560
        device.set_raw_stream(0x1230)
        assert from_tvm_ffi(seen_by_tvm_ffi)(tensor) == 0x1230
        assert seen_by_tvm_ffi() == 0x4560, "as it was, after the call"


def test_a_packed_function_sees_the_stream_of_tvm_ffi(tensor, device):
    device.set_raw_stream(0x1230)
    seen = []
    call = to_tvm_ffi(tvmrt.runtime.convert_to_tvm_func(lambda *_: seen.append(classic_stream())))
    own = to_tvm_ffi(tensor)
    call(own)
    with tvm_ffi.use_raw_stream(tvm_ffi.device("ext_dev", 0), 0x4560):
        call(own)
        call(1)
    assert seen == [0x1230, 0x4560, 0x1230] and classic_stream() == 0x1230


def test_an_error_gives_the_stream_back(tensor, device):
    device.set_raw_stream(0x1230)

    @tvm_ffi.convert
    def fails(_):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        from_tvm_ffi(fails)(tensor)
    assert seen_by_tvm_ffi() == 0
