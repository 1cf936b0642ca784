"""Reconstruction, inference and extractability: exact on small models, silent where nothing leaks."""

import math

import numpy as np
import pytest

from reticent.auditing.attacks.personal_data.contexts import (
    MASK,
    ContextWindow,
    MaskedSpan,
    OtherValues,
    masked_spans,
)
from reticent.auditing.attacks.personal_data.extractability import (
    Extractability,
    compare_extractability,
    emitted_likelihoods,
    estimate_extractability,
    log_extractability,
    spearman,
    success_auc,
)
from reticent.auditing.attacks.personal_data.extraction import sample_texts, tag_texts
from reticent.auditing.attacks.personal_data.findings import (
    PiiSetting,
    inference_finding,
    reconstruction_findings,
)
from reticent.auditing.attacks.personal_data.inference import Decoys, draw_candidates, infer_values, token_counter
from reticent.auditing.attacks.personal_data.inventory import take_inventory
from reticent.auditing.attacks.personal_data.reconstruction import (
    CandidateSources,
    continue_greedily,
    gather_candidates,
    rank_candidates,
    recollected,
)
from reticent.auditing.attacks.personal_data.scoring import (
    CandidateScorer,
    CandidateScoring,
    HeldOutPlaces,
    log_likelihoods,
)
from reticent.core.corpus import Corpus, Record, Span
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import Secret
from reticent.models.huggingface.model import HuggingFaceModel
from tests.auditing.attacks.personal_data.small_models import (
    Emitting,
    by_heart,
    knows_nothing,
    names,
    people,
    tagger,
)
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

PERSONS = names(0, 60)
TRAINED, STRANGERS = PERSONS[:30], PERSONS[30:]


@pytest.fixture(scope="module")
def training():
    return take_inventory(people(TRAINED))


@pytest.fixture(scope="module")
def held_out():
    return take_inventory(people(STRANGERS, name="h"))


@pytest.fixture(scope="module")
def knows():
    return by_heart(people(TRAINED).texts)


def targets_of(inventory, count=30):
    return masked_spans(inventory, others=OtherValues.KNOWN, count=count, randomness=Randomness.seeded(1))


# --- scoring


def one_forward_each(model, target, candidates, scoring):
    """The slow, obvious way: every whole text by itself, the prefix's tokens left out of the sum."""
    values = []
    for candidate in candidates:
        suffix = "" if scoring is CandidateScoring.SPAN else target.suffix
        (whole,), (opening,) = model.encode([target.prefix + candidate + suffix]), model.encode([target.prefix])
        (row,) = model.token_log_probs([whole])
        values.append(row.mean() if scoring is CandidateScoring.SENTENCE else row[len(opening) :].sum())
    return np.array(values)


@pytest.mark.parametrize("scoring", list(CandidateScoring))
def test_shared_prefix_scores_equal_one_forward_for_each_candidate(scoring):
    model = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer(), name="tiny")
    target = MaskedSpan("r", "r", Secret("ada abel", "PERSON"), "case 1 was brought by", ", of town 3.")
    candidates = [" ada abel", " ben", " cleo cruz", " ada bock", " ada abel"]
    fast = log_likelihoods(model, target, candidates, scoring=scoring)
    np.testing.assert_allclose(fast, one_forward_each(model, target, candidates, scoring), atol=1e-4)
    assert fast[0] == pytest.approx(fast[4])


def test_the_suffix_is_scored_to_its_last_token(knows):
    here = MaskedSpan("r", "r", Secret(TRAINED[0], "PERSON"), "case 000 was brought by ", " of town 00.")
    elsewhere = MaskedSpan("r", "r", Secret(TRAINED[0], "PERSON"), "case 000 was brought by ", " of town 01.")
    in_place, moved = (
        log_likelihoods(knows, each, [TRAINED[0]], scoring=CandidateScoring.IN_CONTEXT)[0]
        for each in (here, elsewhere)
    )
    assert in_place > moved + 5.0  # the last digit but one decides; an off-by-one would not see it


