"""compile, run, verify, bench and config with the digits networks."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tvmrt.cli import app
from tvmrt.cli.onnxruntime_session import run_onnxruntime

CASES = [("digits_f32", "graph"), ("digits_f32", "aot"), ("digits_int8", "graph"),
         ("digits_int8", "aot")]  # fmt: skip
IDS = ["-".join(case) for case in CASES]


@pytest.fixture(scope="module")
def images(digits) -> np.ndarray:
    with np.load(digits / "digits_test.npz") as data:
        return (data["images"][:, None, None] / 16).astype(np.float32)


@pytest.fixture(scope="module")
def inputs(images, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("inputs") / "in.npz"
    np.savez(path, image=images[0], **{"out:probabilities": np.zeros((1, 10), np.float32)})
    return path


@pytest.fixture(scope="module")
def compiled(tmp_path_factory, digits):
    """Return a function that gives the library of a case and the text printed by compile."""
    folder = tmp_path_factory.mktemp("compiled")
    done: dict[tuple[str, str], dict] = {}

    def library(network: str, executor: str) -> tuple[Path, dict]:
        path = folder / f"{network}_{executor}.so"
        if (network, executor) not in done:
            command = [sys.executable, "-m", "tvmrt", "compile", digits / f"{network}.onnx",
                       "-o", path, "--executor", executor, "--json"]  # fmt: skip
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            done[network, executor] = json.loads(printed)
        return path, done[network, executor]

    return library


@pytest.mark.slow
@pytest.mark.parametrize(("network", "executor"), CASES, ids=IDS)
def test_compile_reports_a_valid_memory_plan(compiled, network, executor):
    path, report = compiled(network, executor)
    assert report["output"] == str(path)
    assert [value["name"] for value in report["inputs"]] == ["image"]
    assert [value["name"] for value in report["outputs"]] == ["probabilities"]
    assert report["arena_bytes"] <= 1.05 * report["lower_bound_bytes"]
    plan = report["plan"]
    assert max(row["offset"] + row["size"] for row in plan) <= report["arena_bytes"]
    for i, a in enumerate(plan):
        for b in plan[i + 1 :]:
            apart_in_time = a["last"] < b["first"] or b["last"] < a["first"]
            apart_in_memory = (
                a["offset"] + a["size"] <= b["offset"] or b["offset"] + b["size"] <= a["offset"]
            )
            in_place = a["last"] == b["first"] or b["last"] == a["first"]
            assert apart_in_time or apart_in_memory or in_place, (a, b)


@pytest.mark.parametrize(("network", "executor"), CASES, ids=IDS)
def test_inspect_describes_the_library(tvmrt, compiled, network, executor):
    described = json.loads(tvmrt("inspect", "--json", compiled(network, executor)[0]).stdout)
    assert described["executor"] == executor
    assert described["module_name"] == "default"


@pytest.mark.parametrize(("network", "executor"), CASES, ids=IDS)
def test_run_matches_onnxruntime(tvmrt, compiled, digits, inputs, images, tmp_path,
                                          network, executor):  # fmt: skip
    onnxruntime = pytest.importorskip("onnxruntime")
    answer = tmp_path / "out.npz"
    tvmrt("run", compiled(network, executor)[0], "--inputs", inputs, "--outputs", answer)
    session = onnxruntime.InferenceSession(str(digits / f"{network}.onnx"))
    (expected,) = session.run(None, {"image": images[0]})
    with np.load(answer) as outputs:
        assert outputs.files == ["probabilities"]
        (value,) = (outputs[name] for name in outputs.files)
        np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-4)


def test_run_repeats_and_profiles(tvmrt, compiled, inputs):
    library, _ = compiled("digits_f32", "graph")
    report = json.loads(
        tvmrt("run", library, "--inputs", inputs, "--repeat", 7, "--profile", "--json").stdout
    )
    assert len(report["seconds"]) == 7
    assert min(report["seconds"]) > 0
    (output,) = report["outputs"].values()
    assert output["dtype"] == "float32"
    assert sum(output["values"][0]) == pytest.approx(1.0, abs=1e-3)
    assert {"name", "count", "seconds"} <= set(report["operators"][0])
    text = tvmrt("run", library, "--inputs", inputs, "--repeat", 7, "--profile").stdout
    assert re.search(r"7 runs: median .*, fastest .*, p99 .*, slowest ", text)
    assert report["operators"][0]["name"] == "tvmgen_default_conv1_packed"
    rows = [line.split()[0] for line in text.partition("operator ")[2].splitlines()[1:] if line]
    assert (rows[0], rows[-1]) == ("conv1", "all"), "names as the network has them, and a sum"


@pytest.mark.slow
def test_ziglang_is_used_without_another_compiler(tvmrt, digits, inputs, tmp_path):
    pytest.importorskip("ziglang")
    environment = {name: value for name, value in os.environ.items() if name != "CC"}
    environment["PATH"] = str(tmp_path)
    library = tmp_path / "digits.so"
    tvmrt("compile", digits / "digits_f32.onnx", "-o", library, env=environment)
    report = json.loads(tvmrt("run", library, "--inputs", inputs, "--json").stdout)
    assert sum(report["outputs"]["probabilities"]["values"][0]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".tar", ""], ids=["archive", "folder"])
def test_compile_to_sources(tvmrt, digits, tmp_path, suffix):
    path = tmp_path / f"digits{suffix}"
    tvmrt("compile", digits / "digits_f32.onnx", "-o", path)
    tvmrt("compile", digits / "digits_f32.onnx", "-o", path)  # overwrites the first library
    if suffix:
        described = json.loads(tvmrt("inspect", "--json", path).stdout)
        assert described["format"].startswith("Model Library Format")
    else:
        assert any(entry.suffix == ".c" for entry in path.iterdir())


def test_compile_explain_uses_layer_names(tvmrt, digits, tmp_path):
    text = tvmrt(
        "compile", digits / "digits_f32.onnx", "-o", tmp_path / "digits.so", "--explain"
    ).stdout
    for layer in ("conv1", "conv2", "depthwise", "pointwise", "pool", "dense", "softmax"):
        assert layer in text


def test_dump_writes_the_graph_after_every_pass(tvmrt, digits, tmp_path):
    dump = tmp_path / "dump"
    tvmrt("compile", digits / "digits_f32.onnx", "-o", tmp_path / "d.so", "--dump", dump)
    assert len(list(dump.iterdir())) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("network", ["digits_f32", "digits_int8"])
def test_verify_accepts_every_node(tvmrt, digits, inputs, network):
    report = json.loads(
        tvmrt("verify", digits / f"{network}.onnx", "--inputs", inputs, "--json").stdout
    )
    assert report["wrong"] == 0
    assert report["judge"] == "onnxruntime"
    made = {row["tensor"] for row in report["tensors"] if row["part"] == "every node"}
    assert {"conv1_out", "pool_out", "probabilities"} <= made


def test_verify_exit_code_for_a_wrong_result(digits, inputs, monkeypatch, capsys):
    from tvmrt.cli import session, verify

    def off_by_a_little(model, tried, threads, choices):
        (trial,) = tried
        expected = run_onnxruntime(model, trial.inputs, optimise=False)
        return [{**expected, "probabilities": expected["probabilities"] + 0.01}], {}, ()

    monkeypatch.setattr(verify, "_run", off_by_a_little)
    arguments = ["verify", str(digits / "digits_f32.onnx"), "--inputs", str(inputs)]
    assert app.run([*arguments, "--outputs-only"]) == app.WRONG_RESULT
    printed = capsys.readouterr().out
    assert "WRONG" in printed
    assert "0 of 1 tensors agree" in printed
    assert session.THREADS_VARIABLE


@pytest.mark.slow
def test_bench_compares_with_onnxruntime(tvmrt, digits):
    report = json.loads(
        tvmrt(
            "bench", digits / "digits_f32.onnx", digits / "digits_int8.onnx",
            "--against", "onnxruntime", "--seconds", 0.1, "--json",
        ).stdout
    )  # fmt: skip
    assert [network["network"] for network in report["networks"]] == ["digits_f32", "digits_int8"]
    assert report["speed"]["onnxruntime"]["least"] > 0
    for network in report["networks"]:
        assert [t["runtime"] for t in network["timings"]] == ["tvmrt", "onnxruntime"]
        assert network["rounds"] >= 5


def test_bench_prints_the_geometric_mean(tvmrt, digits):
    text = tvmrt("bench", digits / "digits_f32.onnx", "--against", "onnxruntime",
                 "--seconds", 0.1).stdout  # fmt: skip
    assert "times the speed of onnxruntime" in text


def test_config_flags_build_a_program(tvmrt, tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "program.c").write_text(
        "#include <stdio.h>\n#include <tvm/runtime/c_runtime_api.h>\n"
        "int main(void) { puts(TVMGetLastError()); return 0; }\n"
    )
    flags = {name: tvmrt("config", f"--{name}").stdout.split() for name in ("cflags", "libs")}
    program = tmp_path / "program"
    source = tmp_path / "program.c"
    command = [compiler, *flags["cflags"], source, *flags["libs"], "-o", program]
    subprocess.run(command, check=True)
    subprocess.run([program], check=True)


def test_config_names_files_that_exist(tvmrt):
    report = json.loads(tvmrt("config", "--json").stdout)
    assert Path(report["backend_lib"]).name == "libtvm_backend.a"
    assert Path(report["backend_lib"]).is_file()
    assert (Path(report["includes"]) / "tvm" / "runtime" / "c_backend_api.h").is_file()


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_only(tvmrt, digits, tmp_path):
    arguments = ["compile", digits / "digits_f32.onnx", "-o", tmp_path / "digits.so"]
    assert tvmrt(*arguments).stderr == ""
    terminal, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "tvmrt", *map(str, arguments)],
        stdout=subprocess.DEVNULL, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 4096)
        except OSError:  # Linux reports this error when the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    assert done.wait(timeout=300) == 0
    assert b"compile" in shown  # compiling C takes longest
    assert b"start" in shown and b"?" not in shown.split(b"import")[0].replace(b"\x1b[?", b"")


def test_error_for_an_uncompiled_network_says_what_to_do(complaint, digits):
    message = complaint("run", digits / "digits_f32.onnx")
    assert "'tvmrt compile" in message and "then use net.so" in message
