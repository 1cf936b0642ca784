"""Re-identification: everything is linked where a telling word was left, nothing beyond chance where none was."""

import json

import numpy as np
import pytest

from reticent.core.randomness import Randomness
from reticent.data.redaction.linkage import link

WORDS = "the order is late and nobody answers please send it again to my new address today thanks".split()  # noqa: SIM905


def people(count: int, each: int, *, telling: bool):
    generator = np.random.default_rng(7)
    owners = [f"person {n // each}" for n in range(count * each)]
    clear = [f"the order is late zebra{n // each}" for n in range(count * each)]
    scrubbed = clear if telling else [f"{' '.join(generator.choice(WORDS, 8))} <MASK>" for _ in clear]
    return owners, clear, scrubbed


def test_a_word_that_only_one_person_uses_links_every_record():
    found = link(*people(40, 4, telling=True), randomness=Randomness.seeded(1))
    assert found is not None
    assert (found.linked.value, found.owners, found.p_value) == (1.0, 40, 0.001)
    assert found.linked.trials == 80
    assert found.null == pytest.approx(1 / 40, abs=0.01)


def test_text_that_says_nothing_of_its_author_is_linked_by_chance_alone():
    """Fixed by the seed; a p-value of at most 0.05 has chance 0.05 over seeds."""
    found = link(*people(40, 4, telling=False), randomness=Randomness.seeded(2))
    assert found is not None
    assert not found.beats_null
    low, high = found.linked.interval
    assert low <= found.null <= high


def test_the_p_value_is_right_without_signal():
    """60 draws, fixed by their seeds: at most a tenth below 0.05 (chance of more by luck: 0.03)."""
    small = []
    for seed in range(60):
        generator = np.random.default_rng(seed)
        texts = [" ".join(generator.choice(WORDS, 6)) for _ in range(24)]
        found = link([str(n // 2) for n in range(24)], texts, texts, randomness=Randomness.seeded(seed))
        assert found is not None
        small.append(found.p_value <= 0.05)
    assert sum(small) <= 6


def test_equal_likeness_is_no_link_and_owners_of_one_record_are_left_out():
    same = link(["a", "a", "b", "b"], ["x y"] * 4, ["x y"] * 4, randomness=Randomness.seeded(3))
    assert same is not None
    assert same.linked.hits == 0
    assert link(["a", "b", "c"], ["x"] * 3, ["x"] * 3, randomness=Randomness.seeded(4)) is None


ANIMALS = {"zebra": "stripes", "lion": "mane", "fox": "tail", "owl": "eyes", "crab": "claws", "seal": "whiskers"}


class Naturalist:
    """A model of characters that knows what belongs to which animal and nothing else, or not even that."""

    context_length = 64

    def __init__(self, *, knows: bool = True) -> None:
        self.knows = knows

    def encode(self, texts):
        return [[ord(symbol) for symbol in text] for text in texts]

    def continuation_log_probs(self, prefix, continuations):
        assert len(prefix) + max(map(len, continuations)) < self.context_length
        read = "".join(map(chr, prefix))
        said = ["".join(map(chr, tokens)) for tokens in continuations]
        fits = [any(a in read and ANIMALS[a] in one for a in ANIMALS) for one in said]
        return [
            np.full(len(one), -0.1 if fit and self.knows else -3.0) for one, fit in zip(said, fits, strict=True)
        ]


@pytest.mark.parametrize(("model", "share"), [(Naturalist(), 1.0), (Naturalist(knows=False), 0.0), (None, 0.0)])
def test_a_model_links_what_has_no_word_in_common(model, share):
    owners = [animal for animal in ANIMALS for _ in range(4)]
    clear = [f"once {'long ' * 9} upon the {animal}" for animal in owners]
    scrubbed = [f"<MASK> has {ANIMALS[animal]} {'again ' * 9}" for animal in owners]
    found = link(owners, clear, scrubbed, randomness=Randomness.seeded(5), model=model)
    assert found is not None
    assert found.linked.value == share
    assert found.beats_null == (share == 1.0)


def test_a_model_for_linkage_needs_linkage():
    from reticent.core.errors import ConfigError
    from reticent.runs.corpus.scrub import ScrubSettings

    with pytest.raises(ConfigError, match="--linkage"):
        ScrubSettings.of(file="c.jsonl", out="o.jsonl", linkage_model="m")


def test_scrub_measures_linkage_where_it_is_asked_for(tmp_path):
    from reticent.core.errors import DataError
    from reticent.runs.corpus.scrub import ScrubSettings, scrub

    owners, texts, _ = people(12, 4, telling=True)
    rows = [
        {"id": n, "owner": owner, "text": text} for n, (owner, text) in enumerate(zip(owners, texts, strict=True))
    ]
    source = tmp_path / "c.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = {"file": str(source), "policy": "patterns", "linkage": True}
    done = scrub(ScrubSettings.of(out=str(tmp_path / "o.jsonl"), **asked))
    assert done.to_json()["linkage"]["linked"]["value"] == 1.0
    with pytest.raises(DataError, match="owner"):
        scrub(ScrubSettings.of(out=str(tmp_path / "p.jsonl"), owner_field="id", **asked))
