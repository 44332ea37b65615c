"""``tvmrt config``: print compiler and linker flags for C programs that use tvmrt."""

from __future__ import annotations

import shlex

import click

from tvmrt.cli import console


@click.command("config")
@click.option("--cflags", is_flag=True, help="Compiler flags.")
@click.option("--libs", is_flag=True, help="Linker flags for the runtime library.")
@click.option("--includes", is_flag=True, help="Folder of the headers.")
@click.option(
    "--prefix",
    is_flag=True,
    help="Installation prefix, for CMAKE_PREFIX_PATH; its lib/pkgconfig is for PKG_CONFIG_PATH.",
)
@click.option("--backend-lib", is_flag=True, help="The static library that generated C needs.")
@click.option(
    "--firmware-sources",
    is_flag=True,
    help="Folder with the firmware runtime as source: a Zephyr module and a Meson subproject.",
)
@click.option("--cmake", is_flag=True, help="Folder of tvmrt-firmware-config.cmake in it.")
@console.json_option
def command(as_json: bool, **requested: bool) -> None:
    """Print flags for a C build: cc $(tvmrt config --cflags) app.c $(tvmrt config --libs)."""
    from pathlib import Path

    from tvmrt import libinfo

    include, *others = libinfo.find_include_path()
    folder = str(Path(libinfo.find_lib_path("libtvm_runtime.so")[0]).parent)
    firmware = libinfo.find_firmware_path()
    values = {
        "cflags": shlex.join([f"-I{each}" for each in (include, *others)]),
        "libs": shlex.join([f"-L{folder}", f"-Wl,-rpath,{folder}", "-ltvm_runtime"]),
        "includes": include,
        "prefix": str(Path(include).parent),
        "backend_lib": libinfo.find_lib_path("libtvm_backend.a")[0],
        "firmware_sources": firmware,
        "cmake": libinfo.find_cmake_path(),
    }
    chosen = {name: values[name] for name, wanted in requested.items() if wanted}
    if as_json:
        console.print_json("config", chosen or values)
    elif chosen:
        click.echo(" ".join(chosen.values()))
    else:
        console.print_pairs(values)
