"""The cache of findings: right, never stale, never another policy's, and without a character of text."""

import pytest

from bench.known_policies import GoldLabels
from reticent.core.corpus import Span
from reticent.core.errors import ConfigError
from reticent.data.policies.combined import Dictionary, UnionPolicy
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.policies.span_cache import SpanCache
from reticent.engine.policy import policies_in

SECRET = "Zebedee Quillfeather"
TEXTS = [f"{SECRET} called 415-555-26{n:02}" for n in range(20)] * 2


class Counted(Dictionary):
    asked = 0

    def find(self, texts):
        self.asked += len(texts)
        return super().find(texts)


def test_second_time_nothing_is_asked_and_findings_are_the_same(tmp_path):
    policy = Counted({SECRET: "NAME"})
    first = SpanCache(policy, tmp_path / "c.db")
    assert first.find(TEXTS) == Dictionary({SECRET: "NAME"}).find(TEXTS)
    assert policy.asked == 20
    first.close()
    second = SpanCache(policy, tmp_path / "c.db")
    assert second.find(TEXTS) == first._policy.find(TEXTS)
    assert (second.hits, second.misses) == (40, 0)


def test_another_policy_never_gets_these_findings(tmp_path):
    # The twin keyed by the name alone: both dictionaries are called "dictionary".
    one, other = Dictionary({SECRET: "NAME"}), Dictionary({"called": "WORD"})
    assert one.name == other.name
    SpanCache(one, tmp_path / "c.db").find(TEXTS)
    assert SpanCache(other, tmp_path / "c.db").find(TEXTS[:1]) == [(Span(21, 27, "WORD"),)]


def test_file_holds_no_text_and_only_its_owner_reads_it(tmp_path):
    path = tmp_path / "c.db"
    SpanCache(UnionPolicy([Dictionary({SECRET: "NAME"}), PatternPolicy()]), path).find(TEXTS)
    stored = b"".join(p.read_bytes() for p in tmp_path.iterdir())
    assert not any(word.encode() in stored for word in ("Zebedee", "Quillfeather", "called", "415-555"))
    assert path.stat().st_mode & 0o077 == 0


def test_policy_without_a_fingerprint_is_refused(tmp_path):
    with pytest.raises(ValueError, match="fingerprint"):
        SpanCache(GoldLabels([]), tmp_path / "c.db")
    with pytest.raises(ValueError, match="fingerprint"):
        SpanCache(UnionPolicy([PatternPolicy(), GoldLabels([])]), tmp_path / "c.db")


def test_several_processes_find_the_same_in_the_same_order():
    policy = UnionPolicy([Dictionary({SECRET: "NAME"}), PatternPolicy()])
    texts = [f"{n} {text}" for n, text in enumerate(TEXTS)]
    with policies_in(None, [policy], processes=2) as (workers,):
        assert workers.find(texts) == policy.find(texts)
        assert workers.find([]) == []
        assert workers.fingerprint == policy.fingerprint
        assert workers.is_local == policy.is_local
    with pytest.raises(ConfigError), policies_in(None, [policy], processes=0):
        pass
