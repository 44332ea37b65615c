"""OpenVINO as a device for regions."""
