"""Words that a long sentence may have without being read, and those that no question may."""

from __future__ import annotations

import pytest

from windtunnel.errors import BadInput
from windtunnel.questions.reading import grammar, read

SENTENCE = "good morning, our hospital wants to fine tune llama3 8b on 8 h100 with some papers about chemistry"


def refusal(words: str) -> str:
    with pytest.raises(BadInput) as error:
        read(words)
    return str(error.value)


def test_plain_words_of_a_long_sentence_change_nothing_and_are_listed() -> None:
    reading = read(SENTENCE)
    assert (reading.get("count"), reading.get("task")) == (8.0, "finetune")
    assert {"hospital", "papers", "chemistry"} <= set(reading.unused)


def test_a_short_question_has_no_unread_word() -> None:
    assert "chemistry: was not read" in refusal("fine tune llama3 8b on 8 h100 chemistry")


@pytest.mark.parametrize("word", ["without", "half", "not", "except", "minus", "two"])
def test_what_turns_a_meaning_around_is_never_passed_over(word: str) -> None:
    assert f"{word}: was not read" in refusal(f"{SENTENCE} {word}")


@pytest.mark.parametrize("words", ["40 doctors", "with 3 bananas"])
def test_a_number_is_never_passed_over_nor_what_stands_beside_it(words: str) -> None:
    assert words.rpartition("with ")[2] in refusal(f"{SENTENCE} {words}")


@pytest.mark.parametrize(("word", "near"), [("throughtput", "throughput"), ("precison", "precision")])
def test_a_slip_of_the_pen_is_named(word: str, near: str) -> None:
    assert f"did you mean '{near}'" in refusal(f"{SENTENCE} {word}")


@pytest.mark.parametrize("word", ["selective", "offline", "interleaved schedule", "fp9"])
def test_a_word_that_decides_elsewhere_is_no_context(word: str) -> None:
    try:
        assert word.split(maxsplit=1)[0] not in read(f"{SENTENCE} {word}").unused
    except BadInput as error:
        assert word.split(maxsplit=1)[0] in str(error)


def test_no_word_is_of_two_kinds() -> None:
    assert not grammar().turning & (grammar().idle | grammar().context)