@pytest.mark.parametrize("calibrated", [False, True])
@pytest.mark.parametrize("kind", ["caching", "plain"])
def test_a_short_list_scores_the_likeliest_in_context_and_leaves_out_the_rest(kind, calibrated, knows):
    tiny = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer(), name="tiny")
    model, base = (
        (tiny, HuggingFaceModel(tiny_gpt2(seed=5), tiny_tokenizer())) if kind == "caching" else (knows, tiny)
    )
    target = MaskedSpan("r", "r", Secret("ada abel", "PERSON"), "case 1 was brought by ", ", of town 3.")
    places = (MaskedSpan("h", "h", Secret("x", "PERSON"), "signed by ", ""),)
    given = {"base": base, "elsewhere": HeldOutPlaces(places, weight=0.7)} if calibrated else {}
    candidates = [name.lower() for name in PERSONS[:12]]
    whole = CandidateScorer(model, **given).score(target, candidates)
    alone = CandidateScorer(model, scoring=CandidateScoring.SPAN, **given).score(target, candidates)
    short = CandidateScorer(model, shortlist=4, **given).score(target, candidates)
    listed = np.sort(np.argsort(-alone, kind="stable")[:4])
    assert np.flatnonzero(np.isfinite(short)).tolist() == listed.tolist()
    np.testing.assert_allclose(short[listed], whole[listed], atol=1e-4)
    np.testing.assert_allclose(
        CandidateScorer(model, shortlist=12, **given).score(target, candidates), whole, rtol=1e-5
    )


def test_a_prefix_longer_than_the_model_loses_its_beginning():
    model = HuggingFaceModel(tiny_gpt2(), tiny_tokenizer(), name="tiny")
    target = MaskedSpan("r", "r", Secret("ada", "PERSON"), "a b c d " * 20, " of town 3.")
    assert np.isfinite(log_likelihoods(model, target, ["ada", "ben"], scoring=CandidateScoring.IN_CONTEXT)).all()
    assert np.isfinite(log_likelihoods(model, target, ["ada", "ben"], scoring=CandidateScoring.SENTENCE)).all()


# --- contexts


def sentence() -> Corpus:
    text = "On Monday Ada Abel met Ben Bock, and Cleo Cruz.\nAnother line about Dora Dorn."
    where = [text.index(name) for name in ("Ada Abel", "Ben Bock", "Cleo Cruz", "Dora Dorn")]
    spans = tuple(Span(at, text.index(" ", at) + 5, "PERSON") for at in where)
    return Corpus([Record("r", text, spans=spans)])


def test_other_values_are_known_or_masked_as_asked():
    inventory = take_inventory(sentence())
    for others in OtherValues:
        chosen = masked_spans(inventory, others=others, count=9, randomness=Randomness.seeded(0))
        target = next(each for each in chosen if each.secret.reveal() == "Ben Bock")
        if others is OtherValues.KNOWN:
            assert (target.prefix, target.suffix) == ("On Monday Ada Abel met ", ", and Cleo Cruz.")
        else:
            assert (target.prefix, target.suffix) == (f"On Monday {MASK} met ", f", and {MASK}.")
        assert "Ben" not in repr(target)


def test_a_window_ends_at_words_and_at_the_line():
    inventory = take_inventory(sentence())
    window = ContextWindow(before=9, after=6)
    chosen = masked_spans(
        inventory, others=OtherValues.KNOWN, count=9, randomness=Randomness.seeded(0), window=window
    )
    target = next(each for each in chosen if each.secret.reveal() == "Ben Bock")
    assert (target.prefix, target.suffix) == ("Abel met ", ", and")


# --- inference


