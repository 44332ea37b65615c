"""Sessions of onnxruntime with tvmrt's execution provider."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

onnxruntime = pytest.importorskip("onnxruntime", minversion="1.24")
from ep_case import assert_same, network, session, taken  # noqa: E402

from tvmrt.plugins import onnxruntime_ep  # noqa: E402

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
PAGE = ROOT / "plugins" / "onnxruntime_ep" / "docs" / "use-onnxruntime.md"
RNG = np.random.default_rng(5)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def test_whole_graph_with_attributes_of_each_kind_and_a_body():
    text = """
        net (float[2,3,8,8] x, bool flag) => (float[2,4,8,8] y, int64[2,4] place) {
            c = Conv<auto_pad = "SAME_UPPER", strides = [1, 1]>(x, w, b)
            half = Constant<value = float {0.5}>()
            scaled = Mul(c, half)
            y = If(flag) <
                then_branch = g1 () => (float[2,4,8,8] t) { t = Selu<alpha = 1.5>(scaled) },
                else_branch = g2 () => (float[2,4,8,8] e) { n = Neg(scaled) e = Add(n, b_) }
            >
            m = ReduceMax<axes = [3], keepdims = 0>(y)
            place = ArgMax<axis = 2, keepdims = 0>(m)
        }"""
    body_alone = floats(4, 1, 1)
    model = network(text, w=floats(4, 3, 3, 3), b=floats(4), b_=body_alone)
    ours = session(model)
    (part,) = taken(ours)
    assert "Conv" in part and "If" in part
    for flag in (True, False):
        assert_same(model, ours, x=floats(2, 3, 8, 8), flag=np.array(flag))


def test_parts_of_a_graph_around_nodes_that_tvmrt_lacks():
    text = """
        net (float[4,4] x, string[2] words) => (float[4,4] y, string[2] same) {
            a = Tanh(x)
            b = Mul(a, x)
            c = Add(b, unit)
            same = Identity(words)
            i = com.microsoft.SampleOp(c)
            d = MatMul(c, i)
            e = Exp(d)
            y = Mul(e, b)
        }"""
    model = network(text, unit=np.eye(4, dtype=np.float32))
    ours = session(model)
    parts = [sorted(part) for part in taken(ours)]
    assert sorted(parts) == [["Add", "Mul", "Tanh"], ["Exp", "MatMul", "Mul"]]
    assert_same(model, ours, x=floats(4, 4), words=np.array(["ab", "cd"], object))


def test_open_sizes_with_bounds_and_an_error_beyond_them():
    model = network("""
        net (float[rows,seq,4] x) => (float[rows,seq,4] y, int64[found,3] at) {
            s = Softmax<axis = 1>(x)
            y = Mul(s, x)
            zero = Constant<value = float {0.0}>()
            big = Greater(x, zero)
            n = NonZero(big)
            at = Transpose(n)
        }""")
    ours = session(model, {"dims": "rows=1..4,seq=1..9"})
    assert taken(ours)
    for rows, seq in [(4, 9), (1, 1), (3, 5)]:
        assert_same(model, ours, x=floats(rows, seq, 4))
    with pytest.raises(Exception, match=r"tvmrt: .*seq"):
        ours.run(None, {"x": floats(2, 10, 4)})
    assert_same(model, ours, x=floats(2, 2, 4))  # the session still works


MLP = """
    net (float[5,16] x) => (float[5,8] y) {
        a = MatMul(x, w)
        y = Relu(a)
    }"""


@pytest.fixture(scope="module")
def mlp() -> onnx.ModelProto:
    return network(MLP, w=floats(16, 8))


ALLOWED = {"command": "/bin/false", "allow_compiled": "1"}  # compiled models need no compiler


def context_entries(path: Path) -> dict[str, str]:
    return {"ep.context_enable": "1", "ep.context_file_path": str(path)}


@pytest.mark.parametrize("embedded", ["0", "1"])  # the library is part of the model in both
def test_compiled_model_loads_without_a_compiler(mlp, embedded, tmp_path):
    path = tmp_path / "mlp_ctx.onnx"
    onnx.save(mlp, tmp_path / "mlp.onnx")
    entries = {**context_entries(path), "ep.context_embed_mode": embedded}
    session(tmp_path / "mlp.onnx", entries=entries)
    compiled = onnx.load(path)
    (node,) = compiled.graph.node
    assert node.op_type == "EPContext"
    assert {each.name for each in tmp_path.iterdir()} == {"mlp.onnx", "mlp_ctx.onnx"}
    for source in (path, path.read_bytes()):
        assert_same(mlp, session(source, ALLOWED), x=floats(5, 16))


def test_threads_and_two_sessions_of_memory_with_any_alignment(mlp):
    both = [session(mlp), session(mlp)]
    assert taken(both[0]) == taken(both[1]) == [["MatMul", "Relu"]]
    memory = floats(5 * 16 + 16)
    starts = [memory[i : i + 80].reshape(5, 16) for i in range(16)]

    def run(i: int) -> np.ndarray:
        return both[i % 2].run(None, {"x": starts[i % 16]})[0]

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(run, range(64)))
    weights = numpy_helper.to_array(mlp.graph.initializer[0])
    for i, got in enumerate(results):
        np.testing.assert_allclose(got, np.maximum(starts[i % 16] @ weights, 0), 1e-4, 1e-5)
    with pytest.raises(Exception, match="x"):
        both[0].run(None, {"x": floats(5, 15)})
    del both[0]
    assert_same(mlp, both[0], x=floats(5, 16))


def test_outputs_of_four_bits_are_packed_also_in_memory_of_any_address():
    model = network("""
        net (float[5] x) => (int4[5] y) {
            a = Add(x, x)
            b = Sub(a, x)
            y = Cast<to = 22>(b)
        }""")
    model.ir_version, model.opset_import[0].version = 10, 21
    ours, memory = session(model), np.full(128, 99, np.uint8)
    assert taken(ours)
    start = 4 - memory.ctypes.data % 64 + 64
    binding = ours.io_binding()
    binding.bind_cpu_input("x", np.array([1, 2, 3, -4, 5], np.float32))
    binding.bind_output("y", "cpu", 0, 22, [5], memory.ctypes.data + start)
    ours.run_with_iobinding(binding)
    assert list(memory[start : start + 5]) == [0x21, 0xC3, 0x05, 99, 99]


def test_bools_are_a_byte_each_with_dynamic_sizes_and_in_memory_of_any_address():
    text = """
        net (float[n,4] x) => (bool[n,4] y) {
            zero = Constant<value = float {0.0}>()
            big = Greater(x, zero)
            y = Not(big)
        }"""
    x = floats(33, 4)
    fixed = network(text.replace("n,4", "33,4"))
    assert_same(fixed, session(network(text), {"dims": "n=1..40"}), x=x)
    ours, memory = session(fixed), np.full(300, 99, np.uint8)
    assert taken(ours)
    start = 4 - memory.ctypes.data % 64 + 64
    binding = ours.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y", "cpu", 0, np.bool_, x.shape, memory.ctypes.data + start)
    ours.run_with_iobinding(binding)
    assert (memory[start : start + x.size].reshape(x.shape) == ~(x > 0)).all()
    assert memory[start + x.size] == 99


@pytest.mark.parametrize("kind", ["uint2", "int2", "float8e8m0"])
def test_types_whose_numbers_differ_between_onnx_and_onnxruntime(kind):
    number = getattr(TensorProto, kind.upper())
    model = network(f"""
        net (float[4] x) => ({kind}[4] y, float[4] z) {{
            y = Cast<to = {number}>(x)
            a = Cast<to = 1>(y)
            z = Mul(a, x)
        }}""")
    model.ir_version, model.opset_import[0].version = 12, 25
    ours = session(model)
    assert taken(ours)
    assert list(ours.run(["z"], {"x": np.ones(4, np.float32)})[0]) == [1, 1, 1, 1]


def test_bounds_of_dimensions_are_part_of_a_compiled_model(tmp_path):
    model = network("net (float[n,4] x) => (float[n,4] y) { a = Tanh(x) b = Mul(a, x) y = Neg(b) }")
    small, large = tmp_path / "small ü.onnx", tmp_path / "large ü.onnx"
    session(model, {"dims": "n=1..4"}, context_entries(small))
    session(model, {"dims": "n=1..6"}, context_entries(large))
    assert_same(model, session(large, ALLOWED), x=floats(6, 4))
    with pytest.raises(Exception, match=r"expected 1 to 4; .* dims set to n=1\.\.6 or wider"):
        session(small, ALLOWED).run(None, {"x": floats(6, 4)})


def test_host_that_ignores_its_children_and_registers_in_several_threads(mlp, tmp_path):
    onnx.save(mlp, tmp_path / "mlp.onnx")
    program = f"""
