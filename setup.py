"""Puts the example scenarios into the wheel; everything else stands in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

KINDS = (".yaml", ".csv", ".jsonl")


class WithExamples(build_py):
    """Copies `examples/` to `windtunnel/examples/` in the built package."""

    def run(self):
        """Build, then copy."""
        super().run()
        root = Path(__file__).parent / "examples"
        if self.editable_mode or not root.is_dir():
            return
        for file in sorted(root.rglob("*")):
            if file.suffix in KINDS:
                target = Path(self.build_lib) / "windtunnel" / "examples" / file.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)


setup(cmdclass={"build_py": WithExamples})
