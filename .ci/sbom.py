"""Write a bill of materials into wheels, as PEP 770 says: .dist-info/sboms/tvmrt.cdx.json.

    python .ci/sbom.py dist/*.whl

It lists the package with version and licence, each library in the wheel with its SHA-256, and the
packages that the wheel requires. The format is CycloneDX 1.6, checked against its schema.
Wheels are replaced, with RECORD updated. A wheel that has one already gets a new one.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import os
import tempfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.requirements import Requirement

NAME = "sboms/tvmrt.cdx.json"
MACHINE_CODE = (".so", ".dll", ".pyd", ".dylib", ".a", ".lib")


def is_machine_code(name: str) -> bool:
    """Whether a file's name is that of a library, also with a version after ``.so``."""
    return name.endswith(MACHINE_CODE) or ".so." in Path(name).name


def bill(metadata: Message, files: dict[str, bytes]) -> str:
    """Return the bill of a wheel as JSON.

    Raises
    ------
    ValueError
        if the schema refuses it.
    """
    name, version = str(metadata["Name"]), str(metadata["Version"])
    product = Component(
        name=name, version=version, type=ComponentType.LIBRARY, bom_ref=f"{name}=={version}",
        purl=PackageURL("pypi", None, name, version),
        licenses=[LicenseExpression(str(metadata["License-Expression"]))],
    )  # fmt: skip
    bom = Bom()
    bom.metadata.component = product
    parts = [
        Component(
            name=path, type=ComponentType.FILE, bom_ref=path,
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashlib.sha256(data).hexdigest())],
        )
        for path, data in sorted(files.items())
        if is_machine_code(path)
    ]  # fmt: skip
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist") or []]
    parts += [
        Component(
            name=each.name, type=ComponentType.LIBRARY, purl=PackageURL("pypi", None, each.name),
            bom_ref=each.name, description=f"required: {each}",
        )
        for each in needed
        if each.marker is None
    ]  # fmt: skip
    bom.components.update(parts)
    bom.register_dependency(product, parts)
    text = JsonV1Dot6(bom).output_as_string(indent=1)
    problem = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem is not None:
        raise ValueError(f"the bill of {name} {version} is not valid CycloneDX: {problem}")
    return text


def add_bill(wheel: Path) -> None:
    """Replace a wheel by one with a bill of materials; the old one stays if anything fails."""
    with zipfile.ZipFile(wheel) as archive:
        entries = {info.filename: (info, archive.read(info)) for info in archive.infolist()}
    (record,) = [name for name in entries if name.endswith(".dist-info/RECORD")]
    folder = record[: -len("RECORD")]
    metadata = HeaderParser().parsestr(entries[f"{folder}METADATA"][1].decode())
    text = bill(metadata, {name: data for name, (_, data) in entries.items()}).encode()
    digest = base64.urlsafe_b64encode(hashlib.sha256(text).digest()).rstrip(b"=").decode()
    rows = list(csv.reader(io.StringIO(entries[record][1].decode())))
    rows = [row for row in rows if row and row[0] != folder + NAME]
    rows.insert(len(rows) - 1, [folder + NAME, f"sha256={digest}", str(len(text))])
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    handle, aside = tempfile.mkstemp(suffix=".whl", dir=wheel.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w") as archive:
            for name, (info, data) in entries.items():
                if name not in (record, folder + NAME):
                    archive.writestr(info, data, zipfile.ZIP_DEFLATED)
            archive.writestr(folder + NAME, text, zipfile.ZIP_DEFLATED)
            archive.writestr(record, table.getvalue(), zipfile.ZIP_DEFLATED)
        os.chmod(aside, wheel.stat().st_mode)
        os.replace(aside, wheel)
    except BaseException:
        os.unlink(aside)
        raise


def main() -> None:
    """Add a bill to each wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheels", nargs="+", type=Path)
    for wheel in parser.parse_args().wheels:
        try:
            add_bill(wheel)
        except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
            parser.exit(1, f"sbom.py: {wheel}: no bill was added, because of {error!r}\n")
        print(f"{wheel}: has {NAME}")


if __name__ == "__main__":
    main()
