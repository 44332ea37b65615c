"""Dumps of boards that cannot be read, and those of other networks."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from damage import damaged_bytes

from tvmrt.cli import main
from tvmrt.plugins.replay import dump

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"


def header(**changes) -> bytes:
    fields = {"magic": 0x52545654, "version": 1, "what": 3, "network": 0, "target": b"cortex-m4",
              "capacity": 1, "count": 1, "next": 0, **changes}  # fmt: skip
    return struct.pack("<IHHI20sIII", *fields.values())


@pytest.mark.parametrize(
    "data, match",
    [
        pytest.param(b"", "has 0 bytes, fewer than a trace header (44)", id="empty"),
        pytest.param(
            header(magic=1) + bytes(20), "does not start with the trace magic", id="magic"
        ),
        pytest.param(header(version=9) + bytes(20), "has trace version 9", id="version"),
        pytest.param(header() + bytes(19), "ends after 63 of 64 bytes", id="short"),
        pytest.param(header(count=2) + bytes(20), "is damaged: 2 records", id="count"),
        pytest.param(header(next=1) + bytes(20), "is damaged: 1 records at 1", id="next"),
        pytest.param(header(capacity=0, count=0), "contains no record", id="none"),
        pytest.param(header(target=b"toaster") + bytes(20), "target toaster is not", id="target"),
        pytest.param(header() + bytes(20), "the dump is not of", id="other-network"),
    ],
)
def test_dump_of_another_network_is_refused(data, match, tmp_path, capsys):
    (tmp_path / "dump.bin").write_bytes(data)
    assert main(["replay", str(DIGITS), str(tmp_path / "dump.bin")]) == 2
    error = capsys.readouterr().err
    assert match in error and "defect" not in error


def test_damaged_dumps_are_refused_without_a_crash():
    source = random.Random(5)
    whole = header(capacity=3, count=3, next=1) + bytes(range(60))
    refused = 0
    for _ in range(2000):
        try:
            parsed = dump.parse(damaged_bytes(whole, source), "dump")
            assert sum(map(len, parsed.runs)) <= 3
        except ValueError:
            refused += 1
    assert 500 < refused < 2000


def test_big_endian_dump_is_read():
    record = (0, 0, 5, 0x12345678, 1, 2)
    both = []
    for order in "<>":
        head = struct.pack(order + "IHHI20sIII", 0x52545654, 1, 3, 9, b"host", 1, 1, 0)
        both.append(dump.parse(head + struct.pack(order + "HHIIII", *record), "dump"))
    assert both[0] == both[1]
    assert both[0].runs == [[dump.Record(*record)]]
