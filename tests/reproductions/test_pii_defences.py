"""The defence table: its text, its tagger, and, slowly, what each defence leaves of every game."""

import json

import pytest

from reproductions.pii.case_law import ShapeTagger, make_case_law
from reproductions.pii.defences import (
    COLUMNS,
    DefenceTable,
    TableSettings,
    compare_scorings,
    measure_defence,
    prepare_games,
)
from reproductions.pii.training import Defence, TrainingSettings, train_defended
from reticent.core.errors import ConfigError
from reticent.core.finding import Verdict
from reticent.core.randomness import Randomness


@pytest.fixture(scope="module")
def case_law():
    return make_case_law(30, held_out=60, randomness=Randomness.seeded(5))


def test_no_owner_is_on_both_sides_and_paragraphs_keep_their_labels(case_law):
    assert set(case_law.training.owners).isdisjoint(case_law.held_out.owners)
    assert len(case_law.values.of_kind("PERSON")) > 50
    for record in case_law.training:
        assert "\n\n" not in record.text
        assert all(record.text[s.start : s.end].strip() for s in record.spans)


def test_the_tagger_is_measured_and_scrubbing_leaves_what_it_misses(case_law):
    recall, precision = case_law.tagged.recall, case_law.tagged.precision
    assert recall.value is not None
    assert precision.value is not None
    assert recall.value > 0.98
    assert precision.value > 0.95
    left = [record for record in case_law.scrubbed(case_law.training) if record.spans]
    assert len(left) <= recall.trials - recall.hits
    low, high = recall.interval
    assert f"{low:.3f} to {high:.3f}" in case_law.tagger_note


def test_shapes_tag_what_a_model_garbles_like_a_real_name():
    text = "The Court heard Qwilbert Z. Foozle of Nether in Mount Blark before the Regional Court."
    found = [(text[s.start : s.end], s.kind) for s in ShapeTagger().find([text])[0]]
    assert ("Qwilbert Z. Foozle", "PERSON") in found
    assert ("Mount Blark", "LOC") in found
    assert not any("Court" in value for value, _ in found)


def test_rows_of_the_table_are_in_the_papers_order():
    assert [defence.value for defence in Defence] == ["undefended", "DP", "scrubbed", "DP and scrubbed"]
    assert [d.is_private for d in Defence] == [False, True, False, True]
    assert [d.is_scrubbed for d in Defence] == [False, False, True, True]


def test_the_table_is_made_from_end_to_end_and_holds_no_value():
    """Every game of every row at the smallest size: no figure is judged, all are there."""
    settings = TableSettings(
        cases=5,
        held_out=8,
        texts=4,
        targets=3,
        candidates=4,
        draws=4,
        training=TrainingSettings(epochs=1, private_epochs=1, private_batch=16),
    )
    games = prepare_games(settings)
    table = DefenceTable(
        tuple(
            measure_defence(
                train_defended(games.case_law, defence, settings=settings.training), games, settings=settings
            )
            for defence in Defence
        )
    )
    for row in table.rows:
        assert row.perplexity > 1.0
        assert row.masked_perplexity > 1.0
        assert set(COLUMNS.values()) - {"pii_precision"} <= {finding.metric for finding in row.findings}
        judged = {one.finding.metric for one in row.comparisons}
        assert judged == ({"inference_accuracy", "auc"} if row.defence.is_private else set())
    written = json.dumps(table.to_json())
    values = games.case_law.values
    assert not any(value.reveal() in written for value in values)


def test_too_few_decoys_are_told_before_anything_is_trained():
    with pytest.raises(ConfigError, match="enough decoys"):
        prepare_games(TableSettings(cases=3, held_out=3, texts=1, targets=2, candidates=500))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_defences_bring_every_game_to_its_ceiling_or_to_chance():
    """Four trainings of the embedded model, about eight minutes of one core. Run with -s to read the table.

    Undefended, of 40 targets: TAB 2, top-1 13, inference 31 (chance 0.8); by sentence perplexity 12 and 24.
    Another development seed gave 1.7 times TAB, so the factor of 2 belongs to this seed.
    """
    settings = TableSettings()
    games = prepare_games(settings)
    rows = {}
    for defence in Defence:
        defended = train_defended(games.case_law, defence, settings=settings.training)
        rows[defence] = measure_defence(defended, games, settings=settings)
        shown = {name: rows[defence].value(metric) for name, metric in COLUMNS.items()}
        print(defence.value, rows[defence].perplexity, rows[defence].masked_perplexity, shown, flush=True)
        for one in rows[defence].comparisons:
            print("   ", one.finding.metric, one.finding.value, one.ceiling, one.verdict.value, flush=True)
        if defence is Defence.UNDEFENDED:
            ranked = {each.scoring: each for each in compare_scorings(defended.model, games, settings=settings)}
            print(*ranked.values(), sep="\n", flush=True)
    plain = {metric: rows[Defence.UNDEFENDED].value(metric) for metric in COLUMNS.values()}
    best, rival = ranked["span in context, calibrated"], ranked["sentence perplexity"]
    assert plain["inference_accuracy_trained"] >= 5 / settings.candidates
    assert plain["reconstruction_top1"] >= 2 * plain["reconstruction_tab"]
    assert best.inference > rival.inference
    assert best.reconstruction >= rival.reconstruction  # one target apart
    for defence in (Defence.DP, Defence.SCRUBBED, Defence.DP_SCRUBBED):
        row = rows[defence]
        assert row.value("pii_recall") < plain["pii_recall"] / 2
        assert row.value("reconstruction_top1") < plain["reconstruction_top1"] / 4
        assert row.value("inference_accuracy_trained") < plain["inference_accuracy_trained"] / 4
        assert all(one.verdict is not Verdict.REFUTED for one in row.comparisons)
    written = json.dumps([row.to_json() for row in rows.values()])
    assert not any(value.reveal() in written for value in games.case_law.values)
