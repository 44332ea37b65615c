"""The runtime and networks for Windows, made by MinGW and run by Wine."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt import rpc
from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import WINDOWS_LEVELS
from tvmrt.compiler.export import dialects
from tvmrt.compiler.export import library as export_library
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

ort = pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits"
COMPILER = "x86_64-w64-mingw32-gcc"
# What loads libraries, starts threads, writes files, and calls.
C_TESTS = ("executors", "many_threads", "refusals")
FIXTURES = ("graph", "const", "flat", "aot", "aot_pools", "plain", "llvm")


def _need(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def _compile(name: str, folder: Path, **options) -> Path:
    _need(COMPILER)
    path = folder / f"{name}.dll"
    tvmrt.compile(DIGITS / f"{name}.onnx", target="x86_64-windows", **options).export(path)
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the runtime, the example of a C program, and some C tests."""
    _need(f"{COMPILER}-posix", "meson", "ninja", "wine")
    build = tmp_path_factory.mktemp("windows")
    cross = str(ROOT / "cross" / "x86_64-windows.ini")
    setup = ["meson", "setup", str(build), str(ROOT), "--cross-file", cross, "-Dpython=disabled"]
    subprocess.run([*setup, "--buildtype=plain"], check=True, stdout=subprocess.DEVNULL)
    programs = ["run_network", *(f"test_{name}" for name in C_TESTS)]
    files = [f"{name}.exe" for name in programs] + [f"fixture_{name}.dll" for name in FIXTURES]
    table = (build / "src_runtime" / "plugins.txt").read_text().splitlines()
    plugins = sorted({line.split()[1] for line in table if line and line[0] != "#"})
    targets = [*(f"tests/c/{f}" for f in files), *(f"src_runtime/{name}" for name in plugins)]
    subprocess.run(["ninja", "-C", str(build), *targets], check=True)
    return build


@pytest.fixture(scope="module")
def wine(built, tmp_path_factory):
    """Run a program there; what it printed."""
    prefix = tmp_path_factory.mktemp("wine")
    libraries = [
        built / "src_runtime",
        *sorted(Path("/usr/lib/gcc/x86_64-w64-mingw32").glob("*-posix")),
    ]
    path = ";".join(f"Z:{folder}" for folder in [*libraries, Path("/usr/x86_64-w64-mingw32/lib")])
    variables = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEPATH": path}
    for fixture in (built / "tests" / "c").glob("fixture_*.dll"):
        variables[fixture.stem.upper()] = str(fixture)

    def run(*command: str, code: int = 0, level: str = "") -> str:
        done = subprocess.run(
            ["wine", *command],
            env={**run.environment, "TVMRT_LEVEL": level},
            capture_output=True,
            timeout=600,
            check=False,
        )
        said = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        assert done.returncode == code, said
        return said.replace("\r", "")

    run.environment = {**os.environ, **variables}
    yield run
    subprocess.run(["wineserver", "-k"], env=run.environment, check=False)


def _program(built: Path, source: Path) -> str:
    """A program of one source, linked with the runtime there."""
    program = source.with_suffix(".exe").name
    command = [f"{COMPILER}-posix", f"-I{ROOT / 'include'}", str(source)]
    link = [f"-L{built / 'src_runtime'}", "-ltvm_runtime", "-o", program]
    subprocess.run([*command, *link], check=True, cwd=built)
    return str(built / program)


@pytest.fixture
def far_server(built, wine, tmp_path):
    """The port of a server there: the program of the page on remote calls."""
    page = (ROOT / "plugins" / "rpc" / "docs" / "rpc.md").read_text(encoding="utf-8")
    source = tmp_path / "server.c"
    text = re.search(r"cat > server\.c <<'END'\n(.*?\n)END\n", page, re.DOTALL)[1]
    source.write_text(text)
    command = ["wine", _program(built, source), "key"]
    environment = wine.environment
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as server:
        yield int(server.stdout.readline().split()[1])
        server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("name", C_TESTS)
