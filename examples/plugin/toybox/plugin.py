"""What the plug-in adds."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="toybox",
    summary="an example of each thing that a plug-in can add",
    commands={"greet": "toybox.command:command"},
    connections={"--apart": "toybox.connection:Apart"},
    devices={"toydevice": "toybox.device:ToyDevice"},
    importers={".toy": "toybox.reader:ToyImporter"},
    exporters={".steps": "toybox.writer:ToyExporter"},
    options={"toy_times": "toybox.options:TIMES"},
    operators={("example.toys", "Double"): "toybox.operators"},
    targets={"toycore": "toybox.targets:TOYCORE"},
    boards={"toyboard": "toybox.targets:TOYBOARD"},
    headers={"toybox": "toybox.kernels:INCLUDE"},
    board_kernels={"float32/toy_rows": "toybox.kernels:KERNEL"},
)
