"""The firmware libraries in other builds: cross compilers, CMake, Meson, Zephyr."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tvmrt.libinfo import find_cmake_path, find_firmware_path

ROOT = Path(__file__).resolve().parents[3]
BARE = (path.stem for path in (ROOT / "packaging" / "cross").glob("*.ini"))
SYSTEMS = ("-linux", "-windows", "-macos")  # these are not bare-metal processors
CROSS = sorted(name for name in BARE if not name.endswith(SYSTEMS))
EVERYDAY = ("cortex-m4", "riscv32imc")
# Functions of a freestanding environment, and those that the image may supply.
OPTIONAL = {"TVMSystemLibEntryPoint", "TVMPlatformTimerStart", "TVMPlatformTimerStop"}
SUPPLIED = {"memcpy", "memset", "memcmp", *OPTIONAL}

MAIN = """\
#include <stdio.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/graph_arena.h>
#include <tvm/runtime/platform.h>

static uint8_t memory[256];

int main(void) {
  static const TVMModule module = {NULL};
  TVMGraphExecutor *ex;
  tvmrt_workspace_init(memory, sizeof(memory));
  if (TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32) == NULL) return 1;
#ifdef WITH_FIRMWARE
  if (tvmrt_graph_create("{", 1, &module, NULL, 0, &ex, NULL) != kTvmErrorGraphArenaNull) return 2;
#else
  (void)ex;
  (void)module;
#endif
  printf("%d\\n", (int)tvmrt_workspace_peak_bytes());
  return 0;
}
"""


def need(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


def run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def cross_build(target: str, folder: Path) -> str:
    """Configure and build; return the prefix of the compiler's tools."""
    file = ROOT / "packaging" / "cross" / f"{target}.ini"
    compiler = re.search(r"^c = '(.*)-gcc'", file.read_text(), re.MULTILINE)[1]
    need(f"{compiler}-gcc", "meson", "ninja")
    run("meson", "setup", folder, ROOT, "--cross-file", file, "-Dwerror=true")
    run("ninja", "-C", folder)
    return compiler


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    [pytest.param(t, marks=() if t in EVERYDAY else pytest.mark.slow) for t in CROSS],
)
def test_the_libraries_are_freestanding(target, tmp_path):
    """Every called function is in the libraries, in the compiler's own library, or in SUPPLIED."""
    tool = cross_build(target, tmp_path)
    archives = [tmp_path / "src_backend/libtvm_backend.a",
                tmp_path / "src_runtime/firmware/libtvm_firmware.a"]  # fmt: skip
    symbols = run(f"{tool}-nm", *archives)
    defined = set(re.findall(r"^[0-9a-f]+ [A-Zu] (\w+)$", symbols, re.MULTILINE))
    called = set(re.findall(r"^\s+[Uw] (\w+)$", symbols, re.MULTILINE))
    assert {name for name in called - defined if not name.startswith("__")} <= SUPPLIED
    assert "tvmrt_graph_create" in defined and "TVMBackendAllocWorkspace" in defined


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    """Return the installed folder: that of the package, or of an in-place build."""
    found = Path(find_firmware_path())
    if found != ROOT:
        return found
    folder = tmp_path_factory.mktemp("installed")
    cross_build("cortex-m4", folder / "build")
    environment = ["env", f"DESTDIR={folder / 'root'}"]
    run(*environment, "meson", "install", "-C", folder / "build", "--no-rebuild")
    (found,) = (folder / "root").glob("**/tvmrt/firmware")
    return found


def test_the_package_has_the_folder(sources):
    """In a source tree, the sources are at its top, the build files in ``packaging``."""
    found = Path(find_firmware_path())
    build_files = found / "packaging" if found == ROOT else found
    for part in ("src_backend", "src_runtime/firmware", "include"):
        installed = {p.relative_to(sources) for p in (sources / part).rglob("*.[ch]")}
        assert installed <= {p.relative_to(found) for p in (found / part).rglob("*.[ch]")}
    for file in ("zephyr/module.yml", "cmake/tvmrt-firmware-config.cmake"):
        assert (build_files / file).is_file() and (sources / file).is_file()
    assert Path(find_cmake_path()) == build_files / "cmake"
    assert (sources / "meson.build").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("way, library", [("include", "backend"), ("find_package", "firmware")])
def test_cmake_add_subdirectory(sources, way, library, tmp_path):
    need("cmake", "cc")
    line = f"include({sources}/cmake/tvmrt-firmware-config.cmake)"
    if way == "find_package":
        line = f"find_package(tvmrt-firmware REQUIRED CONFIG PATHS {sources}/cmake)"
    define = "target_compile_definitions(app PRIVATE WITH_FIRMWARE)" if library != "backend" else ""
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.13)\nproject(app C)\n{line}\n"
        f"add_executable(app main.c)\ntarget_link_libraries(app PRIVATE tvmrt::{library})\n{define}"
    )
    (tmp_path / "main.c").write_text(MAIN)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    built = run("cmake", "--build", tmp_path / "build")
    assert ("tvm_firmware" in built) == (library == "firmware")
    assert run(tmp_path / "build" / "app") == "112\n"


