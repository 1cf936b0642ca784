"""What other people's taggers return, made fit for masking: the mistakes that published scrubbers made."""

from hypothesis import given
from hypothesis import strategies as st

from reticent.core.corpus import Record, Span
from reticent.data.measurement import measure_policy
from reticent.data.policies.taggers.word_edges import whole_words
from reticent.data.redaction.masking import redact

TEXT = "Mr Klein lives"


def test_sub_word_span_grows_to_the_word_so_that_no_piece_of_a_name_is_left():
    assert whole_words(TEXT, [Span(3, 5, "PERSON")]) == (Span(3, 8, "PERSON"),)
    # The twin that masks what the tagger said leaves half of the name.
    assert "ein" in redact(TEXT, [Span(3, 5, "PERSON")]).text


def test_white_space_at_the_edges_is_no_part_of_a_name():
    assert whole_words(TEXT, [Span(2, 9, "PERSON")]) == (Span(3, 8, "PERSON"),)
    assert whole_words("a \n b", [Span(1, 4, "PERSON")]) == ()
    # Two mentions of one name, one tagged with its blank, are one secret and not two.
    record = Record("r", "Klein , Klein", spans=(Span(0, 5, "P"), Span(8, 13, "P")))

    class Blanks:
        name = "blanks"
        is_local = False

        def find(self, texts):
            return [whole_words(t, [Span(0, 6, "P"), Span(7, 13, "P")]) for t in texts]

    assert measure_policy([record], Blanks()).precision.trials == 2
    assert measure_policy([record], Blanks()).distinct_recall.trials == 1


def test_duplicates_and_overlaps_become_one():
    spans = [Span(3, 8, "PERSON"), Span(3, 8, "PERSON"), Span(0, 5, "TITLE"), Span(3, 8, "ORG")]
    assert whole_words(TEXT, spans) == (Span(0, 8, "TITLE"),)


def test_numbers_and_letters_joined_are_one_word_and_punctuation_is_not():
    assert whole_words("no. A12b-9", [Span(5, 6, "CODE")]) == (Span(4, 8, "CODE"),)
    assert whole_words("(Klein)", [Span(1, 3, "P")]) == (Span(1, 6, "P"),)


@given(st.text("ab -\n", min_size=1, max_size=20), st.data())
def test_equals_the_slow_version(text, data):
    edges = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text))).filter(lambda e: e[0] < e[1])
    spans = [Span(*e, "P") for e in data.draw(st.lists(edges, max_size=4))]
    hidden = {n for s in spans for n in range(s.start, s.end) if not text[n].isspace()}
    grown = True
    while grown:  # the oracle: letters beside a hidden letter are hidden, until nothing changes
        more = {
            m for n in hidden for m in (n - 1, n + 1)
            if 0 <= m < len(text) and text[m].isalpha() and text[n].isalpha()
        } - hidden  # fmt: skip
        grown = bool(more)
        hidden |= more
    found = whole_words(text, spans)
    covered = {n for s in found for n in range(s.start, s.end) if not text[n].isspace()}
    assert covered == hidden
    assert all(not a.overlaps(b) for i, a in enumerate(found) for b in found[i + 1 :])
    assert all(not text[s.start].isspace() and not text[s.end - 1].isspace() for s in found)
