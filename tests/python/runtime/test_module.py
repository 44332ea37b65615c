"""Modules: functions, imports, files, measurements, pickling."""

from __future__ import annotations

import pickle
import subprocess
import sys
import tarfile
import time

import libraries
import numpy as np
import pytest
from archives import deep_archive

import tvmrt
from tvmrt.runtime import BenchmarkResult, load_module


def test_function_by_name(toolbox):
    assert toolbox["add3"](1, 2, 3) == 6
    assert toolbox.get_function("add3")(1, 2, 3) == 6
    assert toolbox.implements_function("add3")
    assert not toolbox.implements_function("subtract3")


def test_missing_function(toolbox):
    with pytest.raises(AttributeError, match="'subtract3'"):
        toolbox["subtract3"]
    with pytest.raises(ValueError, match="must be a str"):
        toolbox[3]


def test_entry_function(toolbox):
    assert toolbox() == 42
    assert toolbox.entry_func() == 42


def test_module_repr_and_type(toolbox):
    assert toolbox.type_key == "library"
    assert toolbox.is_runnable
    assert toolbox.imported_modules == []
    assert "library" in repr(toolbox)
    assert isinstance(toolbox.get_source(), str)


def test_functions_keep_the_module(toolbox_path):
    add = load_module(toolbox_path)["add3"]
    assert add(1, 2, 3) == 6


def test_imports(toolbox_path, tmp_path):
    copy = tmp_path / "copy.so"
    copy.write_bytes(toolbox_path.read_bytes())
    outer, inner = load_module(toolbox_path), load_module(copy)
    outer.import_module(inner)
    assert outer.imported_modules == [inner]
    with pytest.raises(ValueError, match="cycle"):
        inner.import_module(outer)
    with pytest.raises(TypeError, match="Module is needed"):
        outer.import_module("inner")
    outer.clear_imports()
    assert outer.imported_modules == []


def test_embedded_tree(graph_library):
    module = load_module(graph_library)
    assert module.type_key == "GraphExecutorFactory"
    (library,) = module.imported_modules
    assert library.type_key == "library"
    assert module.get_function("tvmgen_default_sum", query_imports=True)


