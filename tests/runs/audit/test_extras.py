"""Around the attacks: progress, servers, what is revealed, guarantees beside the headline, rates without power."""

import dataclasses
import json
import stat
from pathlib import Path

import numpy as np
import pytest

from reticent.auditing.attacks.membership.findings import fewest_targets, has_power
from reticent.auditing.attacks.membership.target_scores import PositionModel
from reticent.auditing.progress import watched
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import is_remote, make_subject
from reticent.core.errors import AccessError, ConfigError, ModelError
from reticent.core.finding import Verdict
from reticent.core.guarantee import Notion
from reticent.core.model import Access, LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.runs.audit.attacking import audit_to_json, run_audit, start_run, write_audit
from reticent.runs.audit.plan import Speed, measure_speed, plan_audit
from reticent.runs.audit.remote import only_model
from reticent.runs.audit.score_cache import ScoreCache
from reticent.runs.audit.subject import find_model, open_models
from tests.models.ngram import NGramModel
from tests.models.remote.test_remote import NAME, serving
from tests.models.tiny import tiny_model
from tests.runs.audit.subjects import CANARIES, promise, records, sentences, subject

FAST = Speed(1e6, 1e5)
SMALL = Sizes(records=40, extraction_records=20, candidates=50, search_tokens=5_000, answers=20, texts=32)
SETTINGS = AttackSettings(sizes=SMALL, rates=(0.3,))


def audited(which, settings=SETTINGS, **options):
    return run_audit(which, plan_audit(which, settings, FAST), settings=settings, **options)


@pytest.fixture(scope="module")
def learnt():
    return subject(count=30)


def test_a_watched_model_answers_as_the_model_does_and_tells_every_token(learnt):
    told: list[int] = []
    model = learnt.model
    copied = watched(model, told.append)
    sequences = model.encode(sentences(1, 150))
    for mine, its in zip(copied.token_log_probs(sequences), model.token_log_probs(sequences), strict=True):
        np.testing.assert_array_equal(mine, its)
    assert sum(told) == sum(map(len, sequences))
    assert len(told) == 3  # a chunk of 64 at a time
    told.clear()
    sampling = Sampling(max_tokens=5)
    drawn = copied.generate(sequences[:3], sampling, count=2, randomness=Randomness.seeded(1))
    assert drawn == model.generate(sequences[:3], sampling, count=2, randomness=Randomness.seeded(1))
    assert sum(told) == sum(len(answer) for row in drawn for answer in row)
    assert "token_log_probs" not in vars(model)  # the model itself is as it was
    assert isinstance(copied, LanguageModel)
    assert copied.fingerprint == model.fingerprint


def test_a_watched_transformer_still_gives_all_positions():
    model = tiny_model()
    told: list[int] = []
    copied = watched(model, told.append)
    assert isinstance(copied, PositionModel)
    copied.position_log_probs([1, 2, 3])
    assert told == [3]


def test_progress_grows_from_nothing_to_about_all_of_the_planned_work(learnt):
    told: dict[str, list[float]] = {}
    audited(learnt, observe=lambda line, share: told.setdefault(line.name, []).append(share))
    assert list(told) == ["exposure", "codes", "membership", "lazy", "extraction", "generation"]
    for name, shares in told.items():
        assert shares == sorted(shares)
        assert shares[0] == 0.0
        assert shares[-1] > 0.1 * (name != "exposure")  # a search that ends early spares most of it
    assert told["lazy"][-1] == pytest.approx(1.0)


def test_what_is_revealed_is_asked_for_kept_apart_and_never_cached(learnt, tmp_path):
    cache = ScoreCache(tmp_path / "cache")
    settings = dataclasses.replace(SETTINGS, reveal=True)
    audit = audited(learnt, settings, cache=cache)
    assert list((tmp_path / "cache").glob("*.json")) == []
    run = start_run(tmp_path / "run", subject=learnt, settings=settings, config={})
    write_audit(run, audit, subject=learnt, settings=settings)
    path = run.path / "revealed.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    entries = json.loads(path.read_text())["revealed"]
    assert {entry["secret"] for entry in entries if "secret" in entry} == {c.secret.reveal() for c in CANARIES}
    known = set(learnt.training.texts)
    assert {entry["attack"] for entry in entries} == {"exposure", "lazy", "extraction", "generation"}
    assert all(entry["text"] in known for entry in entries if "text" in entry)
    others = [other for other in run.path.iterdir() if other != path]
    assert not [text for text in known if any(text in other.read_text() for other in others)]
    assert audited(learnt).revealed == ()


