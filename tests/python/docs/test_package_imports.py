"""Allowed imports of Python packages, as in docs/explanation/architecture.md."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "python" / "tvmrt"

# Allowed module-level imports of a package besides its own; entries may be single files.
MAY_IMPORT = {
    "compiler.ir": {"option_syntax", "error"},
    "compiler.frontend": {
        "conversion", "option_syntax", "error", "compiler.ir", "compiler.operator_key",
        "file_suffix", "plugin", "compiler.module_index",
    },
    "compiler.operator_key": set(),
    "compiler.module_index": set(),
    "compiler.custom": {
        "compiler.frontend", "compiler.ir", "compiler.operator_key", "entry_points", "error",
        "file_suffix", "option_syntax",
    },
    "compiler.transform": {"error", "compiler.ir", "plugin"},
    "compiler.planner": {"option_syntax", "error", "compiler.ir"},
    "compiler.codegen": {
        "option_syntax", "error", "compiler.ir", "compiler.planner", "libinfo",
        "compiler.processor", "compiler.symbols", "plugin", "compiler.module_index",
    },
    "compiler.devices": {
        "plugin", "entry_points", "error", "compiler.ir", "runtime", "compiler.processor",
    },
    "compiler.partition": {
        "compiler.devices", "compiler.ir", "compiler.symbols", "error", "option_syntax",
    },
    # the rest of the sdk imports more of the compiler
    "compiler.sdk.arithmetic": {"compiler.ir"},
    "compiler.sdk.devices": {"compiler.devices"},
    "compiler.sdk.graph": {"compiler.ir"},
    "compiler.sdk.program": {"compiler.ir"},
    "compiler.export": {
        "option_syntax", "error", "compiler.ir", "compiler.planner", "compiler.codegen",
        "compiler.partition", "file_suffix", "libinfo", "plugin", "toolchains",
    },
    "conversion": {"error", "file_suffix", "git_lfs", "option_syntax"},
    "network": {
        "conversion", "option_syntax", "error", "compiler.export", "compiler.frontend",
        "compiler.ir", "libinfo", "compiler.option_types", "compiler.pipeline",
        "compiler.processor", "compiler.converted",
        "compiler.request", "runtime", "optional_dependencies", "plugin",
        "plugins",
        "connection", "file_suffix", "git_lfs", "tensor_info", "compiler.option_docs", "toolchains",
        "units",
    },
    "connection": {"compiler.export", "error", "plugin", "tensor_info"},
    "tensor_info": set(),
    "file_suffix": set(),
    "git_lfs": set(),
    "locks": set(),
    "plugin": {
        "entry_points", "error", "file_suffix", "locks", "option", "plugin_check", "plugins",
    },
    "plugin_check": set(),
    "option": {"units"},
    "option_syntax": {"option"},
    "toolchains": set(),
    "units": set(),
    "runtime": {
        "option_syntax", "entry_points", "error", "install_paths", "file_suffix", "nd", "plugin",
        "toolchains",
    },
}  # fmt: skip


def _module_name(file: Path) -> str:
    """Return the module name of a file of the package or of a plug-in."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "plugins":
        prefix = ("tvmrt",) if parts[2] == "public" else ("tvmrt", "plugins", parts[1])
        parts = (*prefix, *parts[3:])
    else:
        parts = parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_names(file: Path) -> set[str]:
    """Return the full names of all imports of a file, at module level and in functions."""
    name = _module_name(file)
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    tree = ast.parse(file.read_text(encoding="utf-8"))
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) + 1 - node.level]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("tvmrt.")}


def _package_of(name: str) -> str:
    """Return a module's package below ``tvmrt``; packages of the compiler count separately."""
    parts = name.split(".")
    return ".".join(parts[1:3] if parts[1] == "compiler" else parts[1:2])


def _files_of(package: str) -> list[Path]:
    place = PACKAGE / package.replace(".", "/")
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


def _imported_packages(file: Path) -> set[str]:
    return {_package_of(name) for name in _imported_names(file)}


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_package_imports_only_allowed_packages(package):
    allowed = MAY_IMPORT[package] | {package, "__version__"}
    wrong = {
        str(file.relative_to(PACKAGE)): packages - allowed
        for file in _files_of(package)
        if (packages := _imported_packages(file)) - allowed
    }
    assert not wrong