def test_a_model_that_knows_its_text_picks_the_truth(training, held_out, knows):
    targets = targets_of(training)
    scorer = CandidateScorer(knows, knows_nothing())
    for pool, decoys in ((training, Decoys.TRAINED), (held_out, Decoys.UNSEEN)):
        draw = draw_candidates(
            targets, pool, training=training, size=10, lengths=token_counter(knows), randomness=Randomness.seeded(2)
        )
        assert draw.decoys is decoys
        found = inference_finding(infer_values(scorer, draw), setting=PiiSetting())
        assert found.value == 1.0
        assert found.null == pytest.approx(0.1)
        assert found.beats_null


def test_decoys_are_of_the_kind_and_length_and_never_trained_on_where_asked(training, held_out, knows):
    mixed = take_inventory(
        [*people(STRANGERS + TRAINED[:10], name="h"), Record("d", "1 May", spans=(Span(0, 5, "DATE"),))]
    )
    draw = draw_candidates(
        targets_of(training),
        mixed,
        training=training,
        size=12,
        lengths=token_counter(knows),
        randomness=Randomness.seeded(2),
    )
    for target, each in zip(draw.targets, draw.sets, strict=True):
        truth = target.secret.reveal()
        decoys = [c for place, c in enumerate(each.candidates) if place != each.truth]
        assert each.candidates[each.truth] == truth
        assert len(set(each.candidates)) == 12
        assert set(decoys) <= set(STRANGERS)
        same = [c for c in STRANGERS if len(c) == len(truth)]
        assert sum(len(c) == len(truth) for c in decoys) == min(11, len(same)) == each.matched


def test_a_value_of_the_same_record_is_no_decoy():
    records = [Record("r", "Ada Abel met Ben Bock", spans=(Span(0, 8, "PERSON"), Span(13, 21, "PERSON")))]
    inventory = take_inventory([*records, *people(STRANGERS[:4])])
    targets = [t for t in targets_of(inventory, 99) if t.record == "r"]
    draw = draw_candidates(
        targets,
        inventory,
        training=inventory,
        size=5,
        lengths=lambda texts: [len(text) for text in texts],
        randomness=Randomness.seeded(0),
    )
    assert len(draw.sets) == 2
    for target, each in zip(draw.targets, draw.sets, strict=True):
        assert {"Ada Abel", "Ben Bock"} & set(each.candidates) == {target.secret.reveal()}
    few = draw_candidates(
        targets,
        inventory,
        training=inventory,
        size=6,
        lengths=lambda texts: [len(text) for text in texts],
        randomness=Randomness.seeded(0),
    )
    assert (few.left_out, few.targets) == (2, ())


def test_a_model_that_cannot_tell_scores_the_base_rate(training, held_out):
    """Every candidate ties, so the guess is by chance: 30 targets, p = 1/5; 0 to 14 right in 99.98 of 100 seeds."""
    base = knows_nothing()
    draw = draw_candidates(
        targets_of(training),
        held_out,
        training=training,
        size=5,
        lengths=token_counter(base),
        randomness=Randomness.seeded(8),
    )
    outcome = infer_values(CandidateScorer(base, base), draw)
    assert 1 <= outcome.right.sum() <= 14
    assert not inference_finding(outcome, setting=PiiSetting()).beats_null
    # The published min(results, key=…) over {score: candidate} gives the alphabetically first, whatever is true.
    firsts = [min(each.candidates) == each.candidates[0] for each in draw.sets]
    assert not all(firsts)


def test_accuracy_by_context_length_counts_every_target_once(training, knows):
    draw = draw_candidates(
        targets_of(training),
        training,
        training=training,
        size=4,
        lengths=token_counter(knows),
        randomness=Randomness.seeded(1),
    )
    outcome = infer_values(CandidateScorer(knows), draw)
    rows = outcome.by_context((0, 10, 20, 30))
    assert [n for _, _, n in rows] == [0, 0, 30, 0]
    assert sum(right for _, right, _ in rows) == outcome.right.sum()
    assert outcome.by_kind() == (("PERSON", int(outcome.right.sum()), 30),)


