"""Contributions of this plug-in: importer and options."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="tflite",
    summary="TensorFlow Lite files (.tflite), compared with LiteRT",
    importers={".tflite": "tvmrt.plugins.tflite.importer:TfliteImporter"},
    options={
        "tflite_rounding": "tvmrt.plugins.tflite.options:ROUNDING",
        "signature": "tvmrt.plugins.tflite.options:SIGNATURE",
    },
)