import signal, sys
from concurrent.futures import ThreadPoolExecutor
import onnxruntime
from tvmrt.plugins import onnxruntime_ep
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(8) as pool:
    assert all(pool.map(lambda _: onnxruntime_ep.register(), range(8)))
for dims in ({{}}, {{"dims": "none=1..2"}}):
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    onnxruntime_ep.add_to(options, dims)
    try:
        session = onnxruntime.InferenceSession({str(tmp_path / "mlp.onnx")!r}, options)
    except Exception as error:
        print(error)
    else:
        print({{part.ep_name for part in session.get_provider_graph_assignment_info()}})
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False,
        env={**os.environ, "TVMRT_CACHE": str(tmp_path / "cache")},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "{'tvmrt'}"
    assert "option dims has the value 'none=1..2': the network has no dimension none" in second


def test_a_missing_default_command_leaves_the_graph_to_onnxruntime_and_says_why(mlp, tmp_path):
    onnx.save(mlp, tmp_path / "mlp.onnx")
    program = f"""
import onnxruntime
from tvmrt.plugins import onnxruntime_ep
options = onnxruntime.SessionOptions()
onnxruntime.register_execution_provider_library("tvmrt", onnxruntime_ep.library_path())
devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == "tvmrt"]
options.add_provider_for_devices(devices, {{}})
onnxruntime.InferenceSession({str(tmp_path / "mlp.onnx")!r}, options)
onnxruntime.unregister_execution_provider_library("tvmrt")
print([each.ep_name for each in onnxruntime.get_ep_devices()])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": str(tmp_path)},
    )  # fmt: skip
    assert "tvmrt: the command 'tvmrt' failed (" in done.stderr
    assert "tvmrt" not in done.stdout


def test_the_first_program_of_the_page_works_in_a_process_without_the_runtime():
    # an installed package finds the library without the runtime, which a build folder needs
    program = f"""