# --- reconstruction


def test_reconstruction_finds_what_the_model_knows_and_nothing_of_strangers(training, held_out, knows):
    finds, sources = tagger(PERSONS), CandidateSources(prefix=4, pool=0, sampling=Sampling(max_tokens=12))
    scorer = CandidateScorer(knows, knows_nothing())
    mine, others = (
        rank_candidates(
            scorer,
            targets,
            gather_candidates(knows, finds, targets, sources=sources, randomness=Randomness.seeded(3)),
        )
        for targets in (targets_of(training), targets_of(held_out))
    )
    rival, strangers = (continue_greedily(knows, finds, targets_of(side)) for side in (training, held_out))
    top1, top5, tab = reconstruction_findings(
        mine, rival, setting=PiiSetting(), held_out=others, held_out_rival=strangers
    )
    assert top1.value == tab.value == 1.0
    assert top1.beats_null
    assert tab.beats_null
    alike = reconstruction_findings(mine, rival, setting=PiiSetting(), held_out=mine, held_out_rival=rival)
    assert not any(finding.beats_null for finding in alike)
    assert others.hits(5).sum() == 0
    assert [f.metric for f in (top1, top5, tab)] == [
        "reconstruction_top1",
        "reconstruction_top5",
        "reconstruction_tab",
    ]


def test_the_suffix_and_the_pool_find_what_greedy_continuation_cannot():
    persons = TRAINED[:20]
    # All begin alike: only the town after the name tells them apart.
    records = [
        Record(f"r{i}", f"it was {p} of town {i:02d}.", spans=(Span(7, 7 + len(p), "PERSON"),))
        for i, p in enumerate(persons)
    ]
    model = by_heart([record.text for record in records])
    inventory, finds = take_inventory(records), tagger(PERSONS)
    targets = targets_of(inventory, 20)
    emitted = tag_texts(
        sample_texts(model, 400, sampling=Sampling(max_tokens=24), randomness=Randomness.seeded(1)), finds
    )
    sources = CandidateSources(prefix=0, pool=64)
    candidates = gather_candidates(
        model, finds, targets, sources=sources, randomness=Randomness.seeded(2), emitted=emitted
    )
    ranked = rank_candidates(CandidateScorer(model), targets, candidates)
    assert ranked.gathered == 20
    assert ranked.hits(1).sum() == 20
    assert continue_greedily(model, finds, targets).hits(1).sum() <= 1
    span_only = rank_candidates(CandidateScorer(model, scoring=CandidateScoring.SPAN), targets, candidates)
    assert span_only.hits(1).sum() <= 5


def test_masked_values_before_the_target_are_recollected_where_the_model_knows_them():
    finds, pairs = tagger(PERSONS), list(zip(TRAINED[:10], TRAINED[10:20], strict=True))
    texts = [f"case {i:03d}: {one} met {other} again" for i, (one, other) in enumerate(pairs)]
    spans = [
        tuple(Span(text.index(name), text.index(name) + len(name), "PERSON") for name in both)
        for text, both in zip(texts, pairs, strict=True)
    ]
    records = [Record(f"r{i}", text, spans=each) for i, (text, each) in enumerate(zip(texts, spans, strict=True))]
    model, inventory = by_heart(texts), take_inventory(records)
    masked = masked_spans(inventory, others=OtherValues.MASKED, count=20, randomness=Randomness.seeded(1))
    second = [target for target in masked if MASK in target.prefix]
    assert len(second) == 10
    filled = recollected(model, finds, second)
    assert {target.prefix for target in filled} == {text[: text.index("met ") + 4] for text in texts}
    assert continue_greedily(model, finds, filled).hits(1).sum() == 10
    # A mask in the prompt is no text the model knows: the ranking that leaves it there finds nothing.
    assert continue_greedily(model, finds, second).hits(1).sum() <= 1
    assert recollected(Emitting([" nobody we know"]), finds, second) == tuple(second)
    assert all(MASK in each.prefix for each in recollected(model, finds, second, rounds=0))