def test_a_guarantee_for_some_secrets_is_told_of_and_not_refuted(learnt):
    missed = dataclasses.replace(promise(0.1), covers="a record that the conservative policy catches")
    average = dataclasses.replace(missed, notion=Notion.BAYESIAN_CONFIDENTIALITY)
    worst = dataclasses.replace(missed, epsilon=float("inf"), delta=0.0)
    which = dataclasses.replace(learnt, guarantee=worst, other_guarantees={"missed": missed, "bayesian": average})
    settings = dataclasses.replace(SETTINGS, attacks=("membership",))
    audit = audited(which, settings)
    assert audit.refuted == ()
    assert {name for name, _ in audit.other_comparisons} == {"missed"}  # the average speaks of another attacker
    above = {one.finding.attack for _, one in audit.other_comparisons if one.verdict is Verdict.REFUTED}
    assert {"loss", "calibrated"} <= above
    document = audit_to_json(audit, subject=which, settings=settings)
    assert set(document["beside"]) == {"missed", "bayesian"}
    assert {one["guarantee"] for one in document["comparisons_beside"]} == {"missed"}
    assert "refuted" not in {one["verdict"] for one in document["comparisons"]}


def test_the_plan_says_how_many_records_a_rate_needs(learnt):
    settings = AttackSettings(attacks=("membership",), sizes=Sizes(records=30))
    reasons = {line.name: line.skipped for line in plan_audit(learnt, settings, FAST).attacks if line.skipped}
    assert (
        "30 members and 30 non-members (independent ones, where owners have several) are too few"
        in reasons["membership: tpr_at_fpr_0.01"]
    )
    assert "of each are needed" in reasons["membership: tpr_at_fpr_0.001"]


@pytest.mark.parametrize("rate", [0.3, 0.05, 0.01])
def test_the_fewest_targets_are_the_fewest(rate):
    least = fewest_targets(rate, confidence=0.99)
    assert least is not None
    assert has_power(least, least, rate=rate, confidence=0.99)
    assert not has_power(least - 1, least - 1, rate=rate, confidence=0.99)


def test_a_rate_that_nobody_can_measure_is_said_to_need_more_than_there_are():
    assert fewest_targets(1e-7, confidence=0.99) is None


def test_rates_without_power_take_no_share_of_the_error(learnt):
    """30 records say nothing of 1 %, so AUC's intervals are as if nobody had asked for it."""
    alone, both = (
        audited(learnt, dataclasses.replace(SETTINGS, attacks=("membership",), rates=rates))
        for rates in ((), (0.01,))
    )
    of = [next(f for f in audit.findings if f.metric == "auc").confidence for audit in (alone, both)]
    assert of[0] == of[1]


def test_a_server_is_audited_by_its_text():
    training, held_out = sentences(1, 20), sentences(2, 20)
    model = NGramModel.fit(training, order=6, level="word", smoothing=1e-3, unknown="?")
    with serving(model=model, card={"created": 1_700_000_000}, scorings=frozenset()) as (url, behaviour):
        source = f"{url}#{NAME}"
        assert is_remote(source)
        assert find_model(source).source == source
        opened = open_models(source, None)
        assert opened.model.access is Access.TEXT
        assert opened.model.name == NAME
        which = make_subject(
            opened.model,
            None,
            training=records("in", training),
            held_out=records("out", held_out),
            place=opened.place,
        )
        assert "sent to the server" in which.notes[-1]
        plan = plan_audit(which, SETTINGS, measure_speed(which))
        assert [line.name for line in plan.running] == ["extraction", "generation"]
        audit = run_audit(which, plan, settings=SETTINGS)
        assert behaviour.count() > 20
    share = next(finding for finding in audit.findings if finding.metric == "discoverable_share")
    assert share.value > 0.5
    assert share.access is Access.TEXT


def test_a_served_chat_is_asked_by_messages_alone():
    with serving(model=NGramModel.fit(sentences(1, 5), order=3, unknown="?")) as (url, behaviour):
        opened = open_models(f"{url}#{NAME}", None, chat=True)
        which = make_subject(
            opened.model, None, training=records("in", sentences(1, 5)), held_out=records("out", sentences(2, 5))
        )
        settings = dataclasses.replace(SETTINGS, attacks=("divergence", "exposure"), chat=True)
        found = run_audit(which, plan_audit(which, settings, measure_speed(which)), settings=settings)
        assert [finding.metric for finding in found.findings] == ["divergence_rate"]
        assert behaviour.count("/v1/chat/completions") > 16
        assert behaviour.count() == 0
        with pytest.raises(ConfigError, match="returns text only"):
            open_models(f"{url}#{NAME}", None, journal=Path("scores.db"), chat=True)


def test_a_server_with_several_models_needs_a_name_of_its_list():
    with serving() as (url, _):
        with pytest.raises(ModelError, match="exactly one model") as caught:
            open_models(url, None)
        assert "#NAME" in (caught.value.hint or "")
        with pytest.raises(ModelError, match="no model of this name"):
            open_models(f"{url}#another", None)
    assert only_model({"data": [{"id": "one"}]}, "http://host") == "one"
    with pytest.raises(ModelError, match="none listed"):
        only_model({"error": "no"}, "http://host")


def test_a_text_only_server_is_never_asked_what_it_lacks():
    with serving(scorings=frozenset(), has_tokenizer=False) as (url, _):
        model = open_models(f"{url}#{NAME}", None).model
        with pytest.raises((AttributeError, AccessError)):
            model.token_log_probs([[1]])
        which = make_subject(
            model, None, training=records("in", ["Hello there"]), held_out=records("out", ["the world"])
        )
        assert which.scoring_model is None
