"""The text that experiments are made of: subjects of newsgroups, domains of the PII games, codes to each model."""

import json

import pytest

from reproductions.pii.domains import DOMAINS, TAB_FILE, domain_text
from reproductions.updates.text import (
    ARTICLES,
    HOCKEY,
    MESSAGES,
    MIDEAST,
    read_group,
    sentences,
    subject_words,
)
from reticent.core.randomness import Randomness


def test_sentences_are_lower_case_with_marks_apart():
    assert list(sentences("The  Puck\nwas in the net! Yes.")) == ["the puck was in the net !"]


def test_words_of_a_subject_are_four_times_as_frequent_as_elsewhere():
    own = ["the goal was good"] * 10 + ["the vote"] * 10
    other = ["the vote was long"] * 30
    assert subject_words(own, other) == {"goal", "good"}
    assert subject_words(own, own) == set()


@pytest.fixture
def newsgroups(tmp_path):
    def row(number, group, text):
        return json.dumps({"id": str(number), "group": group, "text": text})

    quoted = "In article <1@x.org> joe@x.org writes:\n> never was a quoted goal shown\n"
    rows = [row(n, HOCKEY, f"{quoted}The goal number {n} was a good one.") for n in range(20)]
    rows += [row(n + 50, MIDEAST, f"The vote number {n} was a long one.") for n in range(20)]
    (tmp_path / MESSAGES).write_text("\n".join(rows))
    (tmp_path / ARTICLES).write_text(" = Title = \n The <unk> article was a short one . \n")
    return tmp_path


def test_a_group_is_read_without_quotes_and_addresses_beside_the_other_one(newsgroups):
    text = read_group(newsgroups, HOCKEY, public=8, messages=5, randomness=Randomness.seeded(1))
    assert (len(text.original), len(text.extra), len(text.update)) == (8, 8, 5)
    assert not {record.text for record in text.original} & {record.text for record in text.extra}
    assert all("vote" in record.text for record in [*text.original, *text.extra])
    assert all("quoted" not in record.text and "joe" not in record.text for record in text.update)
    assert text.subject == {"goal", "good"}
    assert text.subject_words(["a goal was good", "the vote was long"]) == [2, 0]
    assert "goal" not in repr(text)


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_owner_of_a_domain_is_on_both_sides_and_every_record_names_a_person(domain, request):
    data = request.getfixturevalue("shared") / "data" if domain == "TAB" else None
    sizes = (60, 53) if domain == "TAB" else (20, 40)
    text = domain_text(domain, sizes[0], held_out=sizes[1], data=data, randomness=Randomness.seeded(1))
    owners = [{record.owner for record in side} for side in (text.training, text.held_out)]
    assert owners[0]
    assert owners[1]
    assert not owners[0] & owners[1]
    assert text.values.of_kind("PERSON")
    if domain != "case law":
        assert all(any(span.kind == "PERSON" for span in record.spans) for record in text.training)


def test_the_court_cases_are_read_from_a_folder_alone():
    with pytest.raises(ValueError, match="folder"):
        domain_text("TAB", 1, held_out=1, data=None, randomness=Randomness.seeded(1))
    assert TAB_FILE.endswith(".jsonl")
