"""Search and calls of a C compiler."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tvmrt import plugin, toolchains
from tvmrt.compiler.codegen.target import Target
from tvmrt.error import CompileError
from tvmrt.libinfo import find_include_path
from tvmrt.option_syntax import option

from . import compiler_flags

# Exact results matter more than the last percent: no -ffast-math. The next three do not change
# values that C defines; without them loops with sqrt, min or exp are not vectorised. Functions are
# aligned to cache lines, because the speed of a short loop must not depend on preceding code: a
# network of 5 us took 10 % longer when its matmuls started 16 bytes later.
OPTIMISE = (
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-fopenmp-simd",
    "-DTVMRT_OPENMP_SIMD",
    "-falign-functions=64",
)
# A pointer to another element type or a function without declaration is an error in generated code
# or a custom operator. Older compilers only warn, and the network would fail at run time.
COMMON = (
    "-std=c99",
    "-Werror=incompatible-pointer-types",
    "-Werror=implicit-function-declaration",
    "-fPIC",
    "-fvisibility=hidden",
    "-D_POSIX_C_SOURCE=200809L",
)
OWN_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
# Libraries other than ELF files need the names of imported functions at link time: import_stubs.py.
SYSTEM_FLAGS = {".dll": ("-DTVM_EXPORTS",)}
LINK_FLAGS = {
    ".so": ("-Wl,-z,noexecstack",),
    ".dll": ("-static-libgcc",),
    ".dylib": ("-Wl,-undefined,dynamic_lookup",),
}

# Zig links parts of its C libraries that are not used, with debug information.
ZIG_LINK_FLAGS = {".so": ("-Wl,-S", "-Wl,--gc-sections")}


def find_compiler(cc: str | None = None, triple: str = "") -> list[str]:
    """Return the command of a C compiler: the given one, $CC, cc, gcc, clang, or that of ziglang.

    For another system, named by a triple: the given one, its gcc, or that of ziglang.
    Raises CompileError that says what to install if there is none, or for a given one of another
    system.
    """
    candidates = {option("cc"): cc, "CC": None if triple else toolchains.named_by_environment()}
    for source, candidate in candidates.items():
        if candidate:
            try:
                command = toolchains.words_of(candidate, source)
            except ValueError as error:
                raise CompileError(str(error)) from None
            if shutil.which(command[0]) is None:
                raise CompileError(
                    f"C compiler {command[0]} was not found; install it, or give another one "
                    f"with {option('cc')}"
                )
            command = toolchains.completed(command, triple)
            compiler_flags.check_system(command, triple)
            return command
    if compiler := toolchains.installed(triple):
        return compiler
    if triple:
        gcc = f"{triple}-gcc and " if not triple.endswith("-macos") else ""
        raise CompileError(
            f"no C compiler for {triple} was found (tried {gcc}the ziglang package); install "
            f"one, for example with: {toolchains.INSTALL_CROSS}; or give another with "
            f"{option('cc')}"
        )
    raise CompileError(
        "no C compiler was found (tried $CC, cc, gcc, clang and the ziglang package); install "
        f"one, for example with: {toolchains.INSTALL_CC}"
    )


def further_flags() -> list[str]:
    """Return the options in $TVMRT_CFLAGS, such as ``-O1 -g``, which follow all others."""
    return toolchains.split_words(os.environ.get("TVMRT_CFLAGS", ""), "TVMRT_CFLAGS")


def build_library(
    sources: Sequence[Path],
    output: Path,
    target: Target,
    cc: str | None = None,
    file_flags: Mapping[str, Sequence[str]] | None = None,
    link_flags: Sequence[str] = (),
) -> None:
    """Compile C and assembly files in parallel, and link them to a shared library.

    ``file_flags``: additional flags of single files, by name. The flags in $TVMRT_CFLAGS come
    last.
    Raises CompileError with the compiler's first error when it fails. A plug-in may build the
    libraries of its target instead, by the hook ``build NAME``: a function of ``sources``,
    ``output`` and ``link_flags``.
    """
    if (build := plugin.find("hooks", f"build {target.name}")) is not None:
        build(sources, output, link_flags)
        return
    command = find_compiler(cc, target.triple)
    includes = [f"-I{folder}" for folder in find_include_path()]
    system = target.library_suffix if target.triple else OWN_SUFFIX
    exact = ["-ffp-contract=off"] if target.fixed_order else []  # the last one counts
    flags = [*COMMON, *SYSTEM_FLAGS.get(system, ()), *OPTIMISE, *exact, *includes]
    objects = [source.with_suffix(source.suffix + ".o") for source in sources]

    short_compile = compiler_flags.short_compile(command)
    calls = _Calls()
    from concurrent.futures import ThreadPoolExecutor  # a slow import

    def compile_one(pair: tuple[Path, Path]) -> None:
        source, object_file = pair
        own = (file_flags or {}).get(source.name, ())
        quick = compiler_flags.flags_of_file(short_compile, source)
        options = [*quick, *target.flags, *own]
        compiler = compiler_flags.compiler_for_level(command, target.triple, options)
        files = ["-c", source.name, "-o", object_file.name]
        calls.call([*compiler, *flags, *further_flags(), *files], source.parent)

    # longest first: started last, it would run alone on one processor
    pairs = sorted(zip(sources, objects), key=lambda pair: -pair[0].stat().st_size)
    assembled = [pair for pair in pairs if pair[0].suffix == ".S"]
    with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
        try:
            list(pool.map(compile_one, (pair for pair in pairs if pair not in assembled)))
        except BaseException:
            calls.stop()
            raise
    for pair in assembled:  # the assembler has all weights in memory: run it alone
        compile_one(pair)
    parts = [*(str(o) for o in objects), *link_flags, "-lm"]
    # zig writes more files next to the library
    linked = objects[0].with_name(f"linked{system}") if toolchains.is_zig(command) else output
    link = [*command, "-shared", "-o", str(linked), *parts, *LINK_FLAGS[system]]
    if linked is not output:
        link += ZIG_LINK_FLAGS.get(system, ())
    calls.call(link, linked.parent)
    _check_written(linked, command)
    if linked is not output:
        shutil.copy(linked, output)


def _check_written(library: Path, command: Sequence[str]) -> None:
    """Raise CompileError if a compiler wrote no library."""
    if not library.is_file() or library.stat().st_size == 0:
        raise CompileError(
            f"{toolchains.name_of(command)} reported no error and wrote no library; "
            "choose another C compiler"
        )


class _Calls:
    """Running compilers, which are ended if one fails or on an interrupt."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._stopped = False

    def call(self, command: Sequence[str], folder: Path) -> None:
        """Run a compiler in a folder. Raise CompileError with its first error."""
        with self._lock:
            if self._stopped:
                return
            process = _start(command, folder)
            self._running.add(process)
        with process:
            try:
                stderr = process.communicate()[1]
            except BaseException:
                process.kill()
                raise
            finally:
                with self._lock:
                    self._running.discard(process)
        if process.returncode != 0:
            raise CompileError(
                f"C compiler {toolchains.name_of(command)} failed with code {process.returncode}: "
                f"{_first_error(stderr)}"
            )

    def stop(self) -> None:
        """End running compilers, and start no others."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


def run_compiler(command: Sequence[str], folder: Path) -> None:
    """Run a compiler in a folder. Raise CompileError with its first error."""
    _Calls().call(command, folder)


def _start(command: Sequence[str], folder: Path) -> subprocess.Popen:
    try:
        return subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, errors="replace",
            env=toolchains.environment(command, folder),
            preexec_fn=_child_settings(),  # noqa: PLW1509 - one call of the system
        )  # fmt: skip
    except OSError as problem:
        name = toolchains.name_of(command)
        raise CompileError(f"C compiler {name} cannot be run: {problem}") from problem


def _child_settings() -> Callable[[], object] | None:
    """Return what a compiler's process does first: where this program ignores the ends of its
    children, the compiler, which waits for its own ones, must not inherit that."""
    child = getattr(signal, "SIGCHLD", None)  # None on Windows
    if child is None or signal.getsignal(child) is not signal.SIG_IGN:
        return None
    return lambda: signal.signal(child, signal.SIG_DFL)


_LINKER_FAILED = ("ld returned", "linker command failed")  # of gcc, of clang


def _first_error(log: str) -> str:
    """Return the first error of a compiler's log, with a note that explains it.

    If the linker failed, the compiler's message about that follows the linker's own reason.
    """
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for i, line in enumerate(lines):
        if i and any(words in line for words in _LINKER_FAILED):
            return lines[i - 1]
    first = next((i for i, line in enumerate(lines) if "error" in line), 0)
    messages = lines[first : first + 1] or ["no message"]
    for line in lines[first + 1 :]:
        if "error:" in line or "warning:" in line:
            break
        if "note:" in line:
            return f"{messages[0]} ({line})"
    return messages[0]
