"""Description of the packages plug-in."""

from tvmrt.plugin import Plugin

PLUGIN = Plugin(
    name="packages",
    summary="networks of boards as libraries for Zephyr, Arduino and other projects",
    exporters={
        "zephyr": "tvmrt.plugins.packages.files:ZEPHYR",
        "arduino": "tvmrt.plugins.packages.files:ARDUINO",
        "platformio": "tvmrt.plugins.packages.files:PLATFORMIO",
        "esp-idf": "tvmrt.plugins.packages.files:ESP_IDF",
        "cmsis-pack": "tvmrt.plugins.packages.files:CMSIS_PACK",
    },
)