import sys
from tvmrt.plugins import onnxruntime_ep
onnxruntime_ep.library_path = lambda: {onnxruntime_ep.library_path()!r}
"""
    program += re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]
    program += "print(probabilities.sum(), 'tvmrt.runtime' in sys.modules)\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    total, has_runtime = done.stdout.split()
    assert abs(float(total) - 1) < 1e-5
    assert has_runtime == "False"


TWO_PARTS = """
    net (float[batch,4] x, float[?,4] more, float[4,4] eye) => (float[batch,4] y, float[rows,4] z) {
        a = Tanh(x)
        b = Softmax(a)
        y = Mul(b, x)
        i = com.microsoft.SampleOp(eye)
        c = MatMul(more, i)
        d = Exp(c)
        z = Mul(d, more)
    }"""
OTHER = "riscv64" if platform.machine() == "aarch64" else "aarch64"
EYE = 2 * np.eye(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("target", "x86-46", "there is no such target; did you mean x86-64?"),
        ("target", "!", "there is no such target; choose from native, host, "),
        ("target", "cortex-m4", "it is for another machine; choose one of this machine"),
        ("target", f"{OTHER}-linux", "it is for another machine; choose one of this machine"),
        ("dims", "betch=1..4", "the network has no dimension betch; did you mean batch?"),
        ("dims", "batch=4..1", "batch=4..1: the bounds of a dimension are two numbers from 0 to "),
        ("dims", "batch", "'batch' does not declare a dimension; write NAME=LOW..HIGH, "),
        ("dims", "batch=rows", "dimension batch depends on rows; declare rows, too"),
        ("dims", "batch=1..2,batch=1..3", "'batch=1..3' declares batch again; declare it once"),
        ("command", "/bin/false", "this command failed (it ended without a message); give the "),
        ("command", "sh -c 'echo \"a word\"; exit 1'", "this command failed (a word); give the "),
        ("min_nodes", "x", None),
        ("min_nodes", "0", None),
        ("min_nodes", "-2", None),
        ("min_nodes", "2.5", None),
        ("min_nodes", "", None),
        ("idle_executors", "-1", None),
        ("idle_executors", "many", None),
    ],
)
def test_a_wrong_value_of_an_option_is_an_error_of_the_session(name, value, reason, capfd):
    with pytest.raises(Exception, match="provider option") as caught:
        session(network(TWO_PARTS), {name: value}, level=2)
    least = int(name == "min_nodes")
    whole = f"; give a whole number from {least} on, such as 3, in digits"
    rest = f": {reason}" if reason else whole
    assert f"tvmrt: the provider option {name} has the value '{value}'{rest}" in str(caught.value)
    assert "--" not in str(caught.value)  # no flags of the command line
    assert "the provider option" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"dims": "batch<=2000000000,more_0<=2000000000"}, "2147483647 elements"),
        ({"command": "sh -c 'kill -9 $$'"}, r"failed \(it was killed\); install tvmrt, give its"),
    ],
)
def test_a_failed_compilation_leaves_the_graph_to_onnxruntime_and_says_why(values, reason, capfd):
    model = network(TWO_PARTS)
    ours = session(model, values, level=2)
    assert re.search(reason, capfd.readouterr().err)
    assert not taken(ours)
    assert_same(model, ours, x=floats(2, 4), more=floats(3, 4), eye=EYE)


def test_bounds_with_spaces_hold_in_the_parts_that_have_the_dimension(tmp_path, monkeypatch):
    model = network(TWO_PARTS)
    monkeypatch.setenv("TVMRT_CACHE", str(tmp_path))
    ours = session(model, {"dims": " batch <= 16, more_0=1..3 , ", "min_nodes": 2})
    assert len(taken(ours)) == 2
    (entry,) = tmp_path.iterdir()
    assert len(list(entry.glob("*.so"))) == 2  # each part is compiled once
    assert_same(model, ours, x=floats(16, 4), more=floats(3, 4), eye=EYE)
    with pytest.raises(Exception, match=r"dimension batch has 17 .*provider option dims"):
        ours.run(None, {"x": floats(17, 4), "more": floats(3, 4), "eye": EYE})


def test_unknown_options_are_errors_that_name_the_known_ones(mlp):
    for name, hint in [
        ("min_node", "did you mean min_nodes"),
        ("DIMS", "did you mean dims"),
        ("threads", "choose from dims, min_nodes, target, command, allow_compiled, idle_executors"),
    ]:
        with pytest.raises(ValueError, match=f"no provider option '{name}'; {hint}"):
            onnxruntime_ep.add_to(onnxruntime.SessionOptions(), {name: "5"})
    options = onnxruntime.SessionOptions()  # those of other languages
    options.add_provider_for_devices(onnxruntime_ep.register(), {"min_node": "5"})
    with pytest.raises(Exception, match="no provider option min_node; choose from dims, "):
        onnxruntime.InferenceSession(mlp.SerializeToString(), options)


BURST = """
import sys, threading
import numpy as np, onnx, onnxruntime
from onnx import parser
from tvmrt.plugins import onnxruntime_ep
model = parser.parse_model('''<ir_version: 8, opset_import: ["" : 17]>
    net (float[1,1024] x) => (float y) {
        column = Transpose(x)
        a = MatMul(column, x)
        b = Softmax<axis = 0>(a)
        c = Transpose(b)
        d = Softmax<axis = 0>(c)
        e = Mul(d, a)
        y = ReduceMax<keepdims = 0>(e)
    }''')