def test_plugins_import_only_the_sdk_of_the_compiler():
    folders = [*(ROOT / "plugins").glob("*/python"), *(ROOT / "plugins").glob("*/public")]
    folders += [ROOT / "examples" / "devices"]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in files
        if "tests" not in file.parts
        for name in sorted(_imported_names(file))
        if name.startswith("tvmrt.compiler.") and not name.startswith("tvmrt.compiler.sdk.")
    ]
    assert files and not wrong


# Layers of codegen: each may import those before it. Files without a package have their own name.
FOLDER = PACKAGE / "compiler" / "codegen"
CODEGEN = (
    {
        "c",
        "target",
        "pools",
        "dependencies",
        "device_files",
        "device_placement",
        "weight_blob",
    },
    {"geometry", "kernel_headers", "cpu_dispatch"},
    {"kernel_features"},
    {"options", "lowering", "mcu_families"},
    {"lowering_protocols"},
    {"fixed_order", "loops", "entries", "pool_options", "operand_copies"},
    {"window", "firmware", "manifest", "zero_copy_concat"},
    {"operators"},
    {"facts", "tied_embeddings", "translation_units", "real_time"},
    {"builder", "c_source"},
    {"rematerialize", "row_fusion", "firmware_image", "shared_workspace"},
    {"weights_in_ram"},
    {"fused_attention"},
    {"depth_first_tiling"},
)


def test_codegen_packages_import_only_lower_layers():
    layer = {package: i for i, packages in enumerate(CODEGEN) for package in packages}
    wrong = []
    for file in FOLDER.rglob("*.py"):
        package = file.relative_to(FOLDER).with_suffix("").parts[0]
        for name in _imported_names(file):
            parts = name.split(".")
            if parts[1:3] != ["compiler", "codegen"] or parts[3] not in layer:
                continue
            if parts[3] != package and layer[parts[3]] >= layer[package]:
                wrong.append(f"{package} imports {name}")
    assert not wrong
    found = {f.stem for f in FOLDER.iterdir()} - {"__pycache__", "__init__"}
    assert found == layer.keys()


@cache
def _imports_of_files() -> dict[str, set[str]]:
    """Return the imports of each module and plug-in, at module level, in functions and for type
    checks; extension modules are left out."""
    folders = [PACKAGE, *(ROOT / "plugins").glob("*/python"), *(ROOT / "plugins").glob("*/public")]
    files = {_module_name(file): file for folder in folders for file in folder.rglob("*.py")}
    compiled = ("_core", "_capi")
    imports: dict[str, set[str]] = {}
    for module, file in files.items():
        found = set()
        for name in _imported_names(file):
            if name.split(".")[-1] in compiled or name.split(".")[-2] in compiled:
                continue
            parts = name.split(".")
            outer = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
            found.add(next(known for known in outer if known in files))
        imports[module] = found - {module}
    return imports


def _cycles(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the part of the graph that is in a cycle or depends on one."""
    left = dict(imports)
    while ready := {name for name, needed in left.items() if not needed & left.keys()}:
        left = {name: needed for name, needed in left.items() if name not in ready}
    return {name: needed & left.keys() for name, needed in left.items()}


def _cut(module: str, parts: int) -> str:
    """Return the first parts of a module's name, without the folder ``compiler``."""
    names = [name for name in module.split(".") if name != "compiler"]
    return ".".join(names[:parts])


@pytest.mark.slow
def test_modules_have_no_import_cycles():
    assert not _cycles(_imports_of_files())


@pytest.mark.slow
@pytest.mark.parametrize("parts", [2, 3], ids=["package", "subpackage"])
def test_packages_have_no_import_cycles(parts):
    """Packages are top-level folders or files, and their subfolders or files. The top-level
    ``__init__`` only re-exports. A plug-in is a folder in a package."""
    packages: dict[str, set[str]] = {}
    inside = {_module_name(file) for file in PACKAGE.rglob("*.py")}
    for module, needed in _imports_of_files().items():
        if module not in inside:
            continue
        package, *others = (_cut(name, parts) for name in (module, *sorted(needed)))
        packages.setdefault(package, set()).update(set(others) - {package, "tvmrt"})
    assert not _cycles(packages)
