"""The demo's story, small: undefended leaks, the defended stay within what was proved, the page stands."""

import dataclasses
import io
import json
import math
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from reticent.accounting.bounds.ceiling import compare_with_guarantee
from reticent.cli import main as cli
from reticent.cli.demo import _lines
from reticent.core.errors import ConfigError
from reticent.core.finding import Finding, Verdict
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.model import Access
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.statistics.estimate import Estimate
from reticent.core.statistics.proportion import Share
from reticent.data.canaries import read_key
from reticent.data.generators import generate_dialogues
from reticent.runs.demo.answers import PrivateAnswers
from reticent.runs.demo.chapters import FOUND_WHOLE, of_planted
from reticent.runs.demo.corpora import messages, write_corpora
from reticent.runs.demo.scale import (
    CONSERVATIVE,
    DELTA,
    EPSILON,
    KEY,
    POLICY,
    SMALL_EPSILON,
    TRAIN,
    Recipes,
    Scale,
)
from reticent.runs.demo.settings import DemoSettings, Extent
from reticent.runs.demo.story import CODES, Story, Told, allowed_hit_rate, table_rows
from reticent.runs.demo.telling import TOTAL, tell
from reticent.runs.policies.by_name import policy_named
from reticent.training.methods.redaction import count_misses

TINY = Scale(
    customers=40,
    held_out=20,
    canaries=2,
    copies=24,
    epochs=2.0,
    batch=16,
    gradient_canaries=20,
    parts=2,
    answers=60,
    asked=8,
    targets=20,
    games=2,
    beam=16,
)


def promise(epsilon: float) -> Guarantee:
    """(ε, 0)-differential privacy for one owner."""
    return Guarantee(
        mechanism="a test",
        notion=Notion.DIFFERENTIAL_PRIVACY,
        unit=Unit.OWNER,
        neighbours=Neighbours.ADD_REMOVE,
        epsilon=epsilon,
        covers="a test",
    )


def said(hits: int, asked: int) -> Finding:
    """A share of answers that say a planted number."""
    share = hits / asked
    return Finding(
        attack="random codes",
        metric=CODES,
        value=share,
        low=0.9 * share,
        high=1.0,
        confidence=0.95,
        n=asked,
        measure="share of answers",
        unit=Unit.SECRET,
        access=Access.TEXT,
        null=1e-6,
    )


def told(finding: Finding, guarantee: Guarantee | None) -> Told:
    """A model of which one thing was measured."""
    allowed = None if guarantee is None else allowed_hit_rate(guarantee, bits=math.log2(10**6), codes=5)
    return Told(
        name="twin", perplexity=Estimate(2.0, 1.9, 2.1), findings=(finding,), guarantee=guarantee, allowed=allowed
    )


def test_the_ceiling_of_planted_numbers_is_the_sum_over_numbers():
    # Pure DP: a number of chance 1e-6 is said with at most e^ε 1e-6, five of them with five times that.
    assert allowed_hit_rate(promise(2.0), bits=math.log2(10**6), codes=5) == pytest.approx(
        5e-6 * math.e**2, rel=0.05
    )
    assert allowed_hit_rate(promise(50.0), bits=math.log2(10**6), codes=5) == 1.0


def test_a_model_that_says_more_numbers_than_was_proved_possible_is_refuted():
    assert told(said(2, 100), promise(1.0)).verdicts == {Verdict.REFUTED: 1}
    assert not told(said(0, 100), promise(1.0)).is_refuted
    assert told(said(100, 100), None).verdicts == {}
    story = Story((told(said(2, 100), promise(1.0)),), 19.9, None, None)
    assert dict(table_rows(story))["measured ≤ proved"] == ["REFUTED"]


def last_line(*models: Told) -> list[str]:
    return dict(table_rows(Story(models, 19.9, None, None)))["measured ≤ proved"]


def test_the_last_line_says_yes_only_of_ceilings_that_could_be_refuted():
    """A ceiling of 100 % allows everything: 3 findings below such ceilings were once told as "yes (3)"."""
    everything = told(said(0, 100), promise(50.0))
    assert everything.allowed == 1.0
    assert last_line(told(said(0, 100), promise(1.0)), everything, told(said(0, 100), None)) == [
        "yes, 1",
        "vacuous",
        "–",
    ]
    area = dataclasses.replace(said(50, 100), metric="auc", unit=Unit.OWNER)
    mixed = dataclasses.replace(
        everything,
        comparisons=(
            compare_with_guarantee(area, promise(50.0)),
            compare_with_guarantee(area, promise(1.0)),
            compare_with_guarantee(area, part()),
        ),
    )
    assert mixed.verdicts == {Verdict.VACUOUS: 2, Verdict.CONSISTENT: 1, Verdict.NOT_COMPARABLE: 1}
    assert last_line(mixed) == ["yes, 1"]
    assert mixed.to_json()["verdicts"] == {"consistent": 1, "refuted": 0, "vacuous ceiling": 2, "not comparable": 1}


