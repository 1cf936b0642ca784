"""Places by keyed hash: stable, independent of others, and about as large as asked."""

import random

import pytest

from reticent.core.corpus import Corpus, Record
from reticent.data.splits import assign, half_of, part_of, split_corpus

KEY = b"a key"
OWNERS = [f"owner {n}" for n in range(4000)]
CORPUS = Corpus(Record(f"r{n}", "text", owner=OWNERS[n // 2]) for n in range(8000))
FRACTIONS = {"train": 0.8, "holdout": 0.2}


def test_split_is_a_partition_in_order_and_owners_stay_together():
    parts = split_corpus(CORPUS, FRACTIONS, key=KEY)
    assert sorted(r.id for part in parts.values() for r in part) == sorted(r.id for r in CORPUS)
    assert not set(parts["train"].owners) & set(parts["holdout"].owners)
    numbers = [int(r.id[1:]) for r in parts["train"]]
    assert numbers == sorted(numbers)


def test_split_by_record_separates_records_of_one_owner():
    parts = split_corpus(CORPUS, FRACTIONS, by="record", key=KEY)
    assert set(parts["train"].owners) & set(parts["holdout"].owners)


@pytest.mark.parametrize("by", ["owner", "record"])
def test_place_does_not_depend_on_other_records(by):
    places = {r.id: name for name, r in assign(CORPUS, FRACTIONS, by=by, key=KEY)}
    some = random.Random(0).sample(list(CORPUS), 500)
    assert all(places[r.id] == name for name, r in assign(some, FRACTIONS, by=by, key=KEY))


def test_broken_twin_that_shuffles_moves_others_and_is_seen():
    def shuffled(records):
        order = list(records)
        random.Random(0).shuffle(order)
        return {r.id: "train" if n < 0.8 * len(order) else "holdout" for n, r in enumerate(order)}

    before, after = shuffled(CORPUS), shuffled(CORPUS[1:])
    assert any(before[r.id] != after[r.id] for r in CORPUS[1:])


def test_shares_have_about_the_size_asked_for():
    # Binomial(4000, 0.2): standard deviation 25; five of them make a false alarm of 6e-7.
    held = sum(1 for name, _ in assign((Record(o, "x") for o in OWNERS), FRACTIONS, key=KEY) if name == "holdout")
    assert abs(held - 800) < 127


def test_parts_and_halves_are_balanced_and_independent():
    cells: dict[tuple[int, int], int] = {}
    for owner in OWNERS:
        cell = part_of(owner, 5, key=KEY), half_of(owner, key=KEY)
        cells[cell] = cells.get(cell, 0) + 1
    assert set(cells) == {(p, h) for p in range(5) for h in range(2)}
    # Binomial(4000, 0.1): standard deviation 19; five of them, ten cells: false alarm 6e-6.
    assert all(abs(count - 400) < 95 for count in cells.values())


def test_half_taken_from_the_part_hash_would_be_seen():
    # The twin without separate purposes: the top bit decides both, so part 0 has only half 0.
    twins = {(part_of(o, 2, key=KEY), part_of(o, 2, key=KEY)) for o in OWNERS}
    assert len(twins) == 2
    assert len({(part_of(o, 2, key=KEY), half_of(o, key=KEY)) for o in OWNERS}) == 4


def test_other_key_gives_other_places():
    same = sum(part_of(o, 2, key=KEY) == part_of(o, 2, key=b"another") for o in OWNERS)
    assert 1800 < same < 2200  # binomial, standard deviation 32


def test_golden_places_never_move():
    # From hashlib alone, floor(BLAKE2b / 2^64 * parts): a change would move every split.
    assert [part_of(f"o{n}", 10, key=b"k") for n in range(8)] == [3, 3, 8, 4, 3, 5, 3, 7]
    assert [half_of(f"o{n}", key=b"k") for n in range(8)] == [1, 1, 1, 1, 0, 1, 1, 0]


@pytest.mark.parametrize("fractions", [{}, {"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": float("nan")}])
def test_fractions_that_make_no_split_are_refused(fractions):
    with pytest.raises(ValueError):
        split_corpus(CORPUS, fractions, key=KEY)


@pytest.mark.parametrize("key", [b"", b"x" * 65])
def test_key_of_wrong_length_is_refused(key):
    with pytest.raises(ValueError):
        part_of("o", 2, key=key)


def test_no_parts_are_refused():
    with pytest.raises(ValueError):
        part_of("o", 0, key=KEY)
