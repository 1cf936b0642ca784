"""What starting models were trained on: what is refused, what is added up, and what is only assumed."""

import json
import math
import unicodedata
from dataclasses import replace

import pytest

from reticent.accounting.guarantees import dp_sgd_guarantee, guarantee_of
from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ConfigError
from reticent.core.event import FilteredCharge, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours, Notion, Unit
from reticent.runs.directory import RunDirectory
from reticent.runs.proofs.ancestry import Ancestor, Ancestry, Members, ancestry_of, answers_together, together
from tests.claims import certify, claim

EVENT = Repeated(SampledGaussian(1.0, 0.05), 100)
MAILS = Corpus(Record(f"m{i}", f"Mail number {i}", owner=f"owner-{i % 5}") for i in range(20))
OTHERS = Corpus(Record(f"x{i}", f"Another text {i}", owner=f"stranger-{i}") for i in range(20))
SAME_PEOPLE = Corpus(Record(f"y{i}", f"New mail {i}", owner=f"owner-{i % 5}") for i in range(20))


def proved(unit=Unit.RECORD, neighbours=Neighbours.ADD_REMOVE):
    return dp_sgd_guarantee(
        EVENT,
        delta=1e-5,
        unit=unit,
        neighbours=neighbours,
        assumes=("the tokenizer and the initial model were made without the private text",),
    )


def after(guarantee, corpus=MAILS):
    return Ancestry("base", is_public=True).followed_by("first", guarantee, corpus)


@pytest.mark.parametrize("unit", [Unit.RECORD, Unit.OWNER])
def test_a_model_trained_plainly_on_the_text_is_refused(unit):
    with pytest.raises(ConfigError, match="trained plainly on text of this corpus"):
        together(proved(unit), after(None).compared_with(MAILS))
    one_shared = Corpus([*OTHERS, MAILS[3]])
    with pytest.raises(ConfigError, match="1 text and 1 owner in common"):
        together(proved(unit), after(None).compared_with(one_shared))


def test_case_and_white_space_do_not_hide_a_shared_text():
    dressed = Corpus([Record("z", "  MAIL   number\t4 ")])
    assert Members.of(MAILS).shared(dressed).texts == 1
    assert Members.of(MAILS).shared(OTHERS).texts == 0


@pytest.mark.parametrize(
    "dressed",
    [
        unicodedata.normalize("NFD", "Der Schlüssel von Zoë"),
        "Der Schlu\u0308ssel von Zoe\u0308",
        "DER SCHLÜSSEL VON ZOË",
        "Der Schlüssel\u00a0von Zoë",
        "Der Schl\u00adüssel von\u200b Zoë\ufeff",
        "\u202aDer Schlüssel von Zoë\u202c",
        "Ｄｅｒ Schlüssel von Zoë",
    ],
)
def test_no_way_of_writing_the_same_letters_hides_a_shared_text(dressed):
    plain = Corpus([Record("k", "Der Schlüssel von Zoë")])
    assert Members.of(plain).shared(Corpus([Record("z", dressed)])).texts == 1
    assert Members.of(plain).shared(Corpus([Record("z", dressed + "s")])).texts == 0


def test_an_owner_is_compared_also_where_the_id_of_a_record_is_the_owners_name():
    named = Corpus([Record("ann", "first", owner="ann"), Record("2", "second", owner="bob")])
    again = Corpus([Record("7", "third", owner="ann")])
    assert Members.of(named).shared(again).owners == 1


def test_owners_that_one_of_the_corpora_does_not_name_are_not_said_to_differ():
    nameless = Corpus(Record(f"line {i}", f"Other text {i}") for i in range(3))
    said = together(proved(Unit.OWNER), after(None).compared_with(nameless)).assumes[-1]
    assert "owners were not compared" in said
    assert "no owner is shared" not in said


def test_the_first_model_of_a_chain_is_assumed_to_be_public_where_nobody_knows():
    chain = Ancestry("some/hub-id").followed_by("first", None, OTHERS).compared_with(MAILS)
    assert (
        "the model that first started from has not seen the private text" in together(proved(), chain).assumes[-1]
    )


