"""The update regimes: which text each of them trains on, and what each gives away of canaries (slow)."""

import json
import re
import statistics
from collections import Counter
from dataclasses import replace

import pytest
import torch

from reproductions.updates.canary_making import FrequencyClass, PhraseSettings, make_phrase_canaries
from reproductions.updates.regimes import Privacy, Regime, UpdateData, UpdateExperiment, UpdateSettings
from reproductions.updates.vocabulary import known_words, word_tokenizer
from reticent.auditing.attacks.update.bounded_search import BoundedSettings, search_bounded
from reticent.auditing.attacks.update.score import Snapshots, UpdateScore
from reticent.auditing.attacks.update.search import BeamSettings, search_phrases
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.core.secret import Canary, ListedSpace, Secret
from reticent.training.plans.plan import SEEDED
from tests.reproductions.update_orders import class_difference, class_spread, regime_difference
from tests.reproductions.update_stories import PHRASE, canary, experiment


class Recording(UpdateExperiment):
    """Trains nothing; notes what would have been trained from what."""

    def trained(self, model, corpus, name):
        calls = self.__dict__.setdefault("calls", [])
        calls.append((model.name, Counter(record.id[0] for record in corpus)))
        model.name = name
        return model


@pytest.mark.parametrize(
    ("regime", "expected"),
    [
        (Regime.RETRAINING, [("re-training 0.5", {"d": 80, "e": 40, "c": 3})]),
        (Regime.CONTINUED, [("before", {"d": 80}), ("before", {"e": 40, "c": 3})]),
        (Regime.TWO_STAGES, [("before", {"d": 80}), ("before", {"e": 40, "c": 3}), ("two stages 0.5", {"f": 80})]),
    ],
)
def test_each_regime_trains_on_its_own_text_from_its_own_start(regime, expected):
    story = experiment()
    recording = Recording(story.data, story.settings)
    recording.after(regime, [canary(3)], share=0.5)
    assert recording.calls == expected