def test_c_tests_pass(built, wine, name):
    wine(str(built / "tests" / "c" / f"test_{name}.exe"))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["graph", "aot", "assembler"])
def test_a_network_is_right_there(built, wine, case, tmp_path, monkeypatch):
    """Against onnxruntime here, at the digits that the program prints; at two levels."""
    if case == "assembler":  # as of networks whose tree is large
        monkeypatch.setattr(export_library, "LARGEST_C_ARRAY", 0)
    executor = "aot" if case == "aot" else "graph"
    levels = ["v2", "v3"] if case == "graph" else ["v2"]
    library = _compile("digits_f32", tmp_path, executor=executor, levels=levels)
    session = ort.InferenceSession(DIGITS / "digits_f32.onnx")
    (wanted,) = session.get_inputs()
    image = np.random.default_rng(5).random(wanted.shape, np.float32)
    image.tofile(tmp_path / "image.bin")
    program = built / "tests" / "c" / "run_network.exe"
    (expected,) = session.run(None, {wanted.name: image})
    for level in levels[: 2 if "avx2" in processor.flags() else 1]:
        arguments = [str(library), f"{wanted.name}={tmp_path / 'image.bin'}"]
        said = wine(str(program), *arguments, level=level)
        printed = re.search(r"output 0: float32 \(1, 10\) (.*) \.\.\.", said)[1].split()
        found = np.array(printed, np.float32)
        np.testing.assert_allclose(found, expected[0, :8], rtol=2e-5, atol=1e-6, err_msg=level)
    if case == "aot":
        refusal = "TVMRT_LEVEL demands v3, which is not there: this library has code for v2, and"
        assert refusal in wine(str(program), *arguments, code=2, level="v3")


@pytest.mark.slow
def test_a_library_of_linux_is_refused_by_a_sentence(built, wine, tmp_path):
    library = tmp_path / "net.so"
    tvmrt.compile(DIGITS / "digits_f32.onnx").export(library)
    said = wine(str(built / "tests" / "c" / "run_network.exe"), str(library), code=2)
    assert "it is no library of Windows for x86-64; compile it for the target" in said


@pytest.mark.slow
def test_remote_calls_are_served_there(wine, far_server, tmp_path):
    """What is compiled and uploaded here runs there, and can be uploaded again meanwhile."""
    library = _compile("digits_f32", tmp_path, levels=["v2"])
    session = ort.InferenceSession(DIGITS / "digits_f32.onnx")
    image = np.random.default_rng(5).random((1, 1, 8, 8), np.float32)
    (expected,) = session.run(None, {"image": image})
    with pytest.raises(TVMError, match="cannot find server that matches"):
        rpc.connect("127.0.0.1", far_server)
    remote = rpc.connect("127.0.0.1", far_server, "key")
    remote.upload(library)
    loaded = remote.load_module(library.name)
    network = graph_executor.GraphModule(loaded["default"](remote.cpu()))
    network.set_input("image", tvmrt.nd.array(image, remote.cpu()))
    network.run()
    np.testing.assert_allclose(network.get_output(0).numpy(), expected, rtol=2e-5, atol=1e-6)
    remote.upload(b"another one", library.name)
    with pytest.raises(TVMError, match="an older library of that path is in use; release what"):
        remote.load_module(library.name)
    assert remote.download(library.name) == b"another one"
    assert remote.listdir() == [library.name]
    with pytest.raises(TVMError, match="none: No such file or directory"):
        remote.remove("none")
    folder = Path(remote.get_function("tvm.rpc.server.workpath")("x").replace("\\", "/")).parent
    (folder,) = Path(wine.environment["WINEPREFIX"]).glob(f"drive_c/users/*/Temp/{folder.name}")
    remote.close()
    rpc.connect("127.0.0.1", far_server, "key").close()
    assert not folder.exists(), "it goes with its session"
    for seconds in (1, 4, 16):  # a busy machine may begin too late for a short one
        with contextlib.suppress(TVMError):
            again = rpc.connect("127.0.0.1", far_server, "key", session_timeout=seconds)
            assert again.listdir() == []
            break
    time.sleep(seconds + 0.1)
    with pytest.raises(TVMError, match=r"time of the session is over|has closed the connection"):
        again.listdir()