BAD_FILES = {
    "absent": (None, "", FileNotFoundError),
    "text.so": (b"not a library", "", (tvmrt.TVMError, OSError)),
    "empty.so": (b"", "", (tvmrt.TVMError, OSError)),
    "file.unknown": (b"", "", (tvmrt.TVMError, ValueError)),
    "no_suffix": (b"", "", (tvmrt.TVMError, ValueError)),
    "text.tar": (b"not an archive", "", ValueError),
    "deep.tar": (deep_archive(), "", ValueError),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_file_is_named(tmp_path, name):
    content, fmt, kind = BAD_FILES[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(kind, match=name) as caught:
        load_module(tmp_path / name, fmt)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="the files are for other systems than Linux")
@pytest.mark.everyday(1)
@pytest.mark.parametrize(
    ("name", "first", "system"),
    [("net.dll", b"MZ", "Windows"), ("net.dylib", b"\xcf\xfa\xed\xfe", "macOS")],
)
def test_a_library_of_another_system_is_named(tmp_path, name, first, system):
    (tmp_path / name).write_bytes(first.ljust(500, b"\0"))
    sentence = rf"{name}: it is a library for {system}, this machine is Linux \S+; compile it"
    for load in (load_module, tvmrt.load):
        with pytest.raises(OSError, match=sentence):
            load(tmp_path / name)


def test_suffixes_may_be_in_capitals(toolbox_path, tmp_path):
    copy = tmp_path / "COPY.SO"
    copy.write_bytes(toolbox_path.read_bytes())
    assert load_module(copy)["add3"](1, 2, 3) == 6


def test_loader_in_python(toolbox, tmp_path):
    class Damaged(Exception):
        pass

    def load(path, fmt):
        if (tmp_path / "a.shopfmt").read_bytes() == b"bad":
            raise Damaged(path)
        return toolbox

    tvmrt.register_func("runtime.module.loadfile_shopfmt", load)
    try:
        (tmp_path / "a.shopfmt").write_bytes(b"good")
        assert load_module(tmp_path / "a.shopfmt")["add3"](1, 2, 3) == 6
        (tmp_path / "a.shopfmt").write_bytes(b"bad")
        with pytest.raises(Damaged, match="shopfmt"):
            load_module(tmp_path / "a.shopfmt")
    finally:
        tvmrt.runtime.remove_global_func("runtime.module.loadfile_shopfmt")


@pytest.mark.parametrize("kind", ["GraphExecutorFactory", "const_loader", "device_region"])
def test_kinds_of_the_runtime_are_found_like_those_of_plugins(kind):
    load = tvmrt.get_global_func(f"runtime.module.loadbinary_{kind}")
    with pytest.raises(
        TypeError, match=f"loadbinary_{kind}: argument 0 must be a stream, got an int"
    ):
        load(1)


def test_a_library_is_loaded_without_the_plugins(toolbox_path):
    """To read what they add takes longer than to load a library."""
    program = (
        "import sys; from tvmrt.runtime import load_module; load_module(sys.argv[1]); "
        "print([name for name in sys.modules if name.startswith('tvmrt.plugins.')])"
    )
    command = [sys.executable, "-c", program, toolbox_path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_path_with_nul():
    with pytest.raises(ValueError, match=r"NUL|null byte"):
        load_module("a\0b.so")


def test_load_object_file(tmp_path):
    source = libraries.DATA / "network.c"
    includes = [f"-I{folder}" for folder in tvmrt.libinfo.find_include_path()]
    target = tmp_path / "network.o"
    subprocess.run(["cc", "-c", "-fPIC", *includes, source, "-o", target], check=True)
    assert load_module(target).implements_function("tvmgen_default_sum")


def test_load_archive_of_sources(tmp_path):
    with tarfile.open(tmp_path / "network.tar", "w") as tar:
        tar.add(libraries.DATA / "network.c", "network.c")
    module = load_module(tmp_path / "network.tar")
    assert module.implements_function("tvmgen_default_sum")


def test_archive_with_path_traversal(tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        tar.add(libraries.DATA / "network.c", "../../network.c")
    with pytest.raises(ValueError, match="points outside"):
        load_module(tmp_path / "evil.tar")


# ---- measuring ----


def test_time_evaluator(toolbox):
    begin = time.perf_counter()
    result = toolbox.time_evaluator("sleep_ms", tvmrt.cpu(0), number=2, repeat=3)(5)
    seconds = time.perf_counter() - begin
    assert isinstance(result, BenchmarkResult)
    assert len(result.results) == 3
    assert 0.005 <= result.min <= result.median <= result.max
    assert 2 * sum(result.results) <= seconds
    assert "Execution time summary" in str(result)


def test_time_evaluator_reaches_min_repeat_ms(toolbox):
    evaluate = toolbox.time_evaluator("nothing", tvmrt.cpu(0), number=1, min_repeat_ms=20)
    begin = time.perf_counter()
    mean = evaluate().mean
    seconds = time.perf_counter() - begin
    assert 0 < mean <= seconds and seconds >= 0.02


def test_time_evaluator_refuses_more_calls_than_can_be_counted(toolbox):
    evaluate = toolbox.time_evaluator("nothing", tvmrt.cpu(0), number=1, min_repeat_ms=1 << 62)
    with pytest.raises(ValueError, match="more calls than can be counted: reduce"):
        evaluate()


def test_time_evaluator_reports_errors(toolbox):
    with pytest.raises(ValueError, match="too cold"):
        toolbox.time_evaluator("raise_error", tvmrt.cpu(0))("ValueError: too cold")
    with pytest.raises(KeyError, match="no_such"):
        toolbox.time_evaluator("no_such", tvmrt.cpu(0))


def test_benchmark_result_numbers():
    result = BenchmarkResult([3.0, 1.0, 2.0])
    assert (result.mean, result.median, result.min, result.max) == (2, 2, 1, 3)
    np.testing.assert_allclose(result.std, np.std([1, 2, 3]))


# ---- pickling ----


def test_pickled_module_runs_elsewhere(graph_library, tmp_path):
    (tmp_path / "module.pickle").write_bytes(pickle.dumps(load_module(graph_library)))
    program = (
        "import pickle, sys, numpy as np, tvmrt\n"
        "module = pickle.loads(open(sys.argv[1], 'rb').read())\n"
        "module = pickle.loads(pickle.dumps(module))\n"
        "ex = tvmrt.contrib.graph_executor.GraphModule(module['default'](tvmrt.cpu(0)))\n"
        "ex.run(x=np.ones((2, 3), np.float32))\n"
        "print(ex.get_output(1).numpy().tolist())\n"
    )
    command = [sys.executable, "-c", program, tmp_path / "module.pickle"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    _, z = libraries.expected(np.ones((2, 3)))
    np.testing.assert_allclose(eval(done.stdout), z, rtol=1e-6)


def test_made_module_says_why_it_cannot_be_pickled(graph_library):
    executor = load_module(graph_library)["default"](tvmrt.cpu(0))
    with pytest.raises(TypeError, match="not loaded from a file"):
        pickle.dumps(executor)


def test_changed_file_is_not_pickled(toolbox_path, tmp_path):
    copy = tmp_path / "copy.so"
    copy.write_bytes(toolbox_path.read_bytes())
    module = load_module(copy)
    other = tmp_path / "other.so"
    other.write_bytes(b"changed")
    other.replace(copy)
    with pytest.raises(OSError, match="changed since"):
        pickle.dumps(module)


def test_function_is_not_pickled(toolbox):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(toolbox["add3"])


CONTEXT_SOURCE = """
#include <tvm/runtime/c_backend_api.h>
TVM_DLL void* __tvm_module_ctx = 0;
TVM_DLL int ask(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* resource) {
  TVMFunctionHandle function;
  (void)args, (void)codes, (void)n, (void)resource;
  if (TVMBackendGetFuncFromEnv(__tvm_module_ctx, "tests.context.answer", &function) != 0) return -1;
  return TVMFuncCall(function, 0, 0, 0, out, out_code);
}
"""


def test_a_library_loaded_twice_keeps_its_context(tmp_path):
    source, path = tmp_path / "context.c", tmp_path / "context.so"
    source.write_text(CONTEXT_SOURCE)
    includes = [f"-I{folder}" for folder in tvmrt.libinfo.find_include_path()]
    subprocess.run(["cc", "-shared", "-fPIC", *includes, source, "-o", path], check=True)
    tvmrt.register_func("tests.context.answer", lambda: 42, override=True)
    first, second = load_module(path), load_module(path)
    assert first["ask"]() == second["ask"]() == 42
    del second
    assert first["ask"]() == 42
    third = load_module(path)
    del first
    assert third["ask"]() == 42


@pytest.mark.parametrize("suffix", ["c", "cc", ""])
def test_source_has_the_format_that_it_was_made_with(suffix):
    made = tvmrt.get_global_func("runtime.CSourceModuleCreate")("int x;", suffix, [])
    assert made.format == suffix
