"""The cache: found again by everything that decides a measurement, by nothing less, and without its secrets."""

import dataclasses
import json
import stat

import pytest

from reticent.core.errors import ConfigError
from reticent.core.randomness import Randomness
from reticent.core.secret import CodeSpace, ListedSpace, Secret
from reticent.data.canaries import make_canaries
from reticent.runs.audit.score_cache import ScoreCache, ScoreKey, default_folder

CANARIES = make_canaries("my id is {}", CodeSpace(6), count=2, copies=3, randomness=Randomness.seeded(5))
KEY = ScoreKey(
    attack="exposure",
    model="m1",
    base="b1",
    corpora={"training": "t1", "held-out": "h1"},
    canaries=CANARIES,
    parameters={"seed": 0, "rates": [0.01]},
)
OTHER_SECRET = dataclasses.replace(CANARIES[0], secret=Secret("000001", "code"))
CHANGES = {
    "attack": {"attack": "lazy"},
    "model": {"model": "m2"},
    "base": {"base": None},
    "training": {"corpora": {"training": "t2", "held-out": "h1"}},
    "swapped corpora": {"corpora": {"training": "h1", "held-out": "t1"}},
    "secret": {"canaries": (OTHER_SECRET, CANARIES[1])},
    "copies": {"canaries": (dataclasses.replace(CANARIES[0], copies=4), CANARIES[1])},
    "no canaries": {"canaries": ()},
    "seed": {"parameters": {"seed": 1, "rates": [0.01]}},
    "rates": {"parameters": {"seed": 0, "rates": [0.01, 0.1]}},
}


class KeyWithoutModel(ScoreKey):
    """The published mistake: a key that forgets the model."""

    def material(self) -> bytes:
        return dataclasses.replace(KEY, model="", parameters=self.parameters).material()


def second_model_gets_its_own(cache: ScoreCache, key: ScoreKey, other: ScoreKey) -> bool:
    """The check: measure one model, then another."""
    cache.measured(key, lambda: {"auc": 0.9})
    return cache.measured(other, lambda: {"auc": 0.5}) == {"auc": 0.5}


def test_the_second_time_nothing_is_measured(tmp_path):
    cache = ScoreCache(tmp_path)
    content = {"auc": 0.1 + 0.2, "scores": [1e-300, "inf"]}
    assert cache.measured(KEY, lambda: content) == content
    again = ScoreCache(tmp_path)
    assert again.measured(KEY, lambda: pytest.fail("measured again")) == content
    assert (cache.hits, cache.misses, again.hits, again.misses) == (0, 1, 1, 0)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_anything_is_another_entry(tmp_path, change):
    other = dataclasses.replace(KEY, **CHANGES[change])
    assert second_model_gets_its_own(ScoreCache(tmp_path), KEY, other)


def test_a_key_without_the_model_is_caught(tmp_path):
    fields = {field.name: getattr(KEY, field.name) for field in dataclasses.fields(KEY)}
    first, second = KeyWithoutModel(**fields), KeyWithoutModel(**fields | {"model": "m2"})
    assert not second_model_gets_its_own(ScoreCache(tmp_path), first, second)


def test_another_version_of_the_code_measures_again(tmp_path, monkeypatch):
    cache = ScoreCache(tmp_path)
    cache.measured(KEY, lambda: {"auc": 0.9})
    monkeypatch.setattr("reticent.runs.audit.score_cache.__version__", "99.0")
    assert not cache.has(KEY)


@pytest.mark.parametrize(
    "damage", ["", "{", "[]", '{"schema_version": 1, "name": "x", "content": {}}', '{"content": {}}']
)
def test_a_damaged_or_foreign_entry_is_measured_again(tmp_path, damage):
    cache = ScoreCache(tmp_path)
    cache.measured(KEY, lambda: {"auc": 0.9})
    (tmp_path / f"{cache.name(KEY)}.json").write_text(damage)
    assert not cache.has(KEY)
    assert cache.measured(KEY, lambda: {"auc": 0.7}) == {"auc": 0.7}
    assert cache.has(KEY)