@pytest.mark.parametrize(
    "broken", [{"runs": 3}, {"runs": [{}]}, {"runs": [5]}, {"runs": None}, {"is_public": None}]
)
def test_a_damaged_ancestry_is_refused_in_words(tmp_path, broken):
    after(proved()).write(tmp_path)
    document = json.loads((tmp_path / "ancestry.json").read_text())
    for key, value in broken.items():
        document[key] = value
    (tmp_path / "ancestry.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="not an ancestry that this version can read"):
        ancestry_of(str(tmp_path))


@pytest.mark.parametrize("key", ["key", "texts", "owners"])
def test_damaged_hashes_are_refused_in_words(tmp_path, key):
    after(None).write(tmp_path)
    document = json.loads((tmp_path / "ancestry.json").read_text())
    document["runs"][0]["members"][key] = "xyz"
    (tmp_path / "ancestry.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError, match="not an ancestry that this version can read"):
        ancestry_of(str(tmp_path))


def test_other_texts_of_the_same_people_concern_owners_and_not_records():
    ancestry = after(None).compared_with(SAME_PEOPLE)
    with pytest.raises(ConfigError, match="0 texts and 5 owners"):
        together(proved(Unit.OWNER), ancestry)
    assert "no equal text is shared" in together(proved(Unit.RECORD), ancestry).assumes[-1]


def test_record_ids_are_no_owners():
    """Without owners each record is its own: line numbers of two files must not look like shared people."""
    one = Corpus(Record(str(i), f"first {i}") for i in range(9))
    two = Corpus(Record(str(i), f"second {i}") for i in range(9))
    assert Members.of(one).shared(two).owners is None


def test_two_private_trainings_on_one_text_compose():
    first, second = proved(), proved()
    whole = together(second, after(first).compared_with(MAILS))
    twice = dp_sgd_guarantee(Repeated(EVENT, 2), delta=1e-5)
    assert whole.epsilon == pytest.approx(twice.epsilon, rel=1e-6)
    assert whole.epsilon > second.epsilon  # the twin that prints the second run alone
    assert not [line for line in whole.assumes if "initial model were made without" in line]
    assert "first started from were public" in whole.assumes[-1]


def test_a_chain_of_three_counts_every_link_once():
    chain = after(proved()).compared_with(MAILS).followed_by("second", proved(), MAILS).compared_with(MAILS)
    whole = together(proved(), chain)
    assert whole.epsilon == pytest.approx(dp_sgd_guarantee(Repeated(EVENT, 3), delta=1e-5).epsilon, rel=1e-6)


def test_private_training_on_other_text_costs_this_text_nothing_and_is_said():
    whole = together(proved(Unit.OWNER), after(proved(Unit.OWNER)).compared_with(OTHERS))
    assert whole.epsilon == proved(Unit.OWNER).epsilon
    assert "no equal text and no owner is shared" in whole.assumes[-1]


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        (proved(Unit.OWNER), proved(Unit.RECORD)),
        (replace(proved(), notion=Notion.CONFIDENTIALITY), proved()),
        (proved(), replace(proved(), notion=Notion.CONFIDENTIALITY, unit=Unit.SECRET, neighbours=Neighbours.MASK)),
        (replace(proved(), basis=None), proved()),
    ],
)
def test_promises_of_different_kinds_are_refused_not_added(earlier, now):
    with pytest.raises(ConfigError, match="do not add up"):
        together(now, after(earlier).compared_with(MAILS))


def test_an_unknown_origin_is_said_aloud():
    assert "nothing beside it tells" in together(proved(), Ancestry("some/hub-id")).assumes[-1]
    known = together(proved(), Ancestry("embedded", is_public=True))
    assert known.assumes == proved().assumes
    nameless = Ancestry("base", (Ancestor("run", proved(), None),))
    assert "nothing beside it tells" in together(proved(), nameless).assumes[-1]


def test_answers_over_a_private_base_add_its_price_for_their_own_neighbours():
    answers = guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.OWNER)
    whole = answers_together(answers, after(proved(Unit.OWNER)).compared_with(MAILS))
    base = proved(Unit.OWNER, Neighbours.REPLACE)
    assert whole.epsilon == pytest.approx(answers.epsilon + base.epsilon)
    assert base.epsilon > proved(Unit.OWNER).epsilon  # adding the add-remove price would be too little
    part = guarantee_of(FilteredCharge(8.0, 0.5), delta=1e-5, unit=Unit.PART)
    with pytest.raises(ConfigError, match="do not add up"):
        answers_together(part, after(proved(Unit.OWNER)).compared_with(MAILS))
    with pytest.raises(ConfigError, match="trained plainly"):
        answers_together(part, after(None).compared_with(MAILS))


def test_ancestry_is_read_as_written_and_found_from_any_folder_of_the_run(tmp_path):
    run = tmp_path / "run"
    for folder in (run / "model", run / "members" / "part-00" / "model"):
        folder.mkdir(parents=True)
    after(proved()).compared_with(OTHERS).write(run)
    for folder in (run / "model", run / "members" / "part-00" / "model"):
        certify(folder, proved())
    assert (run / "ancestry.json").stat().st_mode & 0o777 == 0o600
    for place in (run, run / "model", run / "members" / "part-00" / "model"):
        found = ancestry_of(str(place)).compared_with(MAILS)
        assert found.runs[0].shared.texts == len(MAILS)
        assert together(proved(), found).epsilon > proved().epsilon
    assert "Mail number" not in (run / "ancestry.json").read_text()


def test_edited_ancestry_is_refused(tmp_path):
    after(proved()).write(tmp_path)
    document = json.loads((tmp_path / "ancestry.json").read_text())
    document["runs"][0]["guarantee"]["epsilon"] = 0.01
    (tmp_path / "ancestry.json").write_text(json.dumps(document))
    with pytest.raises(ConfigError.__mro__[1], match="does not follow"):
        ancestry_of(str(tmp_path))


def test_starting_points_without_a_run_are_public_or_unknown(tmp_path):
    assert ancestry_of("embedded").is_public
    assert ancestry_of("lstm:1x200").is_public
    assert ancestry_of("gpt2") == Ancestry("gpt2")
    (tmp_path / "model").mkdir()
    assert ancestry_of(str(tmp_path / "model")).runs == ()
    certify(tmp_path / "model", claim(2.0))
    (run,) = ancestry_of(str(tmp_path / "model")).runs
    assert run.guarantee.epsilon == pytest.approx(2.0, rel=1e-3)
    assert run.members is None
    RunDirectory(tmp_path).start("train", config={}, seed=0, corpora={})
    (run,) = ancestry_of(str(tmp_path / "model")).runs
    assert run.name == tmp_path.name
    assert run.members is None


def test_a_folder_of_the_embedded_models_name_is_not_said_to_be_public(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "embedded").mkdir()
    assert not ancestry_of("embedded").is_public


def test_a_promise_of_nothing_stays_one():
    nothing = replace(proved(), epsilon=math.inf, delta=0.0, basis=None)
    assert together(nothing, after(None).compared_with(OTHERS)).epsilon == math.inf
