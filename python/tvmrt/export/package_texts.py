"""Metadata, build files and examples of packages: one function for each ecosystem."""

from __future__ import annotations

import json
from xml.sax.saxutils import escape, quoteattr

VERSION = "1.0.0"  # of a package; whoever publishes it counts on
TENSOR_ALIGN_BYTES = 8  # at least that of any element type
VENDOR = "tvmrt"


def example(package, before: str, ready: str) -> str:
    """C that runs the network once over inputs of zeros, in a function ``run_once``."""
    arrays = [
        f"static uint64_t {kind}_{name}[{max(-(-nbytes // TENSOR_ALIGN_BYTES), 1)}];"
        for kind, members in (("input", package.inputs), ("output", package.outputs))
        for name, nbytes in members.items()
    ]
    fill = [f"  inputs.{name} = input_{name};" for name in package.inputs]
    fill += [f"  outputs.{name} = output_{name};" for name in package.outputs]
    return "\n".join([
        f"/* Runs {_comment(package.origin)} once. What the structs' members hold is told in",
        f" * {package.header}. */",
        before + f"#include <stdint.h>\n#include <{package.header}>",
        "",
        *arrays,
        "",
        "static int32_t run_once(void) {",
        f"  struct {package.prefix}_inputs inputs;",
        f"  struct {package.prefix}_outputs outputs;",
        *fill,
        f"  return {package.prefix}_run(&inputs, &outputs);",
        "}",
        "",
        ready,
        "",
    ])  # fmt: skip


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")


_MAIN = "int main(void) {\n  return run_once() == 0 ? 0 : 1;\n}"


def _sentence(package) -> str:
    return f"The neural network {_line(package.origin)}, called by one C function."


def _line(text: str) -> str:
    return " ".join(text.split())


def zephyr_files(package) -> dict[str, str]:
    option = package.name.upper()
    sources = "\n".join(f"    ../{path}" for path in package.sources)
    return {
        "zephyr/module.yml": f"name: {package.name}\nbuild:\n  cmake: zephyr\n"
        "  kconfig: zephyr/Kconfig\n",
        "zephyr/Kconfig": f"config {option}\n\tbool \"{package.name}: a neural network\"\n\thelp\n"
        f"\t  {_line(_sentence(package))}\n",
        "zephyr/CMakeLists.txt": f"if(CONFIG_{option})\n"
        "  zephyr_include_directories(../include)\n"
        f"  zephyr_library_named({package.name})\n  zephyr_library_sources(\n{sources}\n  )\n"
        "endif()\n",
        "samples/run/CMakeLists.txt": "cmake_minimum_required(VERSION 3.20.0)\n"
        "list(APPEND ZEPHYR_EXTRA_MODULES ${CMAKE_CURRENT_SOURCE_DIR}/../..)\n"
        "find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})\n"
        "project(run)\ntarget_sources(app PRIVATE src/main.c)\n",
        "samples/run/prj.conf": f"CONFIG_{option}=y\n"
        + ("CONFIG_FPU=y\n" if package.hard_floats else ""),
        "samples/run/sample.yaml": f"sample:\n  name: {package.name}\ntests:\n"
        f"  sample.{package.name}.run:\n    build_only: true\n",
        "samples/run/src/main.c": example(
            package, "#include <zephyr/sys/printk.h>\n",
            "int main(void) {\n  printk(\"network: %d\\n\", (int)run_once());\n  return 0;\n}",
        ),
    }  # fmt: skip


def arduino_files(package) -> dict[str, str]:
    sketch = example(
        package, "",
        "void setup(void) { Serial.begin(115200); }\n\n"
        "void loop(void) {\n  Serial.println(run_once());\n  delay(1000);\n}",
    )  # fmt: skip
    properties = {
        "name": package.name,
        "version": VERSION,
        "author": VENDOR,
        "maintainer": VENDOR,
        "sentence": _sentence(package),
        "paragraph": "Its memory is a static array; it needs no heap and no operating system.",
        "category": "Data Processing",
        "url": "https://example.org/",
        "architectures": "*",
        "includes": package.header,
    }
    return {
        "library.properties": "".join(f"{k}={v}\n" for k, v in properties.items()),
        "keywords.txt": f"{package.prefix}_run\tKEYWORD2\n",
        "examples/Run/Run.ino": sketch,
    }


def platformio_files(package) -> dict[str, str]:
    manifest = {
        "name": package.name,
        "version": VERSION,
        "description": _sentence(package),
        "keywords": ["neural network", "inference"],
        "headers": package.header,
        "frameworks": "*",
        "platforms": "*",
        "build": {"srcDir": "src", "includeDir": "include"},
        "examples": [{"name": "run", "base": "examples/run", "files": ["main.c"]}],
    }
    return {
        "library.json": json.dumps(manifest, indent=2) + "\n",
        "examples/run/main.c": example(package, "", _MAIN),
    }


def esp_idf_files(package) -> dict[str, str]:
    sources = " ".join(f'"{path}"' for path in package.sources)
    return {
        "idf_component.yml": f'version: "{VERSION}"\ndescription: >-\n  {_sentence(package)}\n'
        'dependencies:\n  idf: ">=5.0"\n',
        "CMakeLists.txt": f'idf_component_register(SRCS {sources}\n  INCLUDE_DIRS "include")\n',
        "examples/run/CMakeLists.txt": "cmake_minimum_required(VERSION 3.16)\n"
        "include($ENV{IDF_PATH}/tools/cmake/project.cmake)\nproject(run)\n",
        "examples/run/main/CMakeLists.txt": 'idf_component_register(SRCS "main.c")\n',
        "examples/run/main/idf_component.yml": f"dependencies:\n  {package.name}:\n"
        '    version: "*"\n    override_path: "../../../"\n',
        "examples/run/main/main.c": example(
            package, "#include <stdio.h>\n",
            'void app_main(void) {\n  printf("network: %d\\n", (int)run_once());\n}',
        ),
    }  # fmt: skip


def pack_files(package) -> dict[str, str]:
    files = ['        <file category="include" name="include/"/>']
    files += [
        f"        <file category={quoteattr(kind)} name={quoteattr(path)}/>"
        for kind, paths in (("header", [f"include/{package.header}"]), ("source", package.sources))
        for path in paths
    ]
    files.append(
        '        <file category="sourceC" name="template/main.c" attr="template" '
        'select="Run the network once"/>'
    )
    sentence, listed = escape(_sentence(package)), "\n".join(files)
    return {
        f"{VENDOR}.{package.name}.pdsc": f"""\
<?xml version="1.0" encoding="UTF-8"?>
<package schemaVersion="1.7.7" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance" \
xs:noNamespaceSchemaLocation="PACK.xsd">
  <vendor>{VENDOR}</vendor>
  <name>{package.name}</name>
  <description>{sentence}</description>
  <url>https://example.org/</url>
  <releases>
    <release version="{VERSION}" date="2000-01-01">As it was compiled.</release>
  </releases>
  <components>
    <component Cclass="Machine Learning" Cgroup="Network" Csub="{package.name}" \
Cversion="{VERSION}">
      <description>{sentence}</description>
      <files>
{listed}
      </files>
    </component>
  </components>
</package>
""",
        "template/main.c": example(package, "", _MAIN),
    }
