"""What a distribution outside the tree adds to Windtunnel: files of a device and of a program's options, and code."""

from pathlib import Path

DEVICE = Path(__file__).with_name("device.yaml")
OPTIONS = Path(__file__).with_name("sample-1.5.yaml")