@pytest.mark.slow
def test_clients_there_reach_servers_here(built, wine):
    program = _program(built, Path(__file__).parent / "far_client.c")
    server = rpc.Server(key="key", silent=True)
    try:
        said = wine(program, "127.0.0.1", str(server.port), "key")
        assert said == "the session has ten.txt,\n"
        refused = wine(program, "127.0.0.1", str(server.port), "other", code=1)
        assert "cannot find server that matches key=other" in refused
    finally:
        server.terminate()
    nobody = wine(program, "127.0.0.1", str(server.port), "key", code=1)
    assert re.search(r"cannot connect to 127\.0\.0\.1:\d+: \w", nobody)


@pytest.mark.slow
def test_it_asks_for_nothing_but_the_system(tmp_path):
    library = _compile("digits_int8", tmp_path, levels=["v2"])
    tables = subprocess.run(
        ["x86_64-w64-mingw32-objdump", "-p", library], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"DLL Name: (\S+)", tables)) == {"KERNEL32.dll", "msvcrt.dll"}
    assert re.search(r"\] __tvm_dev_mblob$", tables, re.MULTILINE)
    assert str(tmp_path) not in library.read_bytes().decode("latin-1")


@pytest.mark.slow
def test_levels_ask_for_no_place_of_vectors_on_the_stack(tmp_path):
    """GCC does not keep them at multiples of their size there; a move that wants it would end the
    program."""
    library = _compile("digits_int8", tmp_path, levels=["v3", "v4vnni"])
    command = ["x86_64-w64-mingw32-objdump", "-d", "--no-show-raw-insn", library]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    moves = set(re.findall(r"\s(vmov\w+) .*%[yz]mm\d+,\S*\(%r", code))
    assert moves
    assert not [name for name in moves if re.match(r"vmov(ap[sd]|dqa)", name)]


def test_what_gcc_alone_is_told_other_compilers_are_not():
    flags = WINDOWS_LEVELS[1].flags
    assert len(dialects.speak(["clang-14"], flags)) == len(flags) - 1
    assert dialects.speak(["x86_64-w64-mingw32-gcc"], flags) == list(flags)


def test_its_file_has_the_suffix_of_the_system(tmp_path):
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", target="x86_64-windows")
    with pytest.raises(ValueError, match=r"net.so: a library for x86_64-windows is a .dll file; w"):
        library.export_library(tmp_path / "net.so")


def test_public_headers_are_read_by_the_dialect_of_msvc(tmp_path):
    """As clang-cl sees them; without a C library, so that only what is ours is read."""
    _need("clang")
    names = ["c_runtime_api.h", "c_backend_api.h", "metadata.h", "device.h", "module_plugin.h"]
    functions = (
        "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n"
        "void *memset(void *, int, size_t);\nsize_t strlen(const char *);\n"
        "int strcmp(const char *, const char *);\n"
        "int strncmp(const char *, const char *, size_t);\n"
        "size_t strspn(const char *, const char *);\n"
    )
    (tmp_path / "string.h").write_text(functions)
    source = tmp_path / "all.c"
    source.write_text("".join(f"#include <tvm/runtime/{name}>\n" for name in names))
    command = ["clang", "--target=x86_64-windows-msvc", "-fsyntax-only", "-ffreestanding"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fms-compatibility", "-fno-gnu-keywords"]
    subprocess.run(
        [*command, *flags, f"-I{ROOT / 'include'}", "-I.", source], check=True, cwd=tmp_path
    )