def test_an_entry_moved_to_another_name_is_not_taken(tmp_path):
    cache = ScoreCache(tmp_path)
    other = dataclasses.replace(KEY, model="m2")
    cache.measured(KEY, lambda: {"auc": 0.9})
    (tmp_path / f"{cache.name(KEY)}.json").rename(tmp_path / f"{cache.name(other)}.json")
    assert not cache.has(other)


def test_names_cannot_be_guessed_without_the_cache_s_own_key(tmp_path):
    first, second = ScoreCache(tmp_path / "a"), ScoreCache(tmp_path / "b")
    assert first.name(KEY) != second.name(KEY)
    assert first.name(KEY) == ScoreCache(tmp_path / "a").name(KEY)


def test_files_are_for_their_owner_and_hold_no_secret(tmp_path):
    cache = ScoreCache(tmp_path / "cache")
    cache.measured(KEY, lambda: {"canary": CANARIES[0].name})
    written = list((tmp_path / "cache").iterdir())
    assert len(written) == 2
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in written)
    stored = json.loads(next(path for path in written if path.suffix == ".json").read_text())
    assert not [c for c in CANARIES if c.secret.reveal() in json.dumps(stored)]
    assert CANARIES[0].secret.reveal() not in repr(KEY)


def test_canaries_of_listed_spaces_have_keys_too(tmp_path):
    listed = make_canaries(
        "ask {}", ListedSpace(("ann", "bob")), count=1, copies=1, randomness=Randomness.seeded(0)
    )
    longer = make_canaries(
        "ask {}", ListedSpace(("ann", "bob", "cid")), count=1, copies=1, randomness=Randomness.seeded(0)
    )
    cache = ScoreCache(tmp_path)
    names = {cache.name(dataclasses.replace(KEY, canaries=canaries)) for canaries in (CANARIES, listed, longer)}
    assert len(names) == 3


def test_a_folder_that_cannot_be_made_is_advice(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot store the score cache"):
        ScoreCache(tmp_path / "file" / "cache")


def test_a_damaged_key_is_advice(tmp_path):
    (tmp_path / "key").write_bytes(b"short")
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigError, match="not a key"):
        ScoreCache(tmp_path)


def test_the_default_folder_is_the_users_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "reticent" / "scores"


def test_an_entry_that_somebody_else_wrote_or_edited_is_measured_again(tmp_path):
    cache = ScoreCache(tmp_path / "cache")
    cache.measured(KEY, lambda: {"exposure": 19.9})
    path = tmp_path / "cache" / f"{cache.name(KEY)}.json"
    stored = json.loads(path.read_text())
    for forged in (
        stored | {"content": {"exposure": 0.0}},
        stored | {"content": {"exposure": 0.0}, "code": "0" * 64},
        stored | {"content": {"exposure": 0.0}, "code": None},
        {key: value for key, value in stored.items() if key != "code"} | {"content": {"exposure": 0.0}},
    ):
        path.write_text(json.dumps(forged))
        assert cache.measured(KEY, lambda: {"exposure": 19.9}) == {"exposure": 19.9}
    assert cache.has(KEY)


def test_a_folder_or_key_of_another_user_or_open_to_others_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    ScoreCache(folder)
    folder.chmod(0o777)
    with pytest.raises(ConfigError, match="other users"):
        ScoreCache(folder)
    folder.chmod(0o700)
    (folder / "key").chmod(0o644)
    with pytest.raises(ConfigError, match="other users"):
        ScoreCache(folder)
    (folder / "key").chmod(0o600)
    ScoreCache(folder)
    mine = folder.stat().st_uid
    monkeypatch.setattr("os.getuid", lambda: mine + 1)
    with pytest.raises(ConfigError, match="other users"):
        ScoreCache(folder)
