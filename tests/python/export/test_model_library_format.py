"""Model Library Format archives: layout, metadata, and C files that build and run alone."""

from __future__ import annotations

import json
import subprocess
import tarfile

import pytest
from archives import unpack
from small_network import small_network

import tvmrt
from tvmrt.libinfo import find_include_path


@pytest.fixture(params=["graph", "aot"])
def archive(request, tmp_path):
    library = tvmrt.compile(small_network(), executor=request.param, module_name="net")
    library.export(tmp_path / "net.tar")
    unpack(tmp_path / "net.tar", tmp_path / "net")
    return library, tmp_path / "net"


def test_metadata_gives_sizes_of_memory_and_tensors(archive):
    library, folder = archive
    found = json.loads((folder / "metadata.json").read_text())
    assert found["version"] == 7
    module = found["modules"]["net"]
    main = module["memory"]["functions"]["main"][0]
    assert main["workspace_size_bytes"] == library.summary.arena_bytes
    assert main["inputs"] == {"x": {"size": 3 * 9 * 11 * 4, "dtype": "float32"}}
    assert main["outputs"] == {"output": {"size": 20, "dtype": "float32"}}
    assert module["executors"] == [library.options.executor]


def test_every_source_compiles(archive):
    _, folder = archive
    sources = sorted((folder / "codegen/host/src").glob("*.c"))
    assert sources
    includes = [f"-I{f}" for f in find_include_path()] + [f"-I{folder}/codegen/host/include"]
    for source in sources:
        command = ["cc", "-std=c99", "-c", "-O0", *includes, str(source), "-o", "/dev/null"]
        subprocess.run(command, check=True, capture_output=True)


def test_tar_owner_and_names_match_old_archives(tmp_path):
    tvmrt.compile(small_network(), executor="aot").export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as tar:
        for member in tar.getmembers():
            assert member.name.startswith("./")
            assert (member.uid, member.gid, member.uname) == (0, 0, "root")


BOARD = {"target": "cortex-m4", "module_name": "net"}


def unpacked(library, folder):
    library.export(folder / "net.tar")
    return unpack(folder / "net.tar", folder / "net")


def test_a_firmware_archive_has_what_project_generators_look_for(tmp_path):
    folder = unpacked(tvmrt.compile(small_network(), **BOARD), tmp_path)
    module = json.loads((folder / "metadata.json").read_text())["modules"]["net"]
    (dependency,) = module["external_dependencies"]
    assert dependency["short_name"] == "tvm_standalone_crt"
    assert (dependency["url"], dependency["url_type"]) == ("./runtime", "mlf_path")
    assert (folder / "runtime/include/tvm/runtime/crt/platform.h").is_file()
    assert (folder / "runtime/src_backend/workspace.c").is_file()
    assert module["target"] == ["c -keys=cpu -device=cortex-m4"]
    functions = module["memory"]["functions"]
    main = functions["main"][0]
    assert main["device"] == 1
    assert main["workspace_size_bytes"] == sum(p["used_bytes"] for p in module["memory"]["pools"])
    assert main["io_size_bytes"] == 3 * 9 * 11 * 4 + 20
    names = {row["function_name"] for row in functions["operator_functions"]}
    sources = "".join(p.read_text() for p in (folder / "codegen/host/src").glob("*.c"))
    assert names
    assert all(f"int32_t {name}(" in sources for name in names)
    for row in functions["operator_functions"]:
        (workspace,) = row["workspace"]
        assert row["live_size_bytes"] >= workspace["workspace_size_bytes"]


def test_aot_archive_has_no_graph_reader(tmp_path):
    folder = unpacked(tvmrt.compile(small_network(), **BOARD), tmp_path)
    files = {path.name for path in (folder / "runtime/src_runtime/firmware").rglob("*.[ch]")}
    assert {"aot_executor.c", "tensor_size.c"} <= files
    assert not {"json.c", "graph_executor.c", "graph_read.c", "graph.h", "json.h"} & files
    assert not list((folder / "runtime/include").rglob("graph*.h"))


@pytest.mark.parametrize("name", ["platform.c", "crt_config.h"])
def test_templates_compile_as_they_are(tmp_path, name):
    folder = unpacked(tvmrt.compile(small_network(), **BOARD), tmp_path)
    (folder / name).write_text((folder / f"templates/{name}.template").read_text())
    (folder / "main.c").write_text(f'#include "{name}"\n#include <tvm/runtime/crt/platform.h>\n')
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I.", "-Iruntime/include"]
    for more in ([], ["-DTVM_WORKSPACE_SIZE_BYTES=64"]):
        command = ["cc", *flags, *more, "-c", "main.c", "-o", "/dev/null"]
        subprocess.run(command, cwd=folder, check=True)


def test_compiled_parts_and_flags_of_devices_travel_with_it(tmp_path):
    (tmp_path / "part.c").write_text("int vendor_part(void) { return 7; }\n")
    subprocess.run(["cc", "-c", "part.c", "-o", "part.o"], cwd=tmp_path, check=True)
    options = {"target": "host", "runtime": "crt", "executor": "aot", "module_name": "net"}
    library = tvmrt.compile(small_network(), **options)
    library.sources.objects["vendor_part.o"] = (tmp_path / "part.o").read_bytes()
    library.sources.files["vendor.c"] = "#if !VENDOR\n#error\n#endif\nint vendor(void);\n"
    library.sources.flags["vendor.c"] = ("-DVENDOR=1",)
    folder = unpacked(library, tmp_path)
    assert (folder / "codegen/host/lib/vendor_part.o").is_file()
    subprocess.run(["make", "-s", "CC=cc", "AR=ar"], cwd=folder, check=True)
    names = subprocess.run(
        ["nm", "libnet.a"], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
    assert "vendor_part" in names
    assert "tvmgen_net_run" in names
