"""What is read is never written over, and nothing is written twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.cli.output import check_targets
from windtunnel.errors import BadInput


def test_input_and_twice_written_files_are_refused(tmp_path: Path) -> None:
    read, once = tmp_path / "s.yaml", tmp_path / "r.html"
    check_targets(once, None, inputs=[read, "-", None])
    with pytest.raises(BadInput, match="read here"):
        check_targets(tmp_path / "sub" / ".." / "s.yaml", inputs=[str(read)])
    with pytest.raises(BadInput, match="written already"):
        check_targets(once, once)