def part() -> Guarantee:
    """A promise for another unit than the findings have."""
    return dataclasses.replace(promise(1.0), unit=Unit.PART)


def test_a_finding_above_its_null_is_marked_and_one_that_is_void_is_not_shown():
    rows = dict(table_rows(Story((told(said(2, 100), None), told(said(0, 100), None)), 19.9, None, None)))
    assert rows["canary hit rate (%)"] == ["2.0 ▲", "0.0"]
    assert rows["membership (AUC)"] == ["–", "–"]


def test_the_share_of_the_gap_is_that_of_the_logarithms():
    public, undefended, between = (
        dataclasses.replace(told(said(0, 100), None), name=name, perplexity=Estimate(value, value, value))
        for name, value in (("public", 64.0), ("undefended", 4.0), ("dp-sgd", 8.0))
    )
    story = Story((public, undefended, between), 19.9, None, None)
    assert dict(table_rows(story))["  gap closed (%)"] == ["0", "100", "75"]
    assert Story((public,), 19.9, None, None).closed(public) is None


def test_the_table_fits_80_columns():
    """Six models with the widest values that a story has."""
    names = ("public", "undefended", "dp-sgd", "crt", "submix-f-1", "submix-f-8")
    wide = dataclasses.replace(told(said(10, 100), promise(1.0)), perplexity=Estimate(139.46, 100.0, 200.0))
    exposed = dataclasses.replace(said(0, 100), metric="exposure", value=19.93, low=19.93, high=19.93, null=1.0)
    models = tuple(
        dataclasses.replace(
            wide,
            name=name,
            findings=(exposed,),
            comparisons=(compare_with_guarantee(said(0, 100), promise(1.0)),) * 11,
        )
        for name in names
    )
    shown = io.StringIO()
    Console(file=shown, width=200).print(_lines(Story(models, 19.9, Path("story"), Path("page.html")))[0])
    assert max(len(line.rstrip()) for line in shown.getvalue().splitlines()) <= 80
    assert "19.93 ▲" in shown.getvalue()


def test_without_a_folder_the_story_goes_beside_earlier_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert DemoSettings().folder == Path("reticent-demo")
    for name in ("reticent-demo", "reticent-demo-2"):
        Path(name).mkdir()
    assert DemoSettings().folder == Path("reticent-demo-3")


def test_messages_keep_owners_and_the_places_of_secrets():
    dialogues = generate_dialogues(12, randomness=Randomness.seeded(1))
    lines = list(messages(dialogues))
    assert "\n".join(line.text for line in lines) == "\n".join(dialogues.texts)
    assert {line.owner for line in lines} == set(dialogues.owners)
    values = [record.text[span.start : span.end] for record in dialogues for span in record.spans]
    assert [line.text[span.start : span.end] for line in lines for span in line.spans] == values


def test_every_customer_says_a_few_messages_and_none_is_trained_on_and_held_out(tmp_path):
    corpora = write_corpora(tmp_path, seed=3, scale=TINY)
    said = Counter(record.owner for record in corpora.train)
    customers = {owner: count for owner, count in said.items() if not owner.startswith("canary/")}
    assert (len(customers), set(customers.values())) == (TINY.customers, {TINY.messages})
    assert not set(said) & {record.owner for record in [*corpora.holdout, *corpora.utility]}
    assert corpora.train.fingerprint == write_corpora(tmp_path / "again", seed=3, scale=TINY).train.fingerprint


def test_attacks_look_at_no_message_that_two_customers_share(tmp_path):
    # A courtesy kept among members and left out of non-members would be called memory.
    corpora = write_corpora(tmp_path, seed=3, scale=TINY)
    owners: dict[str, set[str]] = {}
    for record in [*corpora.targets, *corpora.holdout]:
        owners.setdefault(record.text, set()).add(record.owner)
    assert {len(holders) for holders in owners.values()} == {1}
    assert len(corpora.targets) < len(corpora.train)
    planted = [record for record in corpora.targets if record.owner.startswith("canary/")]
    assert len(planted) == TINY.canaries * TINY.copies


def test_redacted_training_knows_no_list_of_the_secrets(tmp_path):
    """A list of the true customers once stood in for the conservative policy, which no user has."""
    write_corpora(tmp_path, seed=3, scale=TINY)
    asked = Recipes(tmp_path, "embedded", TINY, seed=3).crt().training
    assert (asked.policy, asked.conservative_policy) == ("patterns", "conservative")
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".jsonl"} == {KEY}
    # What they miss is measured on labels, not asserted.
    assert (asked.labelled, asked.miss_rate, asked.conservative_miss_rate) == (str(tmp_path / TRAIN), None, None)


