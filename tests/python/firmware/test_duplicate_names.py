"""Networks of equal names in one program: the compiler or the linker reports the conflict."""

from __future__ import annotations

import re
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from firmware_program import CALL_C, CALL_PACKED, DIGITS, build, program_text, run

import tvmrt
from tvmrt.compiler.export.firmware_build import runtime_sources

F32, INT8 = DIGITS / "digits_f32.onnx", DIGITS / "digits_int8.onnx"
C = {"target": "cortex-m4", "interface_api": "c", "unpacked_api": True}
PACKED = {"target": "cortex-m4"}
GRAPH = {"target": "cortex-m4", "executor": "graph"}
RUNTIME = tvmrt.libinfo.find_include_path()
SECTIONS = ["-ffunction-sections", "-fdata-sections"]
TWICE = r"tvmgen_net_\w+_is_linked_twice_compile_one_with_another_module_name"
OTHER = r"tvmgen_net_\w+_needs_the_library_of_this_header_[0-9a-f]{8}"

CALL_GRAPH = """\
static int32_t call_{name}(void *in, void *out) {{
  TVMGraphExecutor *executor;
  (void)out;
  return tvmgen_{name}_graph_create(in, 4096, &executor);
}}
"""
CALL_CHECKED = """\
static int32_t call_{name}(void *in, void *out) {{
  struct tvmgen_{name}_sizes sizes = {{0, 0}};
  (void)in;
  (void)out;
  return tvmgen_{name}_run_checked(NULL, NULL, &sizes);
}}
"""
CALL_STEP = """\
static int32_t call_{name}(void *in, void *out) {{
  struct tvmgen_{name}_step_state state;
  (void)in;
  (void)out;
  return tvmgen_{name}_step_begin(&state, NULL, NULL);
}}
"""
CALLS = [
    pytest.param(C, CALL_C, id="run"),
    pytest.param(C, CALL_CHECKED, id="run_checked"),
    pytest.param(C, CALL_STEP, id="step_begin"),
    pytest.param(PACKED, CALL_PACKED, id="packed-run"),
    pytest.param(GRAPH, CALL_GRAPH, id="graph_create"),
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a folder with a static library of a network called net, built once."""
    made = {}

    def folder(path, options):
        key = (path, *sorted(options.items()))
        if key not in made:
            made[key] = tmp_path_factory.mktemp("net")
            tvmrt.compile(path, module_name="net", **options).export(made[key])
            archive(made[key], "libnet.a")
        return made[key]

    return folder


def archive(folder, name):
    """Build a static library of a folder's C files; return its path."""
    flags = ["-std=c99", *SECTIONS, *(f"-I{path}" for path in RUNTIME)]
    sources = sorted(folder.rglob("*.c"))
    subprocess.run(["cc", "-c", *flags, *sources], cwd=folder, check=True)
    subprocess.run(["ar", "rcs", name, *sorted(folder.glob("*.o"))], cwd=folder, check=True)
    return folder / name


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """Return the firmware libraries as one; only graph networks use it."""
    folder = tmp_path_factory.mktemp("runtime")
    for name, text in runtime_sources(["graph"]).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return archive(folder, "libruntime.a")


def caller(folder, header_folder, call, function, command=("cc", "-std=c99", "-Wall", "-Werror")):
    """Return an object with a function that calls the network through a folder's header."""
    name = "user.cc" if "++" in command[0] else "user.c"
    source, target = folder / f"{function}_{name}", folder / f"{function}.o"
    extern = 'extern "C" ' if "++" in command[0] else ""
    source.write_text(
        "#include <stddef.h>\n#include <tvmgen_net.h>\n"
        + call.format(name="net", pools="")
        + f"{extern}int {function}(void *p);\n"
        + f"int {function}(void *p) {{ return call_net(p, p); }}\n"
    )
    flags = [f"-I{path}" for path in [header_folder, *RUNTIME]]
    subprocess.run([*command, *SECTIONS, *flags, "-c", source, "-o", target], check=True)
    return target


def link(folder, objects, libraries, command=("cc",)):
    """Return the linker's messages; empty on success."""
    calls = " + ".join(f"{o.stem}(buffer)" for o in objects)
    declared = "".join(f"int {o.stem}(void *p);\n" for o in objects)
    main = folder / "main.c"
    main.write_text(
        f"{declared}static double buffer[1024];\nint main(void) {{ return {calls}; }}\n"
    )
    done = subprocess.run(
        [*command, main, *objects, *libraries, "-lm",
         "-Wl,--gc-sections", "-o", folder / "main"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode == 0) == (not done.stderr), done.stderr
    return done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options, call", CALLS)
def test_archives_of_two_networks_do_not_link(compiled, runtime, tmp_path, options, call):
    first, second = compiled(F32, options), compiled(INT8, options)
    users = [caller(tmp_path, first, call, "one"), caller(tmp_path, second, call, "two")]
    libraries = [folder / "libnet.a" for folder in (first, second)]
    needed = [runtime] if options is GRAPH else []
    assert link(tmp_path, users[:1], [libraries[0], *needed]) == ""
    assert re.search(OTHER, link(tmp_path, users[:1], [libraries[1], *needed]))
    message = link(tmp_path, users, [*libraries, *needed])
    assert re.search(TWICE, message)
    assert link(tmp_path, users[:1], [*libraries, *needed]) == ""


def test_objects_of_two_networks_do_not_link(compiled, tmp_path):
    folders = [compiled(path, C) for path in (F32, INT8)]
    objects = [path for folder in folders for path in sorted(folder.glob("*.o"))]
    user = caller(tmp_path, folders[0], CALL_C, "one")
    assert re.search(TWICE, link(tmp_path, [user], objects))


@pytest.mark.parametrize("options", [C, PACKED, GRAPH], ids=["c", "packed", "graph"])
def test_headers_of_two_networks_are_refused_in_one_file(compiled, tmp_path, options):
    first, second = compiled(F32, options), compiled(INT8, options)
    include = '#include "{}/tvmgen_net.h"\n'
    flags = ["-fsyntax-only", *(f"-I{path}" for path in RUNTIME)]

    def message(*folders):
        (tmp_path / "user.c").write_text("".join(map(include.format, folders)))
        done = subprocess.run(
            ["cc", *flags, "user.c"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.stderr

    assert message(first, first) == ""
    words = "two networks are called tvmgen_net: compile one of them with another --module-name"
    assert words in message(first, second)


def test_both_names_are_aliases_of_one_function(compiled):
    folder = compiled(INT8, C)
    text = subprocess.run(
        ["nm", folder / "tvmgen_net_lib0.o"], capture_output=True, text=True, check=True
    ).stdout
    places = {name: place for place, _, name in (row.split() for row in text.splitlines()
                                                 if len(row.split()) == 3)}  # fmt: skip
    (other,) = (name for name in places if re.fullmatch(OTHER, name))
    assert places[other] == places["tvmgen_net_run"]


def test_programs_that_declare_the_function_by_themselves_link(compiled, tmp_path, images, golden):
    folder = compiled(INT8, C)
    text = program_text(["net"], "c").replace(
        "#include <tvmgen_net.h>",
        """
struct tvmgen_net_inputs { void *image; };
struct tvmgen_net_outputs { void *output; };
int32_t tvmgen_net_run(struct tvmgen_net_inputs *, struct tvmgen_net_outputs *);
#define TVMGEN_NET_IMAGE_SIZE 256
#define TVMGEN_NET_OUTPUT_SIZE 40
""",
    )
    (tmp_path / "main.c").write_text(text)
    found = run(build(tmp_path, [tmp_path / "main.c", folder / "libnet.a"], []), images, 10)
    np.testing.assert_allclose(found, golden(INT8), rtol=2e-4, atol=1e-6)


OTHER_COMPILERS = [
    pytest.param(("g++", "-Wall", "-Werror"), id="c++"),
    pytest.param(("g++", "-std=c++98", "-Wall", "-Werror"), id="c++98"),
    pytest.param(("clang", "-std=c99", "-Wall", "-Werror"), id="clang"),
    pytest.param(("cc", "-std=c99", "-O0"), id="unoptimised"),
]


@pytest.mark.parametrize("command", OTHER_COMPILERS)
def test_other_compilers_and_languages_refer_to_the_same_name(compiled, tmp_path, command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    first, second = compiled(INT8, C), compiled(F32, C)
    user = caller(tmp_path, first, CALL_C, "one", command)
    assert link(tmp_path, [user], [first / "libnet.a"]) == ""
    assert re.search(OTHER, link(tmp_path, [user], [second / "libnet.a"]))


def test_libraries_optimised_at_link_time_keep_both_names(tmp_path):
    command = ("cc", "-std=c99", "-flto", "-O2")
    folder = tmp_path / "net"
    tvmrt.compile(INT8, module_name="net", **C).export(folder)
    flags = [f"-I{path}" for path in RUNTIME]
    sources = sorted(folder.glob("*.c"))
    subprocess.run([*command, "-c", *flags, *sources], cwd=folder, check=True)
    user = caller(tmp_path, folder, CALL_C, "one", command)
    assert link(tmp_path, [user], sorted(folder.glob("*.o")), command) == ""


def number(path, **options):
    header = tvmrt.compile(path, module_name="net", **C, **options).sources.files["tvmgen_net.h"]
    return re.search(r"CHECKSUM 0x([0-9a-f]{8})", header)[1]


def test_the_checksum_is_that_of_the_network():
    model = onnx.load(F32)
    assert number(F32) == number(F32)
    bias = next(t for t in model.graph.initializer if t.name == "dense_bias")
    values = onnx.numpy_helper.to_array(bias).copy()
    values[0] += 1
    bias.CopyFrom(onnx.numpy_helper.from_array(values, bias.name))
    numbers = {number(F32), number(model), number(F32, pools={"sram": 1 << 16}), number(INT8)}
    assert len(numbers) == 4


def test_images_of_one_name_have_their_own_memory(tmp_path):
    names = (("a", "b"), ("c", "d"))
    libraries = []
    for (small, large), folder in zip(names, (tmp_path / "first", tmp_path / "second")):
        tvmrt.compile_together({small: INT8, large: F32}, **C).export(folder)
        libraries.append(archive(folder, "libimage.a"))
    text = "".join(f"int tvmgen_{n}_run(void *, void *);\n" for n in "ad")
    text += "int main(void) { return tvmgen_a_run(0, 0) == tvmgen_d_run(0, 0); }\n"
    (tmp_path / "main.c").write_text(text)
    program = tmp_path / "main"
    subprocess.run(["cc", tmp_path / "main.c", *libraries, "-lm", "-o", program], check=True)
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"tvmgen_image_workspace_[0-9a-f]{8}", symbols)) == 2
    (tmp_path / "both.c").write_text(
        '#include "first/tvmgen_image.h"\n#include "second/tvmgen_image.h"\n'
    )
    done = subprocess.run(
        ["cc", "-fsyntax-only", "both.c"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    words = "two images are called tvmgen_image: compile one of them with another --image-name"
    assert words in done.stderr
