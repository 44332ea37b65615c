"""Entries of the conformance plug-in on the Python API page."""

# rows of a section: the public name, the file that defines it, and its name there
ENTRIES = {
    "Devices that run parts of a network": [
        ("tvmrt.conformance.run_checks", "conformance/runner.py", "run_checks"),
    ],
}
