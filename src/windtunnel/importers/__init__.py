"""Readers of other tools' files: model configs, modules, traces, launch files of frameworks (`formats`)."""

from __future__ import annotations

from windtunnel.importers.hf_config import HfImport, from_hf_config, read_hf_config

__all__ = ["HfImport", "from_hf_config", "read_hf_config"]
