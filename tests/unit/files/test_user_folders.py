"""A user without a home, as containers have them: nothing of the user's is found, and nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from windtunnel.catalog import released_models
from windtunnel.cli.main import run
from windtunnel.files import trust, user_folders
from windtunnel.importers.checkpoint_folders import config_of
from windtunnel.importers.named_files import beside
from windtunnel.kernel_cache import _parents


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder, where the user has no home."""

    def none() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", none)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("WINDTUNNEL_TRUST", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nothing_is_found_and_nothing_fails(nobody: Path) -> None:
    (nobody / "run.sh").write_text("python train.py\n")
    (nobody / "x.py").write_text("ANSWER = 1\n")
    assert released_models._users_text() == ""
    assert config_of("a/b", str(nobody / "run.sh")) is None
    assert beside(str(nobody / "run.sh"), "x.py") == nobody / "x.py"
    assert not trust.is_trusted(nobody / "x.py")
    trust.trust_file(nobody / "x.py")
    assert not trust.is_trusted(nobody / "x.py")
    assert list(_parents(nobody))
    assert not user_folders.home().exists()


def test_what_has_to_be_kept_is_refused_in_a_line(nobody: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "does ~nobody-of-this-name/config.json fit on 8 h100"]) == 2
    assert run(["models", "--family", "moe"]) == 0
    assert "Traceback" not in capsys.readouterr().err
