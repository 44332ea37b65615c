"""Firmware networks as libraries for Zephyr, Arduino, PlatformIO, ESP-IDF and CMSIS projects."""
