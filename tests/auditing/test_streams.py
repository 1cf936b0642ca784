"""Counts of records and of new n-grams over a stream: equal to those of the whole index, in one shard's memory."""

from hypothesis import given, settings
from hypothesis import strategies as st

from reticent.auditing.eidetic import EideticIndex, count_in_stream
from reticent.auditing.novelty import NGramIndex, novelty_in_stream
from reticent.core.corpus import Record

texts = st.lists(st.text(alphabet="ab é.", min_size=1, max_size=12), min_size=1, max_size=8)


def records(values):
    return [Record(f"r{number}", text) for number, text in enumerate(values)]


@given(texts, st.lists(st.text(alphabet="ab é", max_size=4), max_size=6), st.integers(1, 40))
@settings(deadline=None, max_examples=60)
def test_counts_over_a_stream_equal_those_of_the_index_and_of_a_loop(values, strings, shard_bytes):
    index = EideticIndex(records(values))
    found = count_in_stream(strings, iter(records(values)), shard_bytes=shard_bytes).tolist()
    assert found == [index.count_records(string) for string in strings]
    assert found == [sum(string in value for value in values) for string in strings]


@given(texts, texts)
@settings(deadline=None, max_examples=60)
def test_novelty_over_a_stream_equals_that_of_the_index(corpus, generated):
    whole = NGramIndex(records(corpus), longest=4).novelty(generated)
    streamed = novelty_in_stream(generated, iter(records(corpus)), longest=4)
    assert streamed.novel.tolist() == whole.novel.tolist()
    assert streamed.total.tolist() == whole.total.tolist()


def test_a_stream_counts_across_its_batches():
    from reticent.auditing import novelty

    many = [f"a{number} b c" for number in range(novelty._BATCH + 5)]
    last = novelty_in_stream([f"a{novelty._BATCH + 4} b", "a0 b", "x y"], records(many), longest=2)
    assert last.novel.tolist() == [[0, 0], [0, 0], [2, 1]]