@pytest.mark.slow
def test_cmake_builds_it_for_a_board(sources, tmp_path):
    need("cmake", "arm-none-eabi-gcc")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\n"
        f"include({sources}/cmake/tvmrt-firmware-config.cmake)\n"
    )
    options = {
        "CMAKE_SYSTEM_NAME": "Generic",
        "CMAKE_C_COMPILER": "arm-none-eabi-gcc",
        "CMAKE_C_FLAGS": "-mcpu=cortex-m4 -mthumb -ffreestanding -Werror -Wall -Wextra",
        "CMAKE_TRY_COMPILE_TARGET_TYPE": "STATIC_LIBRARY",
    }
    build = tmp_path / "build"
    run("cmake", "-S", tmp_path, "-B", build, *(f"-D{k}={v}" for k, v in options.items()))
    run("cmake", "--build", build, "--target", "tvm_firmware")
    for name in ("libtvm_backend.a", "libtvm_firmware.a"):
        assert "elf32-littlearm" in run("arm-none-eabi-objdump", "-a", build / name)


@pytest.mark.slow
@pytest.mark.parametrize("library", ["backend", "firmware"])
def test_meson_subproject(sources, library, tmp_path):
    need("meson", "ninja", "cc")
    (tmp_path / "subprojects").mkdir()
    (tmp_path / "subprojects" / "tvmrt-firmware").symlink_to(sources)
    args = "['-DWITH_FIRMWARE']" if library == "firmware" else "[]"
    (tmp_path / "meson.build").write_text(
        "project('app', 'c')\ntvmrt = subproject('tvmrt-firmware')\n"
        f"executable('app', 'main.c', c_args: {args},\n"
        f"  dependencies: tvmrt.get_variable('tvm_{library}_dep'))\n"
    )
    (tmp_path / "main.c").write_text(MAIN)
    run("meson", "setup", tmp_path / "build", tmp_path)
    run("ninja", "-C", tmp_path / "build")
    assert run(tmp_path / "build" / "app") == "112\n"


# The commands of Zephyr's build that the module uses, with their definitions.
ZEPHYR = """\
cmake_minimum_required(VERSION 3.20)
project(app C)
set(CONFIG_TVMRT y)
set(CONFIG_TVMRT_FIRMWARE {firmware})
add_library(zephyr_interface INTERFACE)
function(zephyr_include_directories)
  target_include_directories(zephyr_interface INTERFACE ${{ARGV}})
endfunction()
macro(zephyr_library_named name)
  set(ZEPHYR_CURRENT_LIBRARY ${{name}})
  add_library(${{name}} STATIC)
  target_link_libraries(${{name}} PUBLIC zephyr_interface)
endmacro()
function(zephyr_library_sources)
  target_sources(${{ZEPHYR_CURRENT_LIBRARY}} PRIVATE ${{ARGV}})
endfunction()
add_subdirectory({folder} module)
add_executable(app main.c)
target_link_libraries(app PRIVATE tvmrt)
{define}
"""


@pytest.mark.slow
@pytest.mark.parametrize("firmware", ["y", "n"])
def test_zephyr_module(sources, firmware, tmp_path):
    need("cmake", "cc")
    module = (sources / "zephyr" / "module.yml").read_text()
    folder = sources / re.search(r"^  cmake: (\S+)", module, re.MULTILINE)[1]
    kconfig = (sources / re.search(r"^  kconfig: (\S+)", module, re.MULTILINE)[1]).read_text()
    used = set(re.findall(r"CONFIG_(\w+)", (folder / "CMakeLists.txt").read_text()))
    assert used == set(re.findall(r"^config (\w+)", kconfig, re.MULTILINE))
    define = "target_compile_definitions(app PRIVATE WITH_FIRMWARE)" if firmware == "y" else ""
    text = ZEPHYR.format(firmware=firmware, folder=folder, define=define)
    (tmp_path / "CMakeLists.txt").write_text(text)
    (tmp_path / "main.c").write_text(MAIN)
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")
    assert run(tmp_path / "build" / "app") == "112\n"


def test_zephyrs_configuration_offers_the_parts(sources):
    kconfiglib = pytest.importorskip("kconfiglib")
    found = kconfiglib.Kconfig(str(sources / "zephyr/Kconfig"))
    whole, part = found.syms["TVMRT"], found.syms["TVMRT_FIRMWARE"]
    assert whole.type == part.type == kconfiglib.BOOL and not found.warnings
    part.set_value("y")  # prj.conf enables it without its dependency
    assert (whole.str_value, part.str_value) == ("n", "n")
    whole.set_value("y")
    assert (whole.str_value, part.str_value) == ("y", "y")
    assert all(node.prompt and node.help for sym in (whole, part) for node in sym.nodes)
