"""Firmware networks as libraries for projects of Zephyr, Arduino, PlatformIO, ESP-IDF and CMSIS."""
