"""Run static analysis on the C sources: gcc -fanalyzer, clang-tidy and cppcheck must find nothing.

Usage: lint.py BUILD_FOLDER [gcc|clang-tidy|cppcheck ...]

BUILD_FOLDER is one that meson has set up: its compile_commands.json contains the compile commands.
A false alarm is explained by a comment on the line or the line above, which begins with `lint:` and
gives the reason. A tool that is not installed is named and skipped.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [ROOT / "include", ROOT / "src_backend", ROOT / "src_runtime", ROOT / "python" / "src"]
FOLDERS += sorted(ROOT.glob("plugins/*/src"))
JOBS = 2


class Finding(NamedTuple):
    """A tool's message about a line of one of our files."""

    path: Path
    line: int
    text: str

    def is_answered(self) -> bool:
        lines = self.path.read_text().splitlines()
        near = lines[max(self.line - 2, 0) : self.line]
        return any("/* lint: " in line for line in near)

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.text}"


def ours(path: Path) -> bool:
    return any(folder in path.parents for folder in FOLDERS)


def read_findings(text: str, folder: Path, pattern: str) -> set[Finding]:
    """Return the findings that `pattern` matches in a tool's output: groups path, line, text."""
    found = set()
    for path, line, message in re.findall(pattern, text, re.MULTILINE):
        resolved = (folder / path).resolve()
        if ours(resolved):
            found.add(Finding(resolved, int(line), message))
    return found


def run(command: list[str], folder: Path) -> str:
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


def commands(build: Path) -> dict[Path, list[str]]:
    """Return the compile command of each of our C files, without the output option."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = (Path(entry["directory"]) / entry["file"]).resolve()
        if path.suffix == ".c" and (ours(path) or path.name.endswith("-unity0.c")):
            arguments = shlex.split(entry["command"])
            end = arguments.index("-MD") if "-MD" in arguments else arguments.index("-o")
            found[path] = arguments[:end]
    return found


def by_gcc(build: Path) -> set[Finding]:
    def analyse(item: tuple[Path, list[str]]) -> str:
        path, arguments = item
        options = ["-O2", "-fanalyzer", "-fdiagnostics-plain-output", "-o", "/dev/null", "-c"]
        return run([*arguments, *options, str(path)], build)

    pattern = r"^(\S+?):(\d+):\d+: warning: (.*\[-Wanalyzer.*\])$"
    with ThreadPoolExecutor(JOBS) as pool:
        texts = pool.map(analyse, commands(build).items())
        return {f for text in texts for f in read_findings(text, build, pattern)}


def by_clang_tidy(build: Path) -> set[Finding]:
    def analyse(path: Path) -> str:
        options = [f"-p={build}", "--quiet", "--extra-arg=-Wno-unknown-warning-option"]
        return run(["clang-tidy", *options, str(path)], build)

    # Flags and headers of gcc that clang lacks are not findings.
    pattern = r"^(\S+?):(\d+):\d+: (?:error|warning): (.*\[(?!clang-diagnostic)[\w.,-]+\])$"
    with ThreadPoolExecutor(JOBS) as pool:
        texts = pool.map(analyse, commands(build))
        return {f for text in texts for f in read_findings(text, build, pattern)}


def by_cppcheck(build: Path) -> set[Finding]:
    options = ["--enable=warning,portability,performance", "--std=c11", "--quiet", f"-j{JOBS}"]
    options += ["--template={file}:{line}: {message} [{id}]", "--suppress=missingIncludeSystem"]
    options += [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src_runtime'}", "-DTVMRT_DEVICE_BUILTIN"]
    # Messages about code that cppcheck cannot parse without a library's headers.
    options += [f"--suppressions-list={path}" for path in ROOT.glob("plugins/*/tests/cppcheck.txt")]
    folders = [str(folder) for folder in FOLDERS]
    text = run(["cppcheck", *options, *folders], ROOT)
    return read_findings(text, ROOT, r"^(\S+?):(\d+): (.*)$")


TOOLS = {"gcc": by_gcc, "clang-tidy": by_clang_tidy, "cppcheck": by_cppcheck}


def report(tool: str, found: Iterable[Finding]) -> bool:
    """Print findings without an explaining comment; return True if there are any."""
    everything = sorted(found)
    open_ones = [finding for finding in everything if not finding.is_answered()]
    print(*open_ones, sep="\n", end="\n" if open_ones else "")
    answered = len(everything) - len(open_ones)
    print(f"{tool}: {len(open_ones)} findings, {answered} false alarms with a reason", flush=True)
    return bool(open_ones)


def main() -> int:
    build, *wanted = sys.argv[1:]
    failed = False
    for tool in wanted or TOOLS:
        if shutil.which(tool) is None:
            print(f"skipped: {tool} is not installed")
        else:
            failed |= report(tool, TOOLS[tool](Path(build).resolve()))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
