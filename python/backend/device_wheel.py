"""Wheels for devices that need third-party libraries; each contains only the plug-in of a device.

``pip wheel . -Cdevice=NAME`` creates ``tvmrt_NAME-VERSION-py3-none-PLATFORM.whl``, in which the
runtime finds the plug-in by an entry point. It does not use Python's C API, so it works with all
Python versions. ``auditwheel repair`` adds the library for machines that lack it.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from index_readme import described

VERSION = Path("python", "tvmrt", "VERSION")
MODULE = '''"""The device {name} of tvmrt, which finds it by the entry point ``tvmrt.devices``."""

from pathlib import Path

plugin_path = str(Path(__file__).parent / "{plugin}")
'''
METADATA = """Metadata-Version: 2.4
Name: tvmrt-{name}
Version: {version}
Summary: The device {name} of tvmrt, a plug-in of its runtime
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Dist: tvmrt>={version}
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""
WHEEL = """Wheel-Version: 1.0
Generator: tvmrt
Root-Is-Purelib: false
Tag: {tag}
"""


def build(name: str, folder: str, settings: Mapping[str, object], address: str | None) -> str:
    """Build the wheel of a device in a folder and return its file name.

    ``settings`` are those of the build; ``setup-args`` go to Meson. The working directory must be
    the source tree. ``address`` is the public URL of the sources, if any.
    """
    from wheel.wheelfile import WheelFile  # required by get_requires_for_build_wheel()

    version = VERSION.read_text().strip()
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    tag = f"py3-none-{platform}"
    package, info = f"tvmrt_{name}", f"tvmrt_{name}-{version}.dist-info"
    readme = Path("plugins", name, "README.md")
    if not readme.is_file():
        raise SystemExit(f"tvmrt: device={name}: there is no folder {readme.parent}")
    file = f"{package}-{version}-{tag}.whl"
    with tempfile.TemporaryDirectory() as work, WheelFile(Path(folder, file), "w") as wheel:
        plugin = _plugin(name, Path(work), _words(settings.get("setup-args")))
        wheel.write(str(plugin), f"{package}/{plugin.name}")
        wheel.writestr(f"{package}/__init__.py", MODULE.format(name=name, plugin=plugin.name))
        text = described(readme.read_text(), address and f"{address}/{readme.parent.as_posix()}")
        wheel.writestr(f"{info}/METADATA", METADATA.format(name=name, version=version) + text)
        wheel.writestr(f"{info}/WHEEL", WHEEL.format(tag=tag))
        wheel.writestr(
            f"{info}/entry_points.txt", f"[tvmrt.devices]\n{name} = {package}:plugin_path\n"
        )
        wheel.write("LICENSE", f"{info}/licenses/LICENSE")
    return file


def _words(given: object) -> Sequence[str]:
    return [given] if isinstance(given, str) else list(given or ())


def _plugin(name: str, folder: Path, more: Sequence[str]) -> Path:
    """Build the shared library of a device in a folder and return its path."""
    options = ["--buildtype=release", "-Dpython=disabled", "-Dtests=disabled", f"-Dplugins={name}"]
    for command in (
        ["meson", "setup", str(folder), *options, *more],
        ["meson", "compile", "-C", str(folder), f"tvmrt_device_{name}"],
    ):
        done = subprocess.run(command, check=False, stdout=sys.stderr)
        if done.returncode != 0:
            raise SystemExit(
                f"tvmrt: the device {name} was not built: {' '.join(command[:2])} failed"
            )
    found = [
        p for p in folder.rglob(f"*tvmrt_device_{name}.*") if p.suffix in (".so", ".dylib", ".dll")
    ]
    if not found:
        raise SystemExit(
            f"tvmrt: the device {name} is part of the runtime, and no plug-in of its own"
        )
    return found[0]