def test_the_policies_find_every_planted_number_and_address_whole_and_miss_some_values(tmp_path):
    """The ceiling of planted numbers holds for what is found whole, and the closing words name what is not."""
    corpora = write_corpora(tmp_path, seed=3, scale=TINY)
    policy, conservative = policy_named(POLICY), policy_named(CONSERVATIVE)
    planted = [record for record in corpora.train if record.owner.startswith("canary/")]
    assert len(planted) == TINY.canaries * TINY.copies
    assert count_misses(planted, policy, conservative=conservative).policy.hits == 0
    others = count_misses(corpora.train, policy, conservative=conservative).both
    addresses = [
        dataclasses.replace(record, spans=tuple(span for span in record.spans if span.kind == "ADDRESS"))
        for record in corpora.train
    ]
    whole = count_misses(addresses, policy, conservative=conservative).policy
    assert (whole.hits, whole.trials > 0) == (0, True)
    assert 0 <= others.hits < others.trials / 20


def test_only_findings_on_planted_numbers_can_refute_redacted_training():
    """Personal data that is inferred may be a value that is not found whole: of those nothing is proved."""
    inferred = dataclasses.replace(said(90, 100), metric="inference_accuracy")
    numbers = compare_with_guarantee(said(2, 100), promise(1.0))
    beside = [
        (FOUND_WHOLE, compare_with_guarantee(inferred, promise(1.0))),
        (FOUND_WHOLE, numbers),
        ("bayesian", numbers),
    ]
    assert of_planted(beside) == (numbers,)


def test_the_words_say_how_many_values_redacted_training_proves_nothing_of():
    redacted = dataclasses.replace(told(said(0, 100), promise(1.0)), name="crt", lost=Share((3, 1), (1500, 500)))
    spoken = " ".join(str(line) for line in _lines(Story((redacted,), 19.9, Path("story"), Path("page.html")))[1:])
    assert "Of the 2,000 labelled values in the text, 4 are not found whole" in spoken
    plain = Story((told(said(0, 100), promise(1.0)),), 19.9, Path("story"), Path("page.html"))
    assert not [line for line in _lines(plain) if "not found whole" in str(line)]
    assert redacted.to_json()["labelled_values_without_guarantee"] == 4


def test_private_answers_refuse_what_their_accounting_does_not_hold_for():
    answers = PrivateAnswers(None, "twin")
    with pytest.raises(ConfigError, match="temperature 1"):
        answers.complete(["a"], Sampling(temperature=0.5), count=1, randomness=Randomness.seeded(0))


def test_the_sizes_grow_with_the_extent():
    quick, normal, large = (Scale.of(extent) for extent in Extent)
    assert quick.customers < normal.customers < large.customers
    assert quick.answers < normal.answers < large.answers


def test_the_command_refuses_a_folder_that_holds_something(tmp_path, capsys):
    (tmp_path / "mine").write_text("keep")
    assert cli.run(["demo", "--out", str(tmp_path)]) == 2
    assert "not an empty directory" in capsys.readouterr().err


class TinyDemo(DemoSettings):
    """The demo in a size for tests."""

    @property
    def sizes(self) -> Scale:
        return TINY


@pytest.fixture(scope="module")
def story(tmp_path_factory) -> tuple[Story, list[tuple[int, str]]]:
    heard: list[tuple[int, str]] = []
    folder = tmp_path_factory.mktemp("demo") / "story"
    return tell(TinyDemo(out=folder, seed=3), watch=lambda done, status: heard.append((done, status))), heard


@pytest.mark.slow
def test_the_whole_story_in_small(story):
    whole, heard = story
    done = [amount for amount, _ in heard]
    assert done == sorted(done)
    assert done[-1] == TOTAL
    public, undefended, private, redacted, small, larger = whole.models
    assert undefended.perplexity.value < 0.5 * public.perplexity.value
    assert undefended.find("largest_exposure").value > private.find("largest_exposure").value
    assert (private.guarantee.unit, redacted.guarantee.unit) == (Unit.OWNER, Unit.SECRET)
    assert private.guarantee.epsilon <= EPSILON
    assert redacted.guarantee.epsilon <= EPSILON
    assert 0 < redacted.lost.hits < redacted.lost.trials
    assert CODES in {one.finding.metric for one in redacted.compared} <= {CODES, "exposure", "largest_exposure"}
    assert (small.guarantee.unit, small.guarantee.delta) == (Unit.PART, DELTA)
    assert small.guarantee.epsilon <= SMALL_EPSILON < larger.guarantee.epsilon <= EPSILON
    assert larger.perplexity.value < public.perplexity.value
    assert small.allowed < larger.allowed < 1.0
    assert not any(one.is_refuted for one in whole.models)
    assert [cell != "–" for cell in dict(table_rows(whole))["ε measured, at least"]] == [False, False, True] + 3 * [
        False
    ]


@pytest.mark.slow
def test_the_story_leaves_a_page_and_no_secret_outside_the_key_and_the_corpora(story):
    whole, _ = story
    secrets = [canary.secret.reveal() for canary in read_key(whole.folder / KEY)]
    written = json.dumps(whole.to_json()) + whole.page.read_text(encoding="utf8")
    written += whole.page.with_suffix(".md").read_text(encoding="utf8")
    for path in whole.folder.glob("*/**/*.json"):
        written += path.read_text(encoding="utf8") if path.name != "tokenizer.json" else ""
    assert not [secret for secret in secrets if secret in written]
    assert "SubMix-F" in written
