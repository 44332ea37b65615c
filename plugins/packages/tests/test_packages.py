"""Test packages: each is accepted by the tools of its ecosystem, and its sources and example
compile."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

import tvmrt
from tvmrt.plugins.packages.plugin import PLUGIN

NETWORK = Path(__file__).parents[3] / "examples/digits/digits_int8.onnx"
GCC = "arm-none-eabi-gcc"

# Stubs of the ecosystem's own headers, with the few functions that an example calls.
STUBS = {
    "zephyr/sys/printk.h": "void printk(const char *text, ...);\n",
    "Arduino.h": "struct Port { void begin(long); void print(unsigned long);\n"
    "void print(const char *); void println(const char *); };\n"
    "extern struct Port Serial;\nvoid delay(unsigned long);\n",
}


@pytest.fixture(scope="module")
def network():
    return tvmrt.compile(NETWORK, board="stm32f4", interface_api="c", module_name="digits")


@pytest.fixture
def package(network, tmp_path, request):
    network.export_package(tmp_path / "package", request.param)
    network.export_package(tmp_path / "package", request.param)  # over an older one
    return tmp_path / "package"


def of(kind: str):
    return pytest.mark.parametrize("package", [kind], indirect=True)


@pytest.mark.parametrize("kind", sorted(PLUGIN.exporters))
@pytest.mark.parametrize("options", [{}, {"workspace_io": True}], ids=["apart", "in-pools"])
def test_sources_and_example_compile(kind, options, tmp_path):
    package = tmp_path / "package"
    network = tvmrt.compile(
        NETWORK, board="stm32f4", interface_api="c", module_name="Digits", **options
    )
    network.export_package(package, kind)
    if shutil.which(GCC) is None:
        pytest.skip(f"{GCC} is not installed")
    for name, text in STUBS.items():
        (tmp_path / "stubs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "stubs" / name).write_text(text)
    include = package / "include" if (package / "include").is_dir() else package / "src"
    flags = [GCC, "--specs=picolibc.specs", *network.target.flags, "-fsyntax-only",
             f"-I{include}", f"-isystem{tmp_path / 'stubs'}"]  # fmt: skip
    sources = sorted((package / "src").glob("*.c"))
    (calls,) = [
        path for folder in ("examples", "samples", "template")
        for path in (package / folder).rglob("*") if path.suffix in (".c", ".ino")
    ]  # fmt: skip
    arguments = "" if options else "&inputs, &outputs"
    assert f"tvmgen_Digits_run({arguments})" in calls.read_text()
    assert len(sources) > 4
    subprocess.run([*flags, "-std=gnu11", "-Wall", "-Werror", *sources], check=True)
    kind = ["-x", "c++", "-include", "Arduino.h"] if calls.suffix == ".ino" else []
    subprocess.run([*flags, *kind, "-Wall", "-Werror", calls], check=True)


@of("arduino")
def test_arduino_library_properties_keep_their_specification(package):
    lines = (package / "library.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    needed = {"name", "version", "author", "maintainer", "sentence", "paragraph", "category",
              "url", "architectures"}  # fmt: skip
    assert needed <= found.keys() and all(found.values())
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_ .-]{0,62}", found["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"])
    assert found["category"] in ("Display", "Communication", "Signal Input/Output", "Sensors",
                                 "Device Control", "Timing", "Data Storage", "Data Processing",
                                 "Other")  # fmt: skip
    assert (package / "src" / found["includes"]).is_file()
    # a sketch must have the name of its folder
    assert [p.parent.name for p in package.rglob("*.ino")] == [
        p.stem for p in package.rglob("*.ino")
    ]


@of("platformio")
def test_platformio_packs_the_library(package, tmp_path):
    manifest = json.loads((package / "library.json").read_text())
    assert (package / "include" / manifest["headers"]).is_file()
    for example in manifest["examples"]:
        assert all((package / example["base"] / name).is_file() for name in example["files"])
    if shutil.which("pio") is None:
        pytest.skip("pio is not installed")
    subprocess.run(["pio", "pkg", "pack", "-o", tmp_path / "out.tar.gz", package], check=True)
    with tarfile.open(tmp_path / "out.tar.gz") as tar:
        assert {"library.json", "src/tvmgen_digits_lib1.c"} <= set(tar.getnames())


def cmake_names(text: str, command: str) -> list[str]:
    """Return the files that a CMake command lists."""
    (body,) = re.findall(rf"{command}\(([^)]*)\)", text)
    return re.findall(r"[\w./-]+\.c", body)


@of("zephyr")
def test_zephyr_module_and_kconfig(package):
    module = dict(re.findall(r"(\w+): (\S+)", (package / "zephyr/module.yml").read_text()))
    assert (package / module["kconfig"]).is_file()
    text = (package / module["cmake"] / "CMakeLists.txt").read_text()
    listed = cmake_names(text, "zephyr_library_sources")
    assert sorted((package / "zephyr" / name).resolve() for name in listed) == sorted(
        path.resolve() for path in (package / "src").glob("*.c")
    )
    (option,) = re.findall(r"if\(CONFIG_(\w+)\)", text)
    assert f"CONFIG_{option}=y" in (package / "samples/run/prj.conf").read_text()
    kconfiglib = pytest.importorskip("kconfiglib")
    found = kconfiglib.Kconfig(str(package / module["kconfig"]))
    assert found.syms[option].type == kconfiglib.BOOL and not found.warnings


@of("esp-idf")
def test_esp_idf_component(package):
    listed = cmake_names((package / "CMakeLists.txt").read_text(), "idf_component_register")
    assert sorted(listed) == sorted(
        path.relative_to(package).as_posix() for path in (package / "src").glob("*.c")
    )
    text = (package / "idf_component.yml").read_text()
    assert re.search(r'^version: "\d+\.\d+\.\d+"$', text, re.MULTILINE)
    main = package / "examples/run/main"
    (path,) = re.findall(r'override_path: "(.*)"', (main / "idf_component.yml").read_text())
    assert (main / path).resolve() == package.resolve()


@pytest.mark.slow
@of("esp-idf")
def test_the_component_manager_packs_the_component(package, tmp_path):
    if shutil.which("compote") is None:
        pytest.skip("compote of idf-component-manager is not installed")
    command = ["compote", "component", "pack", "--name", "digits_network", "--dest-dir", tmp_path]
    subprocess.run([*command, "--project-dir", package], check=True)
    with tarfile.open(tmp_path / "digits_network_1.0.0.tgz") as tar:
        names = {name.removeprefix("./") for name in tar.getnames()}
    assert {"idf_component.yml", "CMakeLists.txt", "src/tvmgen_digits_lib1.c"} <= names
    text = (package / "idf_component.yml").read_text()
    (package / "idf_component.yml").write_text(text.replace("1.0.0", "one"))
    done = subprocess.run([*command, "--project-dir", package], check=False, capture_output=True)
    assert done.returncode != 0  # it reads the metadata


@pytest.mark.slow
@of("zephyr")
def test_west_fetches_the_module_into_a_workspace(package, tmp_path):
    if shutil.which("west") is None or shutil.which("git") is None:
        pytest.skip("west or git is not installed")
    author = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], [*author, "commit", "-qm", "1"]):
        subprocess.run(["git", *words], cwd=package, check=True)
    app = tmp_path / "workspace" / "app"
    app.mkdir(parents=True)
    (app / "west.yml").write_text(
        f"manifest:\n  projects:\n    - name: digits\n      url: {package.as_uri()}\n"
        "      revision: main\n      path: modules/digits\n"
    )
    for words in (["init", "-l", app], ["update"]):
        subprocess.run(["west", *words], cwd=app.parent, check=True)
    done = subprocess.run(
        ["west", "list", "-f", "{abspath}", "digits"], cwd=app, check=True, capture_output=True,
        text=True,
    )  # fmt: skip
    module = Path(done.stdout.strip())
    assert (module / "zephyr/module.yml").is_file() and (module / "samples/run").is_dir()


@of("cmsis-pack")
def test_cmsis_pack_description(package):
    etree = pytest.importorskip("lxml.etree")
    (pdsc,) = package.glob("*.pdsc")
    root = etree.parse(str(pdsc)).getroot()
    children = [child.tag for child in root]
    order = ["vendor", "name", "description", "url", "releases", "components"]
    assert [tag for tag in children if tag in order] == order  # a sequence in PACK.xsd
    assert pdsc.stem == f"{root.findtext('vendor')}.{root.findtext('name')}"
    (release,) = root.iter("release")
    (component,) = root.iter("component")
    assert component.get("Cversion") == release.get("version")
    assert component.get("Cclass") and component.get("Cgroup")
    for file in root.iter("file"):
        assert (package / file.get("name")).exists()
        assert file.get("category") in ("include", "header", "source", "sourceC")
    named = {file.get("name") for file in root.iter("file")}
    assert {f"src/{path.name}" for path in (package / "src").glob("*.c")} <= named


def test_unsupported_packages_are_refused(tmp_path):
    packed = tvmrt.compile(NETWORK, target="cortex-m4")
    with pytest.raises(ValueError, match='add interface_api="c"'):
        packed.export_package(tmp_path / "a", "arduino")
    lent = tvmrt.compile(NETWORK, target="cortex-m4", interface_api="c", pools={"sram": 8000})
    with pytest.raises(tvmrt.error.UnsupportedError, match=r"pools=.*SECTION"):
        lent.export_package(tmp_path / "a", "arduino")
    with pytest.raises(ValueError, match="format rpm is not known; choose zephyr, arduino"):
        lent.export_package(tmp_path / "a", "rpm")
    assert not (tmp_path / "a").exists()


def test_manifest_of_the_network_is_in_the_package(network, tmp_path):
    network.export_package(tmp_path / "package", "zephyr")
    found = json.loads((tmp_path / "package/manifest.json").read_text())
    assert found["options"]["interface_api"] == "c"
    assert found["bytes"]["weights"] == network.summary.weights_bytes
    network.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        text = archive.extractfile("./metadata.json").read()
    assert json.loads(text)["modules"]["digits"]["manifest"] == found
