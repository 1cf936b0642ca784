"""Canaries: distinct secrets, exact spans, seeded places, a key file for its owner alone."""

import json
import stat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ConfigError, DataError
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace, ListedSpace
from reticent.data.canaries import CanaryOwner, make_canaries, plant_canaries, plant_stream, read_key, write_key

CORPUS = Corpus(Record(f"r{n}", f"text {n}") for n in range(50))


def canaries(seed: int = 0, **changes):
    options = {"count": 10, "copies": 20} | changes
    return make_canaries("My ID is: {}.", CodeSpace(6), randomness=Randomness.seeded(seed), **options)


def test_planted_corpus_holds_the_records_in_order_and_every_copy_with_its_exact_span():
    made = canaries()
    planted = plant_canaries(CORPUS, made, randomness=Randomness.seeded(1))
    assert [r for r in planted if not r.id.startswith("canary/")] == list(CORPUS)
    for canary in made:
        copies = [r for r in planted if r.id.startswith(f"canary/{canary.name}/")]
        assert len(copies) == 20
        for copy in copies:
            (span,) = copy.spans
            assert copy.text == f"My ID is: {canary.secret.reveal()}."
            assert copy.text[span.start : span.end] == canary.secret.reveal()
            assert (span.kind, span.identifier) == ("code", "direct")


@pytest.mark.parametrize(("owner", "owners"), [(CanaryOwner.COPY, 200), (CanaryOwner.CANARY, 10)])
def test_copies_have_owners_as_chosen(owner, owners):
    planted = plant_canaries(CORPUS, canaries(), randomness=Randomness.seeded(1), owner=owner)
    assert len({r.owner for r in planted if r.id.startswith("canary/")}) == owners


def test_seed_decides_secrets_and_places():
    assert canaries(3) == canaries(3)
    assert {c.secret for c in canaries(3)} != {c.secret for c in canaries(4)}
    first, again, other = (plant_canaries(CORPUS, canaries(), randomness=Randomness.seeded(s)) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_places_are_uniform():
    # One canary in 4 records: 5 places, 2000 draws; standard deviation 18, five of them: false alarm 3e-6.
    made = canaries(count=1, copies=1)
    source = Randomness.seeded(7)
    counts = [0] * 5
    for _ in range(2000):
        planted = plant_canaries(CORPUS[:4], made, randomness=source)
        counts[next(n for n, r in enumerate(planted) if r.id.startswith("canary/"))] += 1
    assert all(abs(count - 400) < 90 for count in counts)


@given(size=st.integers(0, 6), count=st.integers(1, 3), copies=st.integers(1, 3), seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_no_copy_is_lost_at_either_end(size, count, copies, seed):
    made = canaries(seed, count=count, copies=copies)
    planted = plant_canaries(CORPUS[:size], made, randomness=Randomness.seeded(seed))
    assert len(planted) == size + count * copies


def test_secrets_differ_even_where_the_space_is_exhausted():
    made = make_canaries("{}", CodeSpace(1), count=10, copies=1, randomness=Randomness.seeded(0))
    assert {c.secret.reveal() for c in made} == set("0123456789")
    assert len({c.secret.reveal() for c in canaries(count=500)}) == 500


def test_stream_of_another_size_than_told_is_an_error():
    with pytest.raises(ValueError, match="not 49"):
        list(plant_stream(CORPUS, canaries(), size=49, randomness=Randomness.seeded(0)))


def test_planting_twice_is_refused():
    planted = plant_canaries(CORPUS, canaries(), randomness=Randomness.seeded(0))
    with pytest.raises(ConfigError, match="already"):
        plant_canaries(planted, canaries(1), randomness=Randomness.seeded(0))


@pytest.mark.parametrize(
    ("template", "count", "copies"),
    [("no place", 1, 1), ("{} {}", 1, 1), ("{}", 11, 1), ("{}", 0, 1), ("{}", 1, 0)],
)
def test_what_cannot_be_made_is_refused(template, count, copies):
    with pytest.raises(ConfigError):
        make_canaries(template, CodeSpace(1), count=count, copies=copies, randomness=Randomness.seeded(0))


def test_key_file_written_and_read_is_the_identity_and_its_owners_alone(tmp_path):
    names = ListedSpace(("Ada", "Bjørn", "Cleo"))
    made = (
        *canaries(),
        *make_canaries("I am {}", names, count=2, copies=3, randomness=Randomness.seeded(0), kind="name"),
    )
    write_key(made, tmp_path / "key.json")
    assert read_key(tmp_path / "key.json") == made
    assert stat.S_IMODE((tmp_path / "key.json").stat().st_mode) == 0o600
    with pytest.raises(DataError, match="already exists"):
        write_key(made, tmp_path / "key.json")


def test_unknown_schema_version_is_refused(tmp_path):
    path = tmp_path / "key.json"
    write_key(canaries(), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 2}))
    with pytest.raises(ConfigError, match="schema version"):
        read_key(path)


CANARY = {"name": "c", "template": "{}", "secret": "hidden", "kind": "code", "copies": 1}
BINARY = {"type": "codes", "length": 6, "alphabet": "01"}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"schema_version": 1, "canaries": [{"secret": "hidden"}]}),
        json.dumps({"schema_version": 1, "canaries": [CANARY | {"space": BINARY}]}),
        json.dumps({"schema_version": 1, "canaries": [CANARY | {"space": {"type": "other"}}]}),
        json.dumps({"schema_version": 1, "canaries": 7}),
        json.dumps({"schema_version": 1, "canaries": ["hidden"]}),
        '["hidden"]',
        '{"hidden',
        "\udcff hidden",
    ],
)
def test_bad_key_file_is_an_error_that_shows_nothing_of_it(content, tmp_path):
    path = tmp_path / "key.json"
    path.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(DataError) as caught:
        read_key(path)
    assert "hidden" not in f"{caught.value} {caught.value.hint}"
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def test_missing_key_file_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_key(tmp_path / "none.json")


def test_no_secret_shows_in_a_repr():
    made = canaries()
    shown = repr(made) + repr(plant_canaries(CORPUS, made, randomness=Randomness.seeded(0)))
    assert not any(c.secret.reveal() in shown for c in made)
