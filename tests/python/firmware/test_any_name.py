"""Any name of a tensor or node gives C and C++ that compiles, after any included headers.

The words come from the compilers: all macros, functions and types of the headers of C and POSIX,
the keywords of the standards, and all words of generated files.
"""

import functools
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.libinfo import find_include_path

C = dict(target="cortex-m4", interface_api="c", unpacked_api=True)

C_HEADERS = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp
    signal stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string
    threads time uchar wchar wctype""".split()
POSIX_HEADERS = """aio arpa/inet cpio dirent dlfcn fcntl fmtmsg fnmatch ftw glob grp iconv langinfo
    libgen monetary mqueue net/if netdb netinet/in netinet/tcp nl_types poll pthread pwd regex
    sched search semaphore spawn strings sys/ipc sys/mman sys/msg sys/resource sys/select sys/sem
    sys/shm sys/socket sys/stat sys/statvfs sys/time sys/times sys/types sys/uio sys/un sys/utsname
    sys/wait syslog tar termios ulimit unistd utime utmpx wordexp""".split()

# ISO/IEC 9899:2024, 6.4.1 with the spellings of older editions, and ISO/IEC 14882:2023, [lex.key].
C_KEYWORDS = """alignas alignof asm auto bool break case char const constexpr continue default do
    double else enum extern false float for fortran goto if inline int long nullptr register
    restrict return short signed sizeof static static_assert struct switch thread_local true
    typedef typeof typeof_unqual union unsigned void volatile while _Alignas _Alignof _Atomic
    _BitInt _Bool _Complex _Decimal128 _Decimal32 _Decimal64 _Generic _Imaginary _Noreturn
    _Static_assert _Thread_local _Pragma __func__ __asm__ __typeof__ __attribute__""".split()
CPP_KEYWORDS = """and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return
    co_yield compl concept consteval constinit const_cast decltype delete dynamic_cast explicit
    export final friend import module mutable namespace new noexcept not not_eq operator or or_eq
    override private protected public reinterpret_cast requires static_cast template this throw
    try typeid typename using virtual wchar_t xor xor_eq""".split()

# Other names in the network: letters of other scripts, an empty name, names that collide.
STRANGE = ["größe", "输入", "grÖße", "a.b", "a/b", "a:b", "A.B", "x" * 5000, "y" + "x" * 5000,
           "end */ x", "2nd", "//", "a\nb", "a??/b", '"', "output", "output0", "workspace", "main",
           "conv_packed", "conv", "w_conv", "at_conv", "run", "INPUT", "X", "I", "PI"]  # fmt: skip


def including(headers) -> str:
    return "".join(
        f"#if __has_include(<{h}.h>)\n#include <{h}.h>\n#endif\n" for h in sorted(headers)
    )


def preprocessed(compiler: str, *flags: str) -> str:
    posix = POSIX_HEADERS if "-DPOSIX" in flags else []
    command = [compiler, *flags, "-E", "-x", "c", "-"]
    text = including([*C_HEADERS, *posix])
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False).stdout


@functools.lru_cache(maxsize=1)
def words() -> list[str]:
    """Return object-like macros, and every other word of the preprocessed headers."""
    found = {*C_KEYWORDS, *CPP_KEYWORDS, *STRANGE, *mentioned()}
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    flags = [["-std=c99"], ["-std=gnu17"], ["-std=gnu11", "-D_XOPEN_SOURCE=700", "-DPOSIX"],
             ["-std=c11", "-D_GNU_SOURCE", "-DPOSIX"]]  # fmt: skip
    for compiler in compilers or ["cc"]:
        for row in flags:
            macros = preprocessed(compiler, *row, "-dM")
            found.update(re.findall(r"^#define (\w+)(?![\w(])", macros, re.M))
    declared = preprocessed("cc", "-std=gnu11", "-D_XOPEN_SOURCE=700", "-DPOSIX")
    found.update(re.findall(r"\b[A-Za-z_]\w*", re.sub(r"^#.*$", "", declared, flags=re.M)))
    return sorted(found)


def few_words() -> list[str]:
    """Return names that a rule by shape does not match, and some that it does."""
    chosen = {*C_KEYWORDS, *CPP_KEYWORDS, *STRANGE, "NULL", "INT8_MAX", "SIZE_MAX", "TVM_DLL"}
    return sorted(chosen | {w for w in words()[::16] if not w.isupper()} | mentioned())


@functools.lru_cache(maxsize=1)
def mentioned() -> set[str]:
    """Return all words of the generated files of some networks."""
    found = set()
    board = dict(target="cortex-m4")
    hosts = dict(target="host"), dict(target="host", executor="aot")
    for options in (*hosts, C, board, {**board, "executor": "graph"}):
        with tempfile.TemporaryDirectory() as folder:
            tvmrt.compile(network(["a", "b", "c", "d"]), **options).export_sources(folder)
            text = "".join(path.read_text() for path in Path(folder).glob("*.[ch]"))
        code = re.sub(r'/\*.*?\*/|"[^"]*"', " ", text, flags=re.S)
        found.update(re.findall(r"\b[A-Za-z_]\w*", code))
    return found


def network(names):
    """Return a network in which each name is an input's, or an output's and a node's."""
    count = (len(names) + 1) // 2
    inputs, outputs = names[:count], names[count:]
    outputs += ["the last one"] * (count - len(outputs))
    nodes = [helper.make_node("Softmax", [a], [b], name=b) for a, b in zip(inputs, outputs)]
    infos = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2]) for n in row]
        for row in (inputs, outputs)
    ]
    graph = helper.make_graph(nodes, "g", *infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def checked(folder, language, compiler, standard, headers, extra=()) -> None:
    """Check that the generated C files compile, and the user's header after all other headers."""
    flags = [*extra, f"-I{folder}", f"-I{find_include_path()[0]}", "-fsyntax-only", "-w"]
    user = folder / f"user.{language}"
    user.write_text(including(headers) + '#include "tvmgen_net.h"\n')
    files = [user] if language == "cpp" else [user, *sorted(folder.glob("tvmgen_*.c"))]
    for file in files:
        command = [compiler, f"-std={standard}", *flags, file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        assert done.returncode == 0, "\n".join(errors[:10])


DIALECTS = [
    ("gcc", "c99", "c", C_HEADERS, ()),
    ("gcc", "gnu11", "c", [*C_HEADERS, *POSIX_HEADERS], ("-D_GNU_SOURCE",)),
    ("clang", "c11", "c", C_HEADERS, ()),
    ("gcc", "gnu2x", "c", C_HEADERS, ()),
    ("clang", "gnu17", "c", [*C_HEADERS, *POSIX_HEADERS], ()),
    ("g++", "c++11", "cpp", C_HEADERS[:1], ()),
    ("g++", "gnu++17", "cpp", POSIX_HEADERS, ()),
    ("clang++", "c++20", "cpp", POSIX_HEADERS, ()),
    (
        "arm-none-eabi-gcc",
        "gnu11",
        "c",
        [h for h in C_HEADERS if h != "threads"],
        ("--specs=picolibc.specs",),
    ),
]


@pytest.fixture(scope="module")
def structs(tmp_path_factory):
    """Return sources with C structs of a network of every word."""
    folder = tmp_path_factory.mktemp("structs")
    tvmrt.compile(network(words()), module_name="net", **C).export(folder)
    return folder


@pytest.mark.everyday(2)
@pytest.mark.parametrize("compiler, standard, language, headers, extra", DIALECTS,
                         ids=[f"{row[0]}-{row[1]}" for row in DIALECTS])  # fmt: skip
def test_structs_of_any_names_compile(structs, compiler, standard, language, headers, extra):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    probe = subprocess.run([compiler, *extra, "-E", "-x", "c", "-"], input="#include <stdio.h>\n",
                           capture_output=True, text=True, check=False)  # fmt: skip
    if probe.returncode:
        pytest.skip(f"{compiler} has no C library")
    checked(structs, language, compiler, standard, headers, extra)


@pytest.mark.everyday(3)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(dict(target="cortex-m4"), id="packed"),
        pytest.param(dict(target="cortex-m4", unpacked_api=True), id="packed-interface"),
        pytest.param(dict(target="cortex-m4", executor="graph"), id="graph"),
        pytest.param({**C, "workspace_io": True}, id="workspace-io"),
        pytest.param({**C, "record": True}, id="record"),
    ],
)
def test_other_interfaces_of_any_names_compile(tmp_path, options):
    tvmrt.compile(network(few_words()), module_name="net", **options).export(tmp_path)
    checked(tmp_path, "c", "gcc", "gnu11", C_HEADERS)


HOSTS = [dict(executor=e, params=p) for e in ("graph", "aot") for p in ("embed", "file")]


@pytest.mark.slow
@pytest.mark.parametrize("options", HOSTS, ids=[f"{o['executor']}-{o['params']}" for o in HOSTS])
def test_libraries_of_any_names_compile(tmp_path, options):
    library = tvmrt.compile(network(few_words()), target="host", **options)
    library.export_sources(tmp_path)
    for file in sorted(tmp_path.glob("tvmgen_*.c")):
        command = ["cc", "-std=gnu11", f"-I{find_include_path()[0]}", "-fsyntax-only", "-w", file]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:600]


def test_a_network_of_such_names_computes(tmp_path):
    names = ["NULL", "INT8_MAX", "TVM_DLL", "resource_handle", "a.b", "a/b", "asm", "w_x"]
    library = tvmrt.compile(network(names), target="host")
    library.export(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = GraphModule(module["default"](tvmrt.cpu(0)))
    x = np.array([[0.0, np.log(3.0)]], np.float32)
    for name in names[:4]:
        executor.set_input(name, x)
    executor.run()
    for i in range(4):
        np.testing.assert_allclose(executor.get_output(i).numpy(), [[0.25, 0.75]], rtol=1e-6)