options = onnxruntime.SessionOptions()
onnxruntime_ep.add_to(options, {"idle_executors": sys.argv[1]})
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
x = np.ones((1, 1024), np.float32)

def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

session.run(None, {"x": x})
before = megabytes()
barrier = threading.Barrier(40)

def run():
    barrier.wait()
    session.run(None, {"x": x})

threads = [threading.Thread(target=run) for _ in range(40)]
for each in threads:
    each.start()
for each in threads:
    each.join()
session.run(None, {"x": x})
print(megabytes() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_buffers_of_many_runs_at_once_are_freed_up_to_the_option():
    grown = {}
    for kept in ("0", "2", "40"):
        command = [sys.executable, "-c", BURST, kept]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        grown[kept] = float(done.stdout)
    assert max(grown["0"], grown["2"]) < 60 and grown["40"] > 150, grown


def counted_command(folder: Path) -> tuple[str, Path]:
    """Return a command that runs tvmrt, and a file with a line per start."""
    script, log = folder / "counted", folder / "log"
    script.write_text(f'#!/bin/sh\necho start >> {log}\nexec {sys.executable} -m tvmrt "$@"\n')
    script.chmod(0o755)
    return str(script), log


IN_PROCESS = """
import os, sys
programs = set()
def record(event, values):
    if event == "subprocess.Popen":
        programs.add(os.path.basename(values[1][0]))
sys.addaudithook(record)
import onnxruntime
from tvmrt.plugins import onnxruntime_ep
options = onnxruntime.SessionOptions()
onnxruntime_ep.add_to(options, {"min_nodes": 2})
session = onnxruntime.InferenceSession(sys.argv[1], options)
print("cc" in programs, "tvmrt.compiler.pipeline" in sys.modules)
print(*programs & {"tvmrt", "sh", os.path.basename(sys.executable)})
"""


def test_a_session_compiles_in_its_process_and_a_cached_one_imports_no_compiler(tmp_path):
    onnx.save(network(TWO_PARTS), tmp_path / "net.onnx")
    (tmp_path / "cc").symlink_to(shutil.which("cc") or "cc")
    env = {**os.environ, "TVMRT_CACHE": str(tmp_path / "cache"), "CC": str(tmp_path / "cc")}
    env["PATH"] = f"{tmp_path}{os.pathsep}{Path(shutil.which('ld') or 'ld').parent}"
    lines = [
        subprocess.run(
            [sys.executable, "-c", IN_PROCESS, tmp_path / "net.onnx"],
            capture_output=True, text=True, check=True, env=env,
        ).stdout.splitlines()
        for _ in range(2)
    ]  # fmt: skip
    assert lines == [["True True", ""], ["False False", ""]]
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_session_starts_the_command_once(tmp_path):
    command, log = counted_command(tmp_path)
    model = network(TWO_PARTS)
    ours = session(model, {"command": command, "min_nodes": "2"})
    assert len(taken(ours)) == 2
    assert_same(model, ours, x=floats(3, 4), more=floats(3, 4), eye=EYE)
    assert log.read_text().split() == ["start"]


MIXES_ROWS = {
    "softmax over rows": "y = Softmax<axis = 0>(x)",
    "running sum": "zero = Constant<value = int64 {0}>() y = CumSum(x, zero)",
    "rows reversed": "last = Constant<value = int64[1] {-1}>() "
    "end = Constant<value = int64[1] {-9223372036854775807}>() "
    "axis = Constant<value = int64[1] {0}>() y = Slice(x, last, end, axis, last)",
    "norm over rows": "y = LpNormalization<axis = 0>(x)",
    "gram matrix": "t = Transpose(x) g = MatMul(x, t) y = MatMul(g, x)",
    "number of elements": "n = Size(x) f = Cast<to = 1>(n) y = Mul(x, f)",
    "mean of rows": "m = ReduceMean<axes = [0]>(x) y = Sub(x, m)",
}


@pytest.mark.parametrize("name", MIXES_ROWS)
def test_sizes_beyond_the_bounds_are_errors_with_an_option_that_permits_them(name):
    model = network(f"net (float[N,3] x) => (float[N,3] y) {{ {MIXES_ROWS[name]} }}")
    ours = session(model, {"dims": "N=1..8"})
    assert taken(ours)
    for rows in (8, 9, 3, 0, 40, 1):
        x = floats(rows, 3)
        if 1 <= rows <= 8:
            assert_same(model, ours, x=x)
            continue
        with pytest.raises(Exception, match=f"dimension N has {rows} elements") as caught:
            ours.run(None, {"x": x})
        bounds = re.search(r"dims set to (\S+) or wider bounds", str(caught.value))[1]
        wider = session(model, {"dims": bounds})
        assert taken(wider)
        assert_same(model, wider, x=x)
