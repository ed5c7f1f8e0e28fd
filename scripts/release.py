"""Build both distributions, check them, install each in a fresh environment and run it there: `make release`.

    make release                     source archives and wheels in dist/, with SHA256SUMS
    make release PYTHONS=3.11        wheels with machine code for one Python alone; PYTHONS=none: none
    make release URL=ADDRESS         the same with the address of the repository in the metadata and in links of README

Nothing is uploaded.
"""

from __future__ import annotations

import argparse
import hashlib
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from distributions import ROOT, Environment, Failed, build, copy_of_the_source, environment, run, say, tried
from native import check_native, compiled, first_commands, native_wheel
from pythons import interpreters

PRODUCT, WORKSHOP = "windtunnel", "windtunnel_lab"


def versions() -> str:
    """The version, the same wherever it stands.

    Raises:
        Failed: places differ.
    """
    metadata = [
        tomllib.loads((ROOT / name).read_text("utf-8")) for name in ("pyproject.toml", "workshop/pyproject.toml")
    ]
    pinned = re.findall(r"==(\S+)", " ".join(metadata[1]["project"]["dependencies"]))
    found = {
        "pyproject.toml": metadata[0]["project"]["version"],
        "workshop/pyproject.toml": metadata[1]["project"]["version"],
        "workshop/pyproject.toml, what it needs": pinned[0] if pinned else "none",
        "src/windtunnel/__init__.py": _first(r'__version__ = "(.+)"', "src/windtunnel/__init__.py"),
        "CITATION.cff": _first(r"(?m)^version: (.+)$", "CITATION.cff"),
    }
    if len(set(found.values())) != 1:
        raise Failed("versions differ: " + ", ".join(f"{place} {version}" for place, version in found.items()))
    version = found["pyproject.toml"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    if f"\n## {version}" not in changes:
        raise Failed(f"CHANGELOG.md: no section {version}")
    unreleased = changes.partition("\n## Unreleased")[2].partition("\n## ")[0]
    if "\n* " in unreleased:
        say(
            f"note: CHANGELOG.md lists changes under Unreleased: a rehearsal, until they stand under {version} or later"
        )
    return version


def _first(pattern: str, name: str) -> str:
    found = re.search(pattern, (ROOT / name).read_text("utf-8"))
    return found[1] if found else "none"


def with_addresses(source: Path, url: str, version: str) -> None:
    """Write the address of the repository into the metadata, and absolute links into what an index shows."""
    for folder in (source, source / "workshop"):
        lines = ["[project.urls]", f'Source = "{url}"', f'Issues = "{url}/issues"']
        lines += [
            f'Changelog = "{url}/blob/v{version}/CHANGELOG.md"',
            f'Documentation = "{url}/blob/v{version}/docs/index.md"',
        ]
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write("\n" + "\n".join(lines) + "\n")
        readme = folder / "README.md"
        text = re.sub(r"\]\((?!\w+:|#)(?:\.\./)*", "](" + f"{url}/blob/v{version}/", readme.read_text("utf-8"))
        readme.write_text(re.sub(r'(src(?:set)?)="(docs/)', rf'\1="{url}/raw/v{version}/\2', text), "utf-8")


def check_contents(files: list[Path], source: Path) -> None:
    """Hold each file's content against the files that the repository tracks.

    Raises:
        Failed: something is missing, or does not belong there.
    """
    for name, folder in ((PRODUCT, "src"), (WORKSHOP, "workshop")):
        tracked = {str(p.relative_to(source / folder)) for p in (source / folder / name).rglob("*") if p.is_file()}
        (wheel,) = [p for p in files if p.name.startswith(f"{name}-") and p.suffix == ".whl"]
        (archive,) = [p for p in files if p.name.startswith(f"{name}-") and p.name.endswith(".tar.gz")]
        copied = _examples(source) if name == PRODUCT else set()
        held = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
        licences = {n.rpartition("/")[2] for n in zipfile.ZipFile(wheel).namelist() if "/licenses/" in n}
        with tarfile.open(archive) as tar:
            packed = {n.partition("/")[2].removeprefix("src/") for n in tar.getnames()}
        wrong = [f"{wheel.name} lacks {n}" for n in sorted((tracked | copied) - held)[:9]]
        wrong += [f"{wheel.name} holds {n}, which is not tracked" for n in sorted(held - tracked - copied)[:9]]
        wrong += [f"{archive.name} lacks {n}" for n in sorted(tracked - packed)[:9]]
        wrong += [f"{wheel.name} lacks {n}" for n in sorted({"LICENSE", "NOTICE"} - licences)]
        if wrong:
            raise Failed("\n".join(wrong))
        say(
            f"{wheel.name}: {len(held)} files, {wheel.stat().st_size / 1e6:.1f} MB; "
            f"{archive.stat().st_size / 1e6:.1f} MB source"
        )


def _examples(source: Path) -> set[str]:
    """Names in the wheel of the example scenarios, which `setup.py` copies into it."""
    kinds = (".yaml", ".csv", ".jsonl")
    files = (p for p in (source / "examples").rglob("*") if p.suffix in kinds)
    return {f"{PRODUCT}/{p.relative_to(source)}" for p in files}


def check_types(tools: Environment, env: Environment, source: Path) -> None:
    """Check examples and the sample plug-in with `mypy --strict` against the installed wheel."""
    from_readers = [
        source / "examples" / "anatomy_of_a_prediction.py",
        source / "tests" / "plugin" / "windtunnel_sample",
    ]
    empty = env.place / "work" / "mypy.ini"
    empty.write_text("[mypy]\n", "utf-8")
    words = [tools.python, "-m", "mypy", "--strict", "--config-file", empty, "--python-executable", env.python]
    run([*words, *from_readers], cwd=env.place / "work")
    say(f"mypy --strict against the installed wheel: {', '.join(p.name for p in from_readers)}")


def natives(wheel: Path, scratch: Path, only: str) -> list[Path]:
    """A wheel with machine code for each supported Python that is here, tried where nothing was compiled before."""
    made = []
    if sys.platform != "linux" or platform.machine() != "x86_64":
        say("note: wheels with machine code are built on Linux x86-64 alone")
        return made
    for name, python in interpreters().items():
        if only not in ("", name):
            continue
        if python is None:
            say(f"note: no wheel with machine code for {name}: no interpreter on the path, in pyenv or known to uv")
            continue
        with environment(python, scratch / "compiling") as env:
            env.pip("--require-hashes", "-r", ROOT / "locks" / "core.txt")
            env.pip("--no-deps", wheel)
            code, tag = compiled(env, scratch / "code" / name), f"cp{name.replace('.', '')}"
            native = native_wheel(wheel, code, tag, scratch / "native")
            say(check_native(native, wheel))
            env.pip("--no-deps", "--force-reinstall", native)
            seconds = first_commands(env, scratch / "first" / name)
            say(f"{native.name}: installed; first commands: {', '.join(f'{c} {s:.1f} s' for c, s in seconds.items())}")
            made.append(native)
    return made


def release(out: Path, url: str, scratch: Path, only: str) -> None:
    """All steps.

    Raises:
        Failed: one of them.
    """
    version = versions()
    source = copy_of_the_source(scratch / "source")
    if url:
        with_addresses(source, url.rstrip("/"), version)
    else:
        say("note: without URL=ADDRESS the metadata names no repository, and links of README stay relative")
    with environment(sys.executable, scratch / "tools") as tools:
        tools.pip("--require-hashes", "-r", ROOT / "locks" / "build.txt")
        tools.pip("-c", ROOT / "constraints.txt", "mypy")
        made = scratch / "dist"
        files = build(source, tools, made)
        check_contents(files, source)
        (wheel,) = made.glob(f"{PRODUCT}-*.whl")
        for one in files:
            lab = one.name.startswith(WORKSHOP)
            with environment(sys.executable, scratch / "fresh") as env:
                env.pip("--require-hashes", "-r", ROOT / "locks" / ("studio.txt" if lab else "core.txt"))
                env.pip("--no-deps", *([wheel] if lab else []), one)
                run([env.python, "-m", "pip", "check"])
                figures = tried(env)
                if lab:
                    env.windtunnel("reproduce", "--help")
                    run([env.python, "-c", "import windtunnel_lab.reproduce.run_papers"], cwd=env.place / "work")
                sizes = env.sizes_mib()
                say(f"{one.name}: installed, {sum(sizes.values()):.0f} MiB with what it needs; {figures}")
                if one == wheel:
                    say("MiB: " + ", ".join(f"{name} {size:.0f}" for name, size in sizes.items() if size >= 1))
                    check_types(tools, env, source)
        files += natives(wheel, scratch, only)
        say(run([tools.python, "-m", "twine", "check", "--strict", *files]).strip())
    out.mkdir(parents=True, exist_ok=True)
    sums = "".join(f"{hashlib.sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in files)
    for one in files:
        shutil.copyfile(one, out / one.name)
    (out / "SHA256SUMS").write_text(sums, "utf-8")
    say(sums.strip())
    say(f"release {version}: {len(files)} files in {out}")


def main() -> int:
    """Exit code 1 with the reason where a step fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the files")
    parser.add_argument("--url", default="", help="address of the repository")
    parser.add_argument("--pythons", default="", help="wheels with machine code for this Python alone, such as 3.11")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            release(asked.out, asked.url, Path(scratch), asked.pythons)
        except Failed as error:
            print(f"release: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