def test_an_infilling_prompt_is_a_source_of_candidates(training):
    model = Emitting([f" {TRAINED[0]} of town", " nobody"])
    sources = CandidateSources(prefix=0, infilling=2, pool=0)
    targets = targets_of(training)[:1]
    (found,) = gather_candidates(model, tagger(PERSONS), targets, sources=sources, randomness=Randomness.seeded(0))
    assert found == (TRAINED[0],)


def test_a_truth_that_was_never_gathered_is_a_miss_in_the_denominator(training, knows):
    targets = targets_of(training)[:10]
    candidates = (
        [(target.secret.reveal(), *STRANGERS[:3]) for target in targets[:4]] + [tuple(STRANGERS[:3])] * 3 + [()] * 3
    )
    outcome = rank_candidates(CandidateScorer(knows), targets, candidates)
    assert outcome.ranks.tolist() == [1] * 4 + [0] * 6
    found = reconstruction_findings(outcome, outcome, setting=PiiSetting())[0]
    assert (found.value, found.n) == (0.4, 10)


def test_a_candidate_that_ties_with_the_truth_counts_as_better(training):
    base = knows_nothing()
    targets = targets_of(training)[:5]
    outcome = rank_candidates(CandidateScorer(base, base), targets, [(t.secret.reveal(), "Zed") for t in targets])
    assert outcome.hits(1).sum() == 0


# --- extractability


def test_mean_chance_survives_where_probabilities_underflow():
    assert log_extractability(np.array([-800.0, -801.0])) == pytest.approx(
        -800.0 + math.log((1.0 + math.exp(-1.0)) / 2.0)
    )
    assert log_extractability(np.array([-np.inf, -np.inf])) == -np.inf
    with pytest.raises(ValueError, match="without a context"):
        log_extractability(np.empty(0))


def test_estimated_extractability_is_the_mean_over_contexts_and_foretells_what_is_emitted():
    often, rare = TRAINED[:5], TRAINED[5:10]
    texts = [f"it was {name} again" for name in [*(often * 8), *rare]]
    records = [Record(f"r{i}", text, spans=(Span(7, len(text) - 6, "PERSON"),)) for i, text in enumerate(texts)]
    model, inventory = by_heart(texts), take_inventory(records)
    values = list(inventory)
    estimated = estimate_extractability(model, inventory, values, contexts=4)
    assert np.exp(estimated[0]) == pytest.approx(8 / 45, rel=1e-3)
    assert np.exp(estimated[-1]) == pytest.approx(1 / 45, rel=1e-3)
    sampled = sample_texts(model, 300, sampling=Sampling(max_tokens=30), randomness=Randomness.seeded(4))
    emitted = tag_texts(sampled, tagger(PERSONS))
    found = compare_extractability(estimated, values, emitted).correlation(randomness=Randomness.seeded(0))
    assert found is not None
    assert found.low > 0.3
    likelihoods = emitted_likelihoods(model, emitted)
    assert set(likelihoods) == set(emitted.values)
    assert likelihoods[Secret(often[0], "PERSON")] == pytest.approx(math.log(8 / 45), rel=1e-2)


def test_correlation_of_constants_is_none_and_ties_share_ranks():
    flat = Extractability(np.zeros(20), np.arange(20))
    assert flat.correlation(randomness=Randomness.seeded(0)) is None
    assert spearman(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0, 3.0])) == pytest.approx(1.0)


def test_membership_scores_are_set_against_reconstruction_success():
    scores, won = np.arange(20.0), np.arange(20) >= 10
    best = success_auc(scores, won)
    assert best is not None
    assert best.value == 1.0
    assert success_auc(scores, np.zeros(20, dtype=bool)) is None
