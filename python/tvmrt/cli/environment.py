"""Checks of this machine, and what to install if something is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from tvmrt import optional_dependencies, plugin, toolchains

CHECKED_SECONDS = 10  # time limit for a compiler to print its version


@dataclass(frozen=True)
class Check:
    """One check.

    ``state``: `ok`, `absent` (if optional) or `missing` (if nothing works without). ``remedy``:
    What to install, or empty.
    """

    what: str
    state: str
    found: str
    remedy: str = ""


# Purpose: program and the Debian packages that provide it.
TOOLS = {
    "Cortex-M boards": ("arm-none-eabi-gcc", "gcc-arm-none-eabi picolibc-arm-none-eabi"),
    "RISC-V boards": (
        "riscv64-unknown-elf-gcc", "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
    ),
    "emulated Cortex-M": ("qemu-system-arm", "qemu-system-arm"),
    "emulated RISC-V": ("qemu-system-riscv32", "qemu-system-misc"),
}  # fmt: skip
# Purpose: triple and the Debian packages of a cross compiler; the ziglang package has all of them.
CROSS_TOOLS = {
    "Linux on aarch64": ("aarch64-linux-gnu", "gcc-aarch64-linux-gnu"),
    "Linux on riscv64": ("riscv64-linux-gnu", "gcc-riscv64-linux-gnu clang"),
    "Linux on armv7": ("arm-linux-gnueabihf", "gcc-arm-linux-gnueabihf"),
    "Windows on x86-64": ("x86_64-w64-mingw32", "gcc-mingw-w64-x86-64"),
    "macOS": ("aarch64-macos", ""),
}  # fmt: skip
# Purpose: module and the Python package that provides it.
MODULES = {
    "the command line": ("click", "click"),
    "compile": ("onnx", "onnx"),
    "verify and bench": ("onnxruntime", "onnxruntime"),
    "verify .tflite": ("ai_edge_litert", "ai-edge-litert"),
    "report": ("jinja2", "jinja2"),
    "models of scikit-learn": ("skl2onnx", "skl2onnx"),
    "share with tvm-ffi": ("tvm_ffi", "apache-tvm-ffi"),
}


def examine() -> list[Check]:
    """Return all checks, the most important first."""
    return [*_versions(), *_compilers(), _processor(), _target(), *_tools(), *_modules(),
            *_devices(), *_plugins()]  # fmt: skip


def _versions() -> Iterator[Check]:
    from tvmrt.libinfo import __version__

    yield Check("tvmrt", "ok", __version__)
    yield Check("Python", "ok", f"{platform.python_version()} on {platform.platform()}")
    yield Check("numpy", "ok", _installed_version("numpy") or "version unknown")


def _compilers() -> Iterator[Check]:
    """Check the C compiler, and what runs networks without one: one of both is enough."""
    from tvmrt.compiler.export.toolchain import find_compiler
    from tvmrt.error import CompileError

    pack = plugin.find("hooks", "kernel pack")
    reason = "no plug-in has it" if pack is None else pack.why_missing()
    try:
        yield Check("C compiler", "ok", _version_of(find_compiler()))
    except CompileError as problem:
        yield Check("C compiler", "missing" if reason else "absent", "nothing", str(problem))
    if reason:
        yield Check("kernel pack", "absent", "nothing", reason)
    else:
        yield Check(
            "kernel pack", "ok", f"runs networks without a C compiler: {pack.find_pack().level}"
        )


def _version_of(command: list[str]) -> str:
    """Return the first line of a program's version text, or why it failed."""
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, errors="replace",
            timeout=CHECKED_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"{' '.join(command)} cannot be run: {problem}"
    lines = done.stdout.strip().splitlines()
    name = "zig of the ziglang package" if "ziglang" in command else " ".join(command)
    return f"{name}: {lines[0] if lines else 'no version'}"


def _processor() -> Check:
    from tvmrt.compiler import processor

    flags = processor.flags()
    vectors = [name for name in ("avx2", "fma", "avx512f", "avx512_vnni", "avx512vbmi", "amx_int8",
                                 "asimd", "asimddp", "sve") if name in flags]  # fmt: skip
    description = f"{processor.machine()}: {', '.join(vectors) or 'no vectors'}"
    return Check("processor", "ok", description)


def _target() -> Check:
    """Check the default target."""
    from tvmrt.compiler.codegen.target import default_target, get_target

    try:
        target = get_target(default_target())
    except ValueError as problem:
        return Check("target", "missing", "nothing", str(problem))
    levels = ", ".join(level.name for level in target.levels)
    return Check("target", "ok", f"{target.name}: {levels}" if levels else target.name)


def _tools() -> Iterator[Check]:
    for what, (program, package) in TOOLS.items():
        found = shutil.which(program)
        if found:
            yield Check(what, "ok", found)
        else:
            yield Check(what, "absent", f"no {program}", f"apt-get install {package}")
    for what, (triple, package) in CROSS_TOOLS.items():
        command = toolchains.installed(triple)
        if toolchains.is_zig(command):
            yield Check(what, "ok", "the ziglang package")
        elif command:
            yield Check(what, "ok", str(shutil.which(command[0])))
        else:
            remedy = toolchains.INSTALL_CROSS
            debian = f", or apt-get install {package}" if package else ""
            yield Check(what, "absent", "no cross compiler", f"{remedy}{debian}")


def _modules() -> Iterator[Check]:
    for what, (module, package) in MODULES.items():
        if importlib.util.find_spec(module) is None:
            yield Check(
                what, "absent", f"no {module}", f"pip install {_to_install(module, package)}"
            )
        else:
            yield Check(what, "ok", f"{package} {_installed_version(package)}".strip())


def _to_install(module: str, package: str) -> str:
    """Return the extra with all packages of a feature, or the package if no extra has it."""
    extra = optional_dependencies.EXTRAS.get(module)
    return package if extra is None else f"'tvmrt[{extra[1]}]'"


def _installed_version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _devices() -> Iterator[Check]:
    from tvmrt.cli.known_devices import described

    for row in described():
        what = f"device {row.name}"
        if row.absent is None:
            yield Check(what, "ok", row.text)
        else:
            yield Check(what, "absent", "cannot run here", row.absent)


def _plugins() -> Iterator[Check]:
    """Report the plug-ins in use, and those that are not used with the reason."""
    for each in plugin.plugins().values():
        yield Check(f"plug-in {each.name}", "ok", each.summary)
    for left in plugin.unused():
        yield Check(f"plug-in {left.name}", "absent", left.reason)