def test_a_word_tokenizer_has_the_frequent_words_and_writes_them_back():
    tokenizer = word_tokenizer(["b a a", "b a c d"], size=5)
    assert known_words(tokenizer) == {"a", "b"}
    ids = tokenizer("b a d", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == "b a <unk>"


@pytest.fixture(scope="module")
def story() -> UpdateExperiment:
    return experiment()


def test_an_update_gives_its_phrase_away_and_the_model_before_is_untouched(story):
    weights = {name: value.clone() for name, value in story.before.module.state_dict().items()}
    update = story.update(Regime.CONTINUED, [canary(12)], share=0.5, ranked=["planted"])
    assert update.scores["planted"].score > 2.0
    assert update.beam_ranks == update.ranks_apart == {"planted": 0}
    assert update.found == {"planted"}
    assert update.pair_ranks["planted"].is_exact
    assert update.pair_ranks["planted"].higher == 0
    assert update.guarantee is None
    assert update.mean_score("planted") == update.mean_score() == update.scores["planted"].score
    assert all(torch.equal(weights[name], value) for name, value in story.before.module.state_dict().items())


def test_other_canaries_of_an_update_count_in_its_ranks_unless_they_are_left_out(story):
    """Two canaries that share all but their last word: one of them must stand behind the other."""
    last = next(word for word in story.data.original.texts[0].split() if word not in PHRASE.split())
    words = " ".join([*PHRASE.split()[:-1], last])
    other = Canary("other", "{}", Secret(words, "phrase"), ListedSpace((words, "another")), 24)
    update = story.update(Regime.CONTINUED, [canary(12), other], share=0.5)
    assert sorted(update.beam_ranks.values())[1] >= 1
    assert all(update.ranks_apart[name] <= rank for name, rank in update.beam_ranks.items())
    assert update.ranks_apart != update.beam_ranks


@pytest.mark.parametrize(
    ("regime", "texts"), [(Regime.RETRAINING, ("original", "extra")), (Regime.CONTINUED, ("extra",))]
)
def test_the_share_of_canaries_is_counted_in_tokens_of_the_text_that_is_trained_on(story, regime, texts):
    """Every word is a token, so the share is one of words."""
    half = {"original": story.data.original, "extra": story.data.extra[:40]}
    words = sum(len(record.text.split()) for name in texts for record in half[name])
    planted = 12 * len(PHRASE.split())
    expected = planted / (planted + words)
    assert story.canary_share(regime, [canary(12)], share=0.5) == pytest.approx(expected)


def test_accuracy_is_that_of_the_model_after_the_update_on_held_out_text(story):
    """A corpus of one sentence that the update repeats: all tokens are named; without one there is no accuracy."""
    assert story.update(Regime.CONTINUED, [canary(12)], share=0.5).accuracy is None
    held_out = Corpus([Record("h", PHRASE)])
    seen = UpdateExperiment(replace(story.data, held_out=held_out), story.settings)
    after = seen.update(Regime.CONTINUED, [canary(60)], share=0.0)
    before = seen._accuracy(seen.before)
    assert before < 0.5 < after.accuracy


def test_a_transformer_gives_its_phrase_away_as_an_lstm_does():
    work = experiment(heads=4, layers=2, learning_rate=1e-2)
    assert type(work.before.module).__name__ == "GPT2LMHeadModel"
    pair = Snapshots(work.before, work.after(Regime.CONTINUED, [canary(12)], share=0.5))
    beam = search_bounded(pair, BoundedSettings(top=1))
    assert pair.after.decode(beam.tokens[:1].tolist()) == [PHRASE]
    (scored,) = pair.score(pair.before.encode([PHRASE]))
    assert scored.score == pytest.approx(beam.scores[0], abs=1e-5)
    assert scored.score > 2.0


def test_the_same_seed_gives_the_same_models_and_another_seed_others(story):
    assert experiment().before.fingerprint == story.before.fingerprint
    assert experiment(seed=2).before.fingerprint != story.before.fingerprint


def test_with_differential_privacy_the_phrase_is_not_found_and_the_guarantee_confesses_the_seed():
    private = experiment(privacy=Privacy(epsilon=2.0, delta=1e-3, batch=16), epochs=2.0)
    update = private.update(Regime.RETRAINING, [canary(12)])
    assert update.scores["planted"].score < 0.5
    assert update.found == frozenset()
    assert update.guarantee.epsilon <= 2.0
    assert SEEDED in update.guarantee.assumes


def wikipedia(shared, longest: int = 30) -> list[str]:
    """Sentences of WikiText-2, lower case, in an order that the seed decides."""
    found = []
    for name in ("wikitext-2.valid.txt", "wikitext-2.test.txt"):
        for line in (shared / "data" / name).read_text(encoding="utf8").lower().splitlines():
            if not line.strip().startswith("="):
                found += [part.strip() for part in re.split(r"(?<= [.!?]) ", line.strip())]
    kept = [sentence for sentence in found if 5 <= len(sentence.split()) <= longest]
    return [kept[int(place)] for place in Randomness.seeded(0).permutation(len(kept))]


def corpus(texts, name: str) -> Corpus:
    return Corpus(Record(f"{name}{place}", text) for place, text in enumerate(texts))


SENTENCES, VOCABULARY, PER_CLASS = 1500, 1500, 3


@pytest.fixture(scope="module")
def public(shared) -> UpdateData:
    texts = wikipedia(shared)
    parts = [corpus(texts[start : start + SENTENCES], f"{start}-") for start in range(0, 3 * SENTENCES, SENTENCES)]
    return UpdateData(*parts, word_tokenizer(parts[0].texts, size=VOCABULARY))


def canaries(data: UpdateData, copies: int, seed: int = 3, *, count: int = PER_CLASS):
    settings = PhraseSettings(count=count, copies=copies, known=known_words(data.tokenizer))
    made = make_phrase_canaries(data.original.texts, settings, randomness=Randomness.seeded(seed))
    return [one for each in made.values() for one in each]


def show(label: str, update) -> None:
    """A line of the table, for whoever reads the output of a slow run."""
    means = "  ".join(f"{kind.value} {update.mean_score(kind.value):.2f}" for kind in FrequencyClass)
    pairs = "  ".join(f"{name}: {rank.least}" for name, rank in update.pair_ranks.items())
    print(f"{label:24} {means}  found {len(update.found)}/{len(update.scores)}  pair ranks {pairs}", flush=True)


def lstm(data: UpdateData, seed: int = 1, **settings) -> UpdateExperiment:
    """An experiment of the size that a core trains in ten seconds."""
    return UpdateExperiment(data, UpdateSettings(hidden_size=64, learning_rate=1e-2, seed=seed, **settings))


ORDER_SEEDS = (11, 12, 13, 14, 15, 16)
ALL_LOW, *OTHERS = FrequencyClass
*FIRST_THREE, HIGH_TO_LOW = FrequencyClass


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_scores_grow_with_copies_and_phrases_that_begin_with_frequent_words_are_exposed_last(public):
    """Table 1 in small: six seeds, each with weights, an order of the text and three phrases a class of its own.

    The interval of "high to low is last" is 99 % wide: without a difference it lies above 0 in one of 200 tests; as
    the difference is (0.27, deviation 0.04) tests with other seeds would fail in fewer than one of a thousand.
    """
    updates: dict[int, list] = {4: [], 16: [], 48: []}
    for seed in ORDER_SEEDS:
        story = lstm(public, seed, epochs=4.0)
        for copies, made in updates.items():
            made.append(story.update(Regime.RETRAINING, canaries(public, copies, 100 + seed)))
            show(f"seed {seed}, {copies} copies", made[-1])
    for copies, made in updates.items():
        print(copies, {kind.value: str(class_spread(made, kind.value)) for kind in FrequencyClass})
        print("  all low − others", class_difference(made, [ALL_LOW], OTHERS))
        print("  others − high to low", class_difference(made, FIRST_THREE, [HIGH_TO_LOW], confidence=0.99))
    for place in range(len(ORDER_SEEDS)):
        for kind in FrequencyClass:
            grown = [updates[copies][place].mean_score(kind.value) for copies in (4, 16, 48)]
            assert grown == sorted(grown)
            assert grown[0] < 0.1 < 3.0 < grown[2]
    assert class_difference(updates[48], FIRST_THREE, [HIGH_TO_LOW], confidence=0.99).is_positive
    first = sum(
        rank == 0 for one in updates[48] for name, rank in one.ranks_apart.items() if name.startswith(ALL_LOW)
    )
    assert first >= 0.8 * PER_CLASS * len(ORDER_SEEDS)


RARE_SEEDS = tuple(range(31, 49))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_phrases_of_rare_words_are_exposed_first(public):
    """Table 1 at 16 copies, where phrases are half learnt: eighteen seeds, six phrases a class.

    Without a difference an interval of 95 % lies above 0 in one of 40 tests. Twelve of the seeds, run first, had a
    difference of 0.17 and a deviation of 0.23: tests with eighteen others would fail in about one of seven.
    """
    updates = []
    for seed in RARE_SEEDS:
        story = lstm(public, seed, epochs=4.0)
        updates.append(story.update(Regime.RETRAINING, canaries(public, 16, 100 + seed, count=6)))
        show(f"seed {seed}, 16 copies", updates[-1])
    more = class_difference(updates, [ALL_LOW], OTHERS)
    print("all low − others", more)
    assert more.is_positive
    means = {kind: class_spread(updates, kind.value).mean for kind in FrequencyClass}
    assert max(means, key=means.get) is ALL_LOW


REGIME_SEEDS = (21, 22, 23)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_continued_training_leaks_more_than_retraining_and_a_second_stage_hides_it(public):
    """Table 2 in small, every training 400 steps long; three seeds, differences within a seed, intervals of 95 %.

    How long an update is trained decides the order (docs/updates.md): the paper does not say how long it was.
    """
    again: dict[float, list] = {0.2: [], 1.0: []}
    on: dict[float, list] = {0.2: [], 1.0: []}
    later = []
    for seed in REGIME_SEEDS:
        story = lstm(public, seed, steps=400)
        made = canaries(public, 16, 100 + seed)
        for share in again:
            again[share].append(story.update(Regime.RETRAINING, made, share=share))
            on[share].append(story.update(Regime.CONTINUED, made, share=share))
            show(f"seed {seed}, re-training, {share:.0%}", again[share][-1])
            show(f"seed {seed}, continued, {share:.0%}", on[share][-1])
        later.append(story.update(Regime.TWO_STAGES, made, share=1.0))
        show(f"seed {seed}, two stages, 100%", later[-1])
    for share in again:
        more = regime_difference(on[share], again[share])
        print(f"{share:.0%}: again {class_spread(again[share])}, on {class_spread(on[share])}, {more} more")
        assert more.is_positive
    assert regime_difference(on[0.2], on[1.0]).mean > 0.0
    assert regime_difference(on[1.0], later).is_positive
    assert class_spread(later).mean < 0.2 * class_spread(on[1.0]).mean


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_differential_privacy_brings_scores_near_zero_and_ranks_to_thousands(public):
    story = lstm(public, steps=400, privacy=Privacy(epsilon=5.0, delta=1e-5, batch=64))
    update = story.update(Regime.RETRAINING, canaries(public, 48), ranked=["all low 0"])
    show(f"DP, ε = {update.guarantee.epsilon:.2f}", update)
    assert max(abs(one.score) for one in update.scores.values()) < 0.1
    assert update.found == frozenset()
    assert update.pair_ranks["all low 0"].is_exact
    assert update.pair_ranks["all low 0"].higher > 1000
    plain = lstm(public, steps=400).update(Regime.RETRAINING, canaries(public, 48), ranked=["all low 0"])
    show("the same without", plain)
    assert plain.pair_ranks["all low 0"].higher == 0


_WORD = re.compile(r"[a-z][a-z']*|[.,!?]")


def plain_sentences(text: str) -> list[str]:
    """Sentences of words and marks, lower case."""
    split = [_WORD.findall(part.lower()) for part in re.split(r"(?<=[.!?])\s+", " ".join(text.split()))]
    return [" ".join(words) for words in split if 5 <= len(words) <= 30]


def newsgroup(shared, group: str) -> list[str]:
    """Sentences of a newsgroup without quotes, headers and addresses."""
    found = []
    for line in (shared / "data" / "newsgroups.jsonl").read_text(encoding="utf8").splitlines():
        row = json.loads(line)
        if row["group"] == group:
            kept = [one for one in row["text"].splitlines() if not re.match(r"\s*[>|:]", one)]
            found += plain_sentences("\n".join(one for one in kept if "@" not in one and "writes" not in one))
    return found


def drawn(texts: list[str], count: int, seed: int) -> list[str]:
    return [texts[int(place)] for place in Randomness.seeded(seed).permutation(len(texts))[:count]]


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_newsgroup_text_shows_in_the_phrases_of_a_group_beam_and_not_between_two_seeds(shared):
    raw = (shared / "data" / "wikitext-2.valid.txt").read_text(encoding="utf8")
    wiki = drawn(plain_sentences(raw.replace("<unk>", "").replace("@-@", "-")), 1500, 0)
    hockey = drawn(newsgroup(shared, "rec.sport.hockey"), 750, 1)
    tokenizer = word_tokenizer([*wiki, *hockey], size=2000)
    before, added = corpus(wiki, "w"), corpus(hockey, "h")
    story = UpdateExperiment(
        UpdateData(before, added, added, tokenizer),
        UpdateSettings(hidden_size=64, epochs=4.0, batch=16, learning_rate=1e-2, seed=1),
    )
    after = story.trained(story.fresh("with"), Corpus([*before, *added]), "with")
    other = story.trained(story.fresh("other"), before, "other")
    elsewhere = newsgroup(shared, "talk.politics.mideast")  # the way people write there is no topic
    topical = topical_words(hockey, [wiki, elsewhere], known_words(tokenizer))
    share = {}
    for label, model in (("update", after), ("other seed", other)):
        beam = search_phrases(Snapshots(story.before, model), BeamSettings(length=4, groups=5, score=SCORE))
        phrases = story.before.decode(beam.tokens[beam.best_of_groups(4)].tolist())
        share[label] = statistics.mean(not topical.isdisjoint(phrase.split()) for phrase in phrases)
        print(label, f"{share[label]:.2f}", phrases)
    assert share["update"] >= 0.5
    assert share["other seed"] == 0.0


SCORE = UpdateScore.RELATIVE


def topical_words(group: list[str], others: list[list[str]], known: frozenset[str]) -> set[str]:
    """Words at least eight times as frequent in the group's text as in each of the other texts."""
    here = Counter(word for text in group for word in text.split())
    found = {word for word, count in here.items() if count >= 5 and len(word) > 3 and word in known}
    for other in others:
        there = Counter(word for text in other for word in text.split())
        ratio = sum(here.values()) / sum(there.values())
        found = {word for word in found if here[word] >= 8 * ratio * (there[word] + 1)}
    return found


def test_the_phrase_of_the_tests_is_not_in_their_text():
    data = experiment().data
    assert not any(PHRASE in text for part in (data.original, data.extra, data.later) for text in part.texts)
