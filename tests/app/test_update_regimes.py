"""The update regimes: which text each of them trains on, and what each gives away of canaries (slow)."""

import json
import re
import statistics
from collections import Counter

import pytest
import torch

from reticent.app.update_regimes import Privacy, Regime, UpdateData, UpdateExperiment, UpdateSettings
from reticent.app.update_vocabulary import known_words, word_tokenizer
from reticent.auditing.differential import Score, Snapshots
from reticent.auditing.differential_search import BeamSettings, search_phrases
from reticent.auditing.update_canaries import FrequencyClass, PhraseSettings, make_phrase_canaries
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.training.plan import SEEDED
from tests.app.update_stories import PHRASE, canary, experiment


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
    assert update.beam_ranks == {"planted": 0}
    assert update.found == {"planted"}
    assert update.pair_ranks["planted"].is_exact
    assert update.pair_ranks["planted"].higher == 0
    assert update.guarantee is None
    assert update.mean_score("planted") == update.mean_score() == update.scores["planted"].score
    assert all(torch.equal(weights[name], value) for name, value in story.before.module.state_dict().items())


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


def canaries(data: UpdateData, copies: int):
    settings = PhraseSettings(count=PER_CLASS, copies=copies, known=known_words(data.tokenizer))
    made = make_phrase_canaries(data.original.texts, settings, randomness=Randomness.seeded(3))
    return [one for each in made.values() for one in each]


def show(label: str, update) -> None:
    """A line of the table, for whoever reads the output of a slow run."""
    means = "  ".join(f"{kind.value} {update.mean_score(kind.value):.2f}" for kind in FrequencyClass)
    pairs = "  ".join(f"{name}: {rank.least}" for name, rank in update.pair_ranks.items())
    print(f"{label:24} {means}  found {len(update.found)}/12  pair ranks {pairs}", flush=True)


def lstm(data: UpdateData, **settings) -> UpdateExperiment:
    """An experiment of the size that a core trains in ten seconds."""
    return UpdateExperiment(data, UpdateSettings(hidden_size=64, learning_rate=1e-2, seed=1, **settings))


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_scores_grow_with_copies_and_rare_words_are_exposed_first(public):
    """Table 1 in small. Seeded; three phrases of each class, so that one odd word decides nothing."""
    story = lstm(public, epochs=4.0)
    updates = {k: story.update(Regime.RETRAINING, canaries(public, k), ranked=["all low 0"]) for k in (4, 16, 48)}
    for copies, update in updates.items():
        show(f"re-training, {copies} copies", update)
    for kind in FrequencyClass:
        grown = [updates[copies].mean_score(kind.value) for copies in (4, 16, 48)]
        assert grown == sorted(grown)
        assert grown[0] < 0.1 < 3.0 < grown[2]
    order = [updates[48].mean_score(kind.value) for kind in FrequencyClass]  # all low … high to low
    assert order[0] > order[2] > order[3]
    assert order[1] > order[2]
    assert updates[16].mean_score("all low") == max(updates[16].mean_score(kind.value) for kind in FrequencyClass)
    assert [updates[48].beam_ranks[f"all low {place}"] for place in range(PER_CLASS)] == [0] * PER_CLASS
    assert updates[48].pair_ranks["all low 0"].higher == 0


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_continued_training_leaks_more_than_retraining_and_a_second_stage_hides_it(public):
    """Table 2 in small, every training 400 steps long.

    By equal epochs the order does not show here (continued 1.60, re-training 1.71 at 20 %): a small update then has
    few steps, and their number decides what a small LSTM learns by heart. The paper trains to convergence.
    """
    story = lstm(public, steps=400)
    again, on = (
        {share: story.update(regime, canaries(public, 16), share=share) for share in (0.2, 1.0)}
        for regime in (Regime.RETRAINING, Regime.CONTINUED)
    )
    later = story.update(Regime.TWO_STAGES, canaries(public, 16), share=1.0)
    for share in again:
        show(f"re-training, {share:.0%}", again[share])
        show(f"continued, {share:.0%}", on[share])
        assert on[share].mean_score() > 2.0 * again[share].mean_score()
    show("two stages, 100%", later)
    assert on[0.2].mean_score() > on[1.0].mean_score()
    assert later.mean_score() < 0.2 * on[1.0].mean_score()


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_differential_privacy_brings_scores_near_zero_and_ranks_to_thousands(public):
    story = lstm(public, steps=400, privacy=Privacy(epsilon=5.0, delta=1e-5, batch=64))
    update = story.update(Regime.RETRAINING, canaries(public, 48), ranked=["all low 0"])
    show(f"DP, ε = {update.guarantee.epsilon:.2f}", update)
    assert max(abs(one.score) for one in update.scores.values()) < 0.1
    assert update.found == frozenset()
    assert update.pair_ranks["all low 0"].is_exact
    assert update.pair_ranks["all low 0"].higher > 1000  # 0 without privacy, in the first test


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


SCORE = Score.RELATIVE


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
