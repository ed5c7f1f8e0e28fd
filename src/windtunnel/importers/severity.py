"""How much hangs on what an import does not read: a setting that decides the prediction stops it, others are listed.

A setting decides by its name, `flags/severity.yaml`: the words for a model, parallelism, a precision, an adapter, a
length, a batch, nodes or an algorithm. Readers say which settings they know; what they do not know comes here. A file
of which more than half is not known stops as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from windtunnel.data_files import read_yaml
from windtunnel.importers.launch import Launch, Wanted
from windtunnel.importers.shell import Script, Word

_OFF: tuple[Any, ...] = (False, None, "", 0, "none", "None", "null", "no", "off", "disabled", "[]", "{}", [])
"""Values that leave a setting off."""
_MOST_OF_A_NAME = 200
"""Characters at the end of a name that decide."""
_LEAST = 3
"""Unknown settings from which on a file counts as mostly unread."""
_ROLLOUTS = re.compile(r"(^|_)(vllm|sglang|trtllm|rollouts?|rewards?|rm|ref|critic|teacher|generation|infer|algo)(_|$)")
"""Settings of what post-training has beside its step, which follows with the reading of post-training."""
_SERVED_BATCH = re.compile(r"(^|_)(max_num_seqs|max_running_requests|max_num_batched_tokens)$")
"""Options of servers that limit a batch."""
REST = "rest"
"""What `--without` calls all settings that no reader knows."""


@dataclass(frozen=True, slots=True)
class Topic:
    """What a setting decides, and what states it otherwise."""

    name: str
    options: tuple[str, ...]
    fields: tuple[str, ...]

    def settled(self, wanted: Wanted) -> bool:
        """Whether the command line states it."""
        if any(getattr(wanted, option) is not None for option in self.options):
            return True
        return any(path == field or path.startswith(f"{field}.") for path in wanted.fields for field in self.fields)

    def ways(self) -> str:
        """The options that state it."""
        given = [f"--{option.replace('_', '-')}" for option in self.options]
        return " or ".join([*given, *([] if given else [f"--set {self.fields[0]}…=VALUE"])])


@cache
def _rules() -> tuple[re.Pattern[str], re.Pattern[str], tuple[tuple[Topic, re.Pattern[str]], ...]]:
    data: dict[str, Any] = read_yaml("importers/flags/severity.yaml")

    def pattern(text: str) -> re.Pattern[str]:
        return re.compile(text.replace(" ", "").replace("\n", ""))

    topics = [
        (Topic(name, tuple(rule["options"]), tuple(rule.get("fields", ()))), pattern(rule["names"]))
        for name, rule in data["decides"].items()
    ]
    return pattern(data["never"]), pattern(data["never_ends"]), tuple(topics)


def topic_of(name: str, value: Any = None) -> Topic | None:
    """What a setting decides by its name; None where nothing that a scenario holds hangs on it, or it is off."""
    never, ends, topics = _rules()
    if value is not None and _is_off(value):
        return None
    plain = _words(name)
    for topic, pattern in topics:
        found = pattern.search(plain)
        if found is not None and not (never.search(plain[: found.start()]) or _about_else(plain, never, ends)):
            return topic
    return None


def _words(name: str) -> str:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-")[-_MOST_OF_A_NAME:]).lower()
    return re.sub(r"[^a-z0-9]+", "_", plain)


def about_else(name: str) -> bool:
    """Whether a setting is about saving, logging, data, rates and the like, by its name."""
    never, ends, _ = _rules()
    plain = _words(name)
    return never.search(plain) is not None or _about_else(plain, never, ends)


def _about_else(plain: str, never: re.Pattern[str], ends: re.Pattern[str]) -> bool:
    return ends.search(plain) is not None and not plain.endswith(("model_name_or_path", "model_path", "model_id"))


def _is_off(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().casefold() in [str(off).casefold() for off in _OFF] or value.strip() in ("0", "1.0")
    return value in _OFF


def judge(launch: Launch, wanted: Wanted) -> None:
    """Turn settings that decide and were not read into problems, each with the option that settles it.

    Args:
        launch: what was read.
        wanted: what the command line states; `without` names settings to go on without.
    """
    without = {_plain(name) for name in wanted.without}
    if REST in without:
        return
    unread = [
        left
        for left in launch.unread
        if left.unknown and not about_else(left.name) and _plain(left.name) not in without
    ]
    for left in launch.unread:
        topic = left.topic or (topic_of(left.name, left.value) if left.unknown else None)
        if not isinstance(topic, Topic):
            topic = _topics().get(str(topic)) if topic else None
        if topic is None or _plain(left.name) in without or topic.settled(wanted):
            continue
        if launch.post_training and _ROLLOUTS.search(_words(left.name)):
            continue
        name = left.name.lstrip("-")
        ways = f"{topic.ways()} states it, --without {name} goes on without it"
        rule = f"decides the {topic.name} and is not read ({left.why}); {ways}"
        launch.wrong(left.name, rule, left.value, left.line)
    count = len(unread)
    known = launch.settings_known
    if count >= _LEAST and count > known and not launch.problems:
        shown = ", ".join(left.name for left in unread[:6]) + (", …" if count > 6 else "")
        rule = (
            f"is not read for the most part: {count} of {count + known} settings are not known ({shown}); "
            f"--format names another format, --without {REST} goes on without them"
        )
        launch.wrong("", rule)


def hanging(script: Script, launch: Launch, above: int = 0) -> None:
    """List options that decide and stand in branches of a script of which nobody knows whether they run.

    Args:
        script: what was read; only variables that something refers to count.
        launch: takes an entry an option; `judge` makes problems of them.
        above: lines of the file before the script.
    """
    seen: set[tuple[str, int]] = set()
    for variable, branches in script.hanging.items():
        standing = _options(script.variables.get(variable, ()))
        for branch in branches if variable in script.referred else ():
            for name, (value, line) in _options(branch.words).items():
                topic = topic_of(name) or (_topics()["batch"] if _SERVED_BATCH.search(_words(name)) else None)
                if topic is None or (name, branch.line) in seen or (name in standing and standing[name][0] == value):
                    continue
                seen.add((name, branch.line))
                ask = f"--env {branch.asks}=… decides it" if branch.asks else "it hangs on what only the run knows"
                why = f"it stands under a condition, line {branch.line + above}, that cannot be decided; {ask}"
                launch.leave(name, value, line + above, why, topic.name)


def _options(words: Iterable[Word]) -> dict[str, tuple[str, int]]:
    """Options among words, each with its value and line."""
    found: dict[str, tuple[str, int]] = {}
    name = ""
    for text, line in ((part, word.line) for word in words for part in word.text.split()):
        if re.match(r"--?[A-Za-z]", text):
            name, _, value = text.partition("=")
            found[name] = (value, line)
        elif name and not found[name][0]:
            found[name] = (text, line)
    return found


@cache
def _topics() -> Mapping[str, Topic]:
    return {topic.name: topic for topic, _ in _rules()[2]}


def _plain(name: str) -> str:
    return name.lstrip("-").replace("-", "_").casefold()
