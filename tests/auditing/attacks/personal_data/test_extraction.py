"""The extraction game is exact for a model that emits a given list; mistakes of published code are caught."""

import json

import pytest

from reticent.auditing.attacks.personal_data.extraction import (
    ExtractionGame,
    sample_texts,
    tag_texts,
    token_lengths,
)
from reticent.auditing.attacks.personal_data.findings import PiiSetting, extraction_findings
from reticent.auditing.attacks.personal_data.inventory import PiiInventory, take_inventory, widened
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret
from reticent.data.generators import generate_cases, secrets_of
from reticent.data.policies.combined import Dictionary
from tests.auditing.attacks.personal_data.small_models import Emitting, by_heart, names, people, tagger

SAMPLING = Sampling(max_tokens=32)


@pytest.fixture(scope="module")
def cases() -> Corpus:
    return generate_cases(30, randomness=Randomness.seeded(3))


def emitted(texts, finds):
    model = Emitting(texts)
    return tag_texts(sample_texts(model, len(texts), sampling=SAMPLING, randomness=Randomness.seeded(0)), finds)


def gazetteer(cases, strangers):
    return Dictionary({s.reveal(): s.kind for s in secrets_of(cases)} | dict.fromkeys(strangers, "PERSON"))


def test_precision_and_recall_are_exact_for_an_emitted_list(cases):
    training = take_inventory(cases)
    strangers = names(0, 5)
    known = [value for value in training if value.kind == "PERSON"][:10]
    texts = [f"Then {value.reveal()} spoke." for value in known] + [f"Then {name} spoke." for name in strangers]
    game = ExtractionGame(training, emitted(texts, gazetteer(cases, strangers)))
    row = game.total
    assert (row.training, row.emitted, row.hits) == (len(secrets_of(cases)), 15, 10)
    assert row.precision == 10 / 15
    assert row.recall == 10 / len(secrets_of(cases))
    assert game.hits == set(known)
    by_kind = {each.group: each for each in game.by_kind()}
    assert by_kind["PERSON"].recall == 10 / len(training.of_kind("PERSON"))
    assert (by_kind["DATE"].emitted, by_kind["DATE"].precision, by_kind["DATE"].recall) == (0, None, 0.0)


def test_repeats_change_neither_precision_nor_recall(cases):
    training, strangers = take_inventory(cases), names(0, 5)
    known = [value.reveal() for value in training.of_kind("PERSON")][:10]
    texts = [f"Then {name} spoke." for name in [*known, *strangers]]
    finds = gazetteer(cases, strangers)
    once = ExtractionGame(training, emitted(texts, finds)).total
    often = ExtractionGame(training, emitted([*texts, *texts[:3] * 20], finds)).total
    assert once == often
    copied = Corpus([*cases, *(Record(f"again {r.id}", r.text, r.owner, r.spans) for r in cases)])
    assert ExtractionGame(take_inventory(copied), emitted(texts, finds)).total == once
    # The twin that divides by mentions, as published code did, is moved by repeats.
    by_mentions = [10 / sum(len(m) for m in take_inventory(c).mentions.values()) for c in (cases, copied)]
    assert by_mentions[0] != by_mentions[1]


def test_nothing_found_is_a_row_with_recall_zero_and_no_precision(cases):
    training = take_inventory(cases)
    game = ExtractionGame(training, emitted(["Nothing to see here."], gazetteer(cases, [])))
    row = game.total
    assert (row.emitted, row.hits, row.precision, row.recall) == (0, 0, None, 0.0)
    document = row.to_json(confidence=0.95, miss_rate=0.0)
    assert document["precision"] is None
    assert document["precision_interval"] == [0.0, 1.0]
    assert document["recall_interval"][0] == 0.0 < document["recall_interval"][1]
    (found,) = extraction_findings(game, setting=PiiSetting())
    assert (found.metric, found.value, found.n) == ("pii_recall", 0.0, len(training))
    assert any("no value was emitted" in note for note in found.notes)
    assert game.ranked() == ()
    assert game.over_tokens()[-1].hits == 0


def test_intervals_of_a_row_count_the_values_of_one_owner_together():
    """Five people of ten values each, all of one person's emitted: five independent trials, not fifty."""
    texts = [f"{name}." for name in names(0, 50)]
    spans = [(Span(0, len(text) - 1, "PERSON"),) for text in texts]
    finds = Dictionary({text[:-1]: "PERSON" for text in texts})
    rows = []
    for owners in ([f"o{place // 10}" for place in range(50)], [""] * 50):
        records = [Record(str(place), text, owners[place], spans[place]) for place, text in enumerate(texts)]
        game = ExtractionGame(take_inventory(records), emitted(texts[:10], finds))
        rows.append(game.total.to_json(confidence=0.95, miss_rate=0.0))
    by_owner, by_record = rows
    assert by_owner["recall"] == by_record["recall"] == 0.2
    assert by_owner["recall_interval"][1] > by_record["recall_interval"][1] + 0.2
    assert by_owner["precision_interval"][0] < 0.1 < by_record["precision_interval"][0]


