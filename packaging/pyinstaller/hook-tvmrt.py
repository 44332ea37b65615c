"""Parts of tvmrt that PyInstaller does not find by itself: its libraries, the headers and sources
that the compiler needs, and modules that are imported by name or from C."""

from PyInstaller.utils.hooks import collect_all

datas, binaries, hiddenimports = collect_all("tvmrt")
hiddenimports.append("_cffi_backend")
