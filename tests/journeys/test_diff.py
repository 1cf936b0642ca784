"""The comparison of snapshots through the command line: what is found, what is masked, what is refused."""

import contextlib
import io
import json

import pytest

from reproductions.updates.regimes import Regime
from reticent.cli import main as cli
from reticent.core.corpus import Corpus, Record
from reticent.core.finding import Finding
from reticent.data.writing import write_corpus
from reticent.training.release import release_model
from tests.reproductions.update_stories import PHRASE, RARE, canary, experiment, sentences

NULLS = 24  # as many as a verdict needs where records are judged as well


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Snapshots before and after an update with one phrase, a later one, and updates without the phrase."""
    folder = tmp_path_factory.mktemp("diff")
    work = experiment()
    after = work.after(Regime.CONTINUED, [canary(12)], share=0.5)
    models = {
        "before": work.before,
        "after": after,
        "later": work.trained(after, work.data.later, "later"),
    }
    for number in range(NULLS):
        models[f"null-{number}"] = work.trained(work.before, work.data.extra[:40], f"null {number}")
    for name, model in models.items():
        release_model(model, folder / name, certificate=None)
    copies = [Record(f"secret-{place}", PHRASE) for place in range(12)]
    write_corpus(Corpus([*work.data.extra[:40], *copies]), folder / "update.jsonl")
    write_corpus(sentences(60, 9, "u"), folder / "untouched.jsonl")
    return folder


@pytest.fixture
def undrawn(monkeypatch):
    """No figure, for tests that do not look at it: to draw one takes longer than to find what it shows."""
    monkeypatch.setattr("reticent.runs.update.diff.draw_prefix_scores", lambda phrases, path: None)


def diff(story, *arguments) -> list[str]:
    return ["diff", str(story / "before"), str(story / "after"), *map(str, arguments)]


def nulls(story, numbers) -> list[object]:
    return [word for number in numbers for word in ("--null", story / f"null-{number}")]


def known(story) -> list[object]:
    corpora = ["--data", story / "update.jsonl", "--untouched", story / "untouched.jsonl"]
    return [*corpora, *nulls(story, range(NULLS))]


@pytest.fixture(scope="module")
def document(story):
    out = story / "run"
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        assert cli.run(diff(story, "--out", out, *known(story), "--then", story / "later", "--json")) == 0
    return json.loads(shown.getvalue())


def test_the_phrase_is_found_above_the_null_with_the_records_that_hold_it(story, document):
    first = document["updates"][0]["phrases"][0]
    assert first["differential_score"] > 2.0
    assert first["rank_at_least"] == 0
    assert first["above_null"] is True
    assert first["p_value"] == pytest.approx(1 / 25)
    assert document["updates"][0]["null"]["needed"] == NULLS
    assert first["in_update"] is True
    assert first["in_untouched"] is False
    assert first["records"] == [f"secret-{place}" for place in range(12)]
    assert sum(first["by_prefix_length"]) == pytest.approx(first["differential_score"], abs=1e-6)
    findings = {one["metric"]: Finding.from_json(one) for one in document["findings"][:4]}
    assert findings["largest_differential_score"].beats_null
    assert findings["exposed_records"].value == pytest.approx(12 / 52)
    assert findings["bits_gained_per_token"].value > findings["bits_gained_per_token"].null
    assert findings["update_auc"].value > 0.5


def test_a_phrase_is_followed_through_later_snapshots(document):
    came, went = document["updates"][0]["phrases"][0]["by_update"]
    assert came > 2.0
    assert went < -1.0
    assert len(document["updates"]) == 2


def test_records_say_how_many_bits_each_gained_most_first(story, document):
    records = json.loads((story / "run" / "records.json").read_text())["records"]
    bits = [record["bits"] for record in records]
    assert bits == sorted(bits, reverse=True)
    assert len(records) == 52
    assert all(record["id"].startswith("secret") and 0 in record["phrases"] for record in records[:12])
    assert all(record["exposed"] is record["id"].startswith("secret") for record in records)
    assert not any("window" in record for record in records)


def test_no_word_of_the_phrase_stands_in_any_file_or_on_the_screen_unless_asked(story, document, tmp_path, capsys):
    written = "".join(path.read_text() for path in (story / "run").glob("*.json")) + json.dumps(document)
    assert not [word for word in RARE if word in written]
    assert (story / "run" / "prefix_scores.png").stat().st_size > 1000
    assert cli.run(diff(story, "--out", tmp_path / "masked", "--length", 3, "--halving", *known(story))) == 0
    masked = capsys.readouterr().out
    assert not [word for word in RARE if word in masked]
    assert "≥ 0" in masked
    assert "lower bound" in masked
    assert cli.run(diff(story, "--out", tmp_path / "shown", "--reveal")) == 0
    shown = capsys.readouterr().out
    assert RARE[0] in shown
    assert "No verdict: too few null snapshots" in shown
    assert PHRASE in (tmp_path / "shown" / "phrases.json").read_text()


@pytest.mark.usefixtures("undrawn")
def test_what_is_proved_is_said_and_the_largest_score_is_then_known_exactly(story, tmp_path, capsys):
    short = ["--length", 3, "--top", 2]
    assert cli.run(diff(story, "--out", tmp_path / "json", *short, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    update = document["updates"][0]
    exact = [one["rank_is_exact"] for one in update["phrases"]]
    assert exact[0]
    assert sum(exact) == update["proved"]
    assert exact == sorted(exact, reverse=True)
    assert update["ceiling"] < update["phrases"][update["proved"] - 1]["differential_score"]
    largest = Finding.from_json(document["findings"][0])
    assert largest.low == largest.value == largest.high
    assert any("proved" in note for note in largest.notes)
    assert cli.run(diff(story, "--out", tmp_path / "shown", *short)) == 0
    assert "Proved" in capsys.readouterr().out
    assert cli.run(diff(story, "--out", tmp_path / "beam", *short, "--halving", "--json")) == 0
    beam = json.loads(capsys.readouterr().out)
    assert (beam["updates"][0]["proved"], beam["updates"][0]["ceiling"]) == (0, "inf")
    assert Finding.from_json(beam["findings"][0]).high == 3.0


@pytest.mark.usefixtures("undrawn")
def test_a_prefix_that_is_known_leads_to_the_rest(story, tmp_path, capsys):
    arguments = ["--prefix", " ".join(RARE[:2]), "--length", 3, "--reveal", "--json", "--out", tmp_path / "run"]
    assert cli.run(diff(story, *arguments)) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["updates"][0]["phrases"][0]["text"] == " ".join(RARE[2:])
    assert RARE[0] not in (tmp_path / "run" / "run.json").read_text()


def test_groups_show_phrases_with_other_beginnings(story, tmp_path, capsys):
    arguments = [
        "--groups",
        3,
        "--top",
        1,
        "--width",
        12,
        "--relative",
        "--json",
        "--reveal",
        "--out",
        tmp_path / "run",
    ]
    assert cli.run(diff(story, *arguments)) == 0
    phrases = json.loads(capsys.readouterr().out)["updates"][0]["phrases"]
    assert len({phrase["group"] for phrase in phrases}) == len(phrases) == 3
    assert len({phrase["text"].split()[0] for phrase in phrases}) == 3


@pytest.mark.usefixtures("undrawn")
def test_what_was_removed_is_found_with_the_roles_swapped(story, tmp_path, capsys):
    words = ["diff", story / "after", story / "later", "--removed", "--width", 40, "--reveal", "--json"]
    assert cli.run([str(word) for word in [*words, "--out", tmp_path / "run"]]) == 0
    phrases = [one["text"] for one in json.loads(capsys.readouterr().out)["updates"][0]["phrases"]]
    assert phrases[0].endswith(" ".join(RARE[1:]))
    assert PHRASE in phrases


@pytest.mark.usefixtures("undrawn")
def test_an_update_without_the_phrase_shows_nothing_above_the_null(story, tmp_path, capsys):
    words = ["diff", story / "before", story / "null-0", *nulls(story, range(1, 20)), "--out", tmp_path / "run"]
    assert cli.run([str(word) for word in words]) == 0
    assert "Nothing above the null at 95% for all phrases together." in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
def test_with_too_few_nulls_scores_are_shown_and_no_verdict(story, tmp_path, capsys):
    """The best of one null pair was once called the null, and passed every second time by chance."""
    data = ["--data", story / "update.jsonl"]
    assert cli.run(diff(story, *nulls(story, [0]), *data, "--out", tmp_path / "shown")) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "No verdict: too few null snapshots for a verdict at 95%: 1 given, at least 19 needed" in shown
    assert "exposed_records: no verdict." in shown
    assert "over the median" in shown  # which is not the null
    assert "1 null snapshot reached at most" in shown
    assert "above" not in shown
    assert cli.run(diff(story, *nulls(story, [0]), *data, "--json", "--out", tmp_path / "json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["updates"][0]["above_null"] is None
    assert {(one["above_null"], one["p_value"]) for one in found["updates"][0]["phrases"]} == {(None, None)}
    assert not any(Finding.from_json(one).beats_null for one in found["findings"])
    records = json.loads((tmp_path / "json" / "records.json").read_text())["records"]
    assert not any(record["phrases"] for record in records)


def test_a_null_that_is_the_update_itself_or_given_twice_is_refused(story, tmp_path, capsys):
    for place, names in enumerate((["after"], ["before"], ["null-0", "null-0"])):
        words = [word for name in names for word in ("--null", story / name)]
        assert cli.run(diff(story, *words, "--out", tmp_path / str(place))) == 2
        assert "the same model" in capsys.readouterr().err


def test_untouched_text_that_the_update_contains_is_refused(story, tmp_path, capsys):
    corpora = ("--data", story / "update.jsonl", "--untouched", story / "update.jsonl")
    assert cli.run(diff(story, *corpora, "--out", tmp_path / "run")) == 2
    assert "every text is also in --data" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_identical_snapshots_and_foreign_vocabularies_are_refused_in_one_line(story, tmp_path, capsys):
    same = ["diff", str(story / "before"), str(story / "before"), "--out", str(tmp_path / "one")]
    assert cli.run(same) == 2
    assert "the same model" in capsys.readouterr().err
    foreign = ["diff", str(story / "before"), "embedded", "--out", str(tmp_path / "two")]
    assert cli.run(foreign) == 2
    assert "different vocabularies" in capsys.readouterr().err
    assert not any(tmp_path.iterdir())  # what was refused left nothing
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    assert cli.run([*diff(story), "--out", str(tmp_path / "full")]) == 2
    assert "not an empty directory" in capsys.readouterr().err
