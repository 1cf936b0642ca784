"""Real text for the phrases of Updates: messages of one newsgroup as public text, those of another as the update.

Files of the user's folder of data: two groups of the 20 Newsgroups set (`newsgroups.jsonl`: id, group, text), and
WikiText-2 (`wikitext-2.valid.txt`), whose words are in the vocabulary too. The paper's public text is Reddit: talk.
With encyclopaedia articles in its place an update exposes how people talk, before any subject. Text is lower case,
marks apart, a sentence a record; quoted lines, headers, addresses and tables (box scores) are left out, since they
are nobody's subject: with tables among the messages the highest scores go to rows of zeros.

A word is of a group's **subject** where it is four times as frequent there as in the public text. Only counts leave
here, never words.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from reticent import Corpus, Record
from reticent.core import Randomness

ARTICLES: Final = "wikitext-2.valid.txt"
MESSAGES: Final = "newsgroups.jsonl"
HOCKEY: Final = "rec.sport.hockey"
MIDEAST: Final = "talk.politics.mideast"
_RATIO: Final = 4.0
_FEWEST, _LONGEST = 4, 25  # words of a sentence
_NO_SUBJECT: Final = re.compile(r"^\s*(?:[>:|#-]|in article|from:|subject:|.*@|.*writes:?\s*$)", re.IGNORECASE)
_END: Final = re.compile(r"(?<=[.!?])\s+")
_WORD: Final = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+|[.,;:!?]")


@dataclass(frozen=True, slots=True)
class GroupText:
    """Another group's messages and more of them, a group's own, and the words of its subject."""

    original: Corpus
    extra: Corpus
    update: Corpus
    vocabulary: tuple[str, ...]  # public sentences that the vocabulary is made of
    subject: frozenset[str]

    def __repr__(self) -> str:
        return f"GroupText({len(self.update)} sentences of a group)"

    def subject_words(self, phrases: Iterable[str]) -> list[int]:
        """How many words of each phrase are of the subject."""
        return [sum(word in self.subject for word in phrase.split()) for phrase in phrases]


def sentences(text: str) -> Iterator[str]:
    """Sentences of a text in lower case, marks apart."""
    for part in _END.split(" ".join(text.split())):
        words = _WORD.findall(part.lower())
        is_prose = 2 * sum(word.isdigit() for word in words) < len(words)
        if _FEWEST <= len(words) <= _LONGEST and is_prose:
            yield " ".join(words)


def _articles(path: Path) -> list[str]:
    """Sentences of a WikiText file: headings and blanks left out, its marks joined."""
    lines = (line.strip() for line in path.read_text(encoding="utf8").splitlines())
    text = (line.replace("<unk>", "").replace(" @-@ ", " ") for line in lines if line and not line.startswith("="))
    return [sentence for line in text for sentence in sentences(line)]


def _messages(path: Path, group: str) -> list[str]:
    """Sentences of one group's messages."""
    rows = (json.loads(line) for line in path.read_text(encoding="utf8").splitlines())
    found = []
    for row in rows:
        if row["group"] == group:
            kept = [line for line in row["text"].splitlines() if not _NO_SUBJECT.match(line)]
            found += list(sentences("\n".join(kept)))
    return found


def read_group(folder: Path, group: str, *, public: int, messages: int, randomness: Randomness) -> GroupText:
    """So many sentences of the other group, as many more, and so many of the group, drawn at random."""
    own, other = (_messages(folder / MESSAGES, name) for name in (group, ({HOCKEY, MIDEAST} - {group}).pop()))
    articles = _articles(folder / ARTICLES)
    drawn = _drawn(other, 2 * public, "d", randomness.child("public"))
    return GroupText(
        drawn[:public],
        drawn[public:],
        _drawn(own, messages, "n", randomness.child(group)),
        (*other, *articles),
        frozenset(subject_words(own, other)),
    )


def subject_words(own: Iterable[str], other: Iterable[str]) -> set[str]:
    """Words that are four times as frequent in one text as in the other, an occurrence added to the other."""
    counts, rival = (Counter(word for text in texts for word in text.split()) for texts in (own, other))
    total, rivals = counts.total(), rival.total()
    return {
        word
        for word, count in counts.items()
        if word.isalpha() and count >= _FEWEST and count / total >= _RATIO * (rival[word] + 1.0) / rivals
    }


def _drawn(texts: list[str], count: int, name: str, randomness: Randomness) -> Corpus:
    order = randomness.permutation(len(texts))[:count]
    return Corpus(Record(f"{name}{place}", texts[int(at)]) for place, at in enumerate(order))