def test_what_the_base_emits_too_stays_in_the_denominator(cases):
    training, finds = take_inventory(cases), gazetteer(cases, names(0, 5))
    known = [value.reveal() for value in training.of_kind("PERSON")][:10]
    mine = emitted([*known, *names(0, 5)], finds)
    game = ExtractionGame(training, mine, emitted(known[:4], finds))
    row = game.total
    assert (row.hits, row.beyond_base) == (10, 6)
    assert row.precision_beyond_base == 6 / 15  # not 6/11, the accuracy conditional on disagreement
    assert row.recall_beyond_base == 6 / len(training)
    values = {finding.metric: finding for finding in extraction_findings(game, setting=PiiSetting())}
    assert values["pii_precision_beyond_base"].n == 15
    assert values["pii_recall_beyond_base"].n == len(training)


def test_rows_by_duplication_and_length_part_the_whole(cases):
    training = take_inventory(cases)
    model = by_heart(["abc"])
    known = list(training)[:40]
    game = ExtractionGame(training, emitted([v.reveal() for v in known], gazetteer(cases, [])))
    game = ExtractionGame(training, game.emitted, None, token_lengths(model, list(training)))
    for rows in (game.by_duplication(), game.by_length((1, 10, 20)), game.by_kind()):
        assert sum(row.training for row in rows) == len(training)
        assert sum(row.hits for row in rows) == game.total.hits == 40
    assert all(row.precision is None for row in game.by_duplication())
    first = next(row for row in game.by_duplication() if row.group == "1")
    assert first.training == sum(count == 1 for count in secrets_of(cases).values())


def test_curve_over_sampled_tokens_ends_at_the_whole_game():
    persons = names(0, 20)
    training = take_inventory(people(persons[:15]))
    game = ExtractionGame(training, emitted([f"{name} spoke twice" for name in persons], tagger(persons)))
    curve = game.over_tokens(points=5)
    assert [point.emitted for point in curve] == [4, 8, 12, 16, 20]
    assert [point.hits for point in curve] == [4, 8, 12, 15, 15]
    assert curve[-1].after == sum(game.emitted.sampled.lengths) == 80  # words: tokens are not seen
    assert (curve[-1].precision, curve[-1].recall) == (game.total.precision, game.total.recall)


def test_values_of_equal_rank_enter_the_precision_recall_curve_together():
    persons = names(0, 6)
    training = take_inventory(people(persons[:3]))
    texts = [persons[0]] * 3 + [persons[4]] * 2 + [persons[1]] * 2 + [persons[5]]
    game = ExtractionGame(training, emitted(texts, tagger(persons)))
    points = [(point.emitted, point.hits) for point in game.ranked()]
    assert points == [(1, 1), (3, 2), (4, 2)]
    with pytest.raises(ValueError, match="one score for every"):
        game.ranked({Secret(persons[0], "PERSON"): 1.0})


def test_held_out_values_give_the_null_and_shared_ones_are_left_out():
    persons = names(0, 40)
    training, held_out = take_inventory(people(persons[:20])), take_inventory(people(persons[15:]))
    game = ExtractionGame(training, emitted(persons[:12] + persons[20:22], tagger(persons)))
    recall = extraction_findings(game, setting=PiiSetting(), held_out=held_out)[0]
    assert recall.value == 12 / 20
    assert recall.null is not None
    assert 2 / 20 < recall.null < 0.4
    assert recall.beats_null


def test_a_model_that_emits_both_sides_alike_does_not_beat_the_null():
    persons = names(0, 40)
    training, held_out = take_inventory(people(persons[:20])), take_inventory(people(persons[20:]))
    game = ExtractionGame(training, emitted(persons[::2], tagger(persons)))
    assert not extraction_findings(game, setting=PiiSetting(), held_out=held_out)[0].beats_null


def test_a_tagger_that_misses_widens_recall_to_hold_the_true_share():
    persons = names(0, 40)
    records = people(persons)
    missing = [Span(s.start, s.end, s.kind) for r in records for s in r.spans]
    spans = [(span,) if place >= 10 else () for place, span in enumerate(missing)]  # a quarter is missed
    found = PiiInventory(list(records), spans, miss_rate=0.25)
    for said in (persons[:10], persons[10:20], persons[5:25]):
        game = ExtractionGame(found, emitted(said, tagger(persons)))
        recall = extraction_findings(game, setting=PiiSetting())[0]
        truth = len(said) / 40
        assert recall.low <= truth <= recall.high
        assert any("miss rate" in note for note in recall.notes)
    assert widened(0.2, 0.4, 0.0) == (0.2, 0.4)
    assert widened(1.0, 1.0, 0.25) == (0.75, 1.0)


def test_labels_that_annotators_left_in_clear_are_no_values():
    record = Record("r", "Ada Abel and Ben Bock", spans=(Span(0, 8, "PERSON"), Span(13, 21, "PERSON", "none")))
    assert len(take_inventory([record])) == 1


def test_nothing_written_or_shown_holds_a_value(cases):
    training, finds = take_inventory(cases), gazetteer(cases, [])
    game = ExtractionGame(training, emitted([value.reveal() for value in training], finds))
    findings = extraction_findings(game, setting=PiiSetting(), held_out=training)
    rows = [*game.by_kind(), *game.by_duplication(), game.total]
    shown = repr([training, game.emitted, game, rows, findings, game.hits])
    written = json.dumps([f.to_json() for f in findings] + [r.to_json(confidence=0.9, miss_rate=0.1) for r in rows])
    assert game.total.recall == 1.0
    for value in training:
        assert value.reveal() not in shown + written
