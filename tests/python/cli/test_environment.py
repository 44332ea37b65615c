"""The report of ``tvmrt doctor`` about the machine."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tvmrt.cli import environment, main


def test_missing_tool_names_the_package_to_install(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(environment, "MODULES", {"pictures": ("no_such_module", "some-package")})
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("tvmrt.plugin.find", lambda *key: None)
    monkeypatch.setattr(environment, "_devices", list)
    assert main(["doctor", "--json"]) == 1
    found = {row["what"]: row for row in json.loads(capsys.readouterr().out)["checks"]}
    assert found["C compiler"]["state"] == "missing"
    assert "pip install 'tvmrt[cc]'" in found["C compiler"]["remedy"]
    assert found["Linux on armv7"]["remedy"] == (
        "pip install 'tvmrt[cross]', or apt-get install gcc-arm-linux-gnueabihf"
    )
    assert found["emulated Cortex-M"]["remedy"] == "apt-get install qemu-system-arm"
    assert found["pictures"]["remedy"] == "pip install some-package"


def test_a_kernel_pack_is_as_good_as_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("tvmrt.toolchains.zig_package", lambda: None)
    for reason, states in (("", ["absent", "ok"]), ("not installed", ["missing", "absent"])):
        pack = SimpleNamespace(why_missing=lambda reason=reason: reason)
        pack.find_pack = lambda: SimpleNamespace(level="v3")
        monkeypatch.setattr("tvmrt.plugin.find", lambda *key, pack=pack: pack)
        assert [each.state for each in environment._compilers()] == states


def test_machine_with_a_compiler_is_ready(monkeypatch, capsys, tmp_path):
    compiler = tmp_path / "mycc"
    compiler.write_text("#!/bin/sh\necho my compiler 7.8\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "my compiler 7.8" in text
    assert "device cpu" in text


@pytest.mark.parametrize("text", ["exit 3", "echo"])
def test_compiler_without_a_version_is_reported(tmp_path, text):
    program = tmp_path / "cc"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    assert environment._version_of([str(program)]).endswith("no version")


@pytest.mark.parametrize(("named", "state", "message"), [
    ("native", "ok", "native"), ("aarch64-linux", "ok", "aarch64-linux: neon, dot, i8mm"),
    ("z80", "missing", "TVMRT_TARGET names the target z80, which is not known"),
])  # fmt: skip
def test_default_target_is_reported(named, state, message, monkeypatch):
    monkeypatch.setenv("TVMRT_TARGET", named)
    found = environment._target()
    assert found.state == state
    assert message in f"{found.found} {found.remedy}"
