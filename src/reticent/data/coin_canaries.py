"""Canaries made for an audit: texts that were each planted or left out by a fair coin.

Whoever guesses the coins from the finished model shows a lower bound on ε (`auditing.attacks.one_run.coins`). The
design says what the texts look like; the coins come from the system's generator. The key file holds texts and coins
in clear, so only its owner may read it (mode 0600).

    random tokens    tokens of the vocabulary, all equally likely: nothing else in the corpus resembles them
    corpus style     what the public model says at a temperature of at least 0.8: as hard to tell as real records
    rare prefix      the same unlikely beginning for all, then random tokens: told apart by what follows it
    new token        the same likely beginning for all, then a token of its own that nothing else has (Panda et al.
                     2025): its row of the embeddings is touched by no other record. The vocabulary must grow
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from reticent.core.corpus import Record
from reticent.core.document import MALFORMED, check_schema
from reticent.core.errors import ConfigError, DataError
from reticent.core.guarantee import Unit
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.data.writing import replaced

SCHEMA_VERSION: Final = 1
KIND: Final = "coins"
COOLEST: Final = 0.8  # temperature of texts in the corpus's style: cooler ones repeat each other
_ROUNDS: Final = 20  # of drawing again what was drawn before


class DesignName(StrEnum):
    """The designs by the names that the command line has for them."""

    RANDOM_TOKENS = "random-tokens"
    CORPUS_STYLE = "corpus-style"
    RARE_PREFIX = "rare-prefix"
    NEW_TOKEN = "new-token"


class Design(Protocol):
    """How the texts of canaries are made; `measures` says in a sentence what they measure."""

    name: ClassVar[DesignName]
    measures: ClassVar[str]

    def texts(self, count: int, randomness: Randomness) -> list[str]:
        """So many texts, not all of them different."""
        ...


@dataclass(frozen=True, slots=True)
class RandomTokens:
    """Tokens of the model's vocabulary, independent and equally likely."""

    name: ClassVar[DesignName] = DesignName.RANDOM_TOKENS
    measures: ClassVar[str] = "membership of a record unlike all others"
    model: LanguageModel
    length: int

    def texts(self, count: int, randomness: Randomness) -> list[str]:
        """Decoded tokens."""
        ordinary = _ordinary(self.model)
        tokens = ordinary[randomness.integers(len(ordinary), (count, self.length))]  # [count, length]
        return self.model.decode(tokens.tolist())


@dataclass(frozen=True, slots=True)
class CorpusStyle:
    """What the public model says without a prompt; it knows nothing of the private corpus."""

    name: ClassVar[DesignName] = DesignName.CORPUS_STYLE
    measures: ClassVar[str] = "membership of a record like those that the public model writes"
    model: LanguageModel
    length: int
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not self.temperature >= COOLEST:
            raise ConfigError(
                "texts of canaries must differ from each other",
                found=f"temperature {self.temperature:g}",
                expected=f"{COOLEST:g} or more",
            )

    def texts(self, count: int, randomness: Randomness) -> list[str]:
        """Samples of the model."""
        sampling = Sampling(max_tokens=self.length, temperature=self.temperature)
        (said,) = self.model.generate([[]], sampling, count=count, randomness=randomness)
        return self.model.decode(said)


@dataclass(frozen=True, slots=True)
class RarePrefix:
    """A quarter of the text is one beginning for all, of the tokens expected least; the rest is random."""

    name: ClassVar[DesignName] = DesignName.RARE_PREFIX
    measures: ClassVar[str] = "membership of a record with a beginning of its own kind"
    model: LanguageModel
    length: int

    def texts(self, count: int, randomness: Randomness) -> list[str]:
        """The beginning, then random tokens."""
        prefix: list[int] = []
        ordinary = _ordinary(self.model)
        for _ in range(max(1, self.length // 4)):
            expected = self.model.next_token_log_probs([prefix])[0][ordinary]
            prefix.append(int(ordinary[expected.argmin()]))
        rest = max(1, self.length - len(prefix))
        tokens = ordinary[randomness.integers(len(ordinary), (count, rest))]  # [count, rest]
        return self.model.decode([prefix + row for row in tokens.tolist()])


@dataclass(frozen=True, slots=True)
class NewToken:
    """The likeliest beginning, the same for all, and one new word each: `new_words` of a vocabulary that has grown.

    The beginning is likely, so that most of a record's gradient comes from its last token.
    """

    name: ClassVar[DesignName] = DesignName.NEW_TOKEN
    measures: ClassVar[str] = "membership of a record that ends in a token of its own"
    model: LanguageModel
    length: int

    beginning: list[int] = field(init=False)  # the tokens before the last one, as the model is now

    def __post_init__(self) -> None:
        ordinary = _ordinary(self.model)
        said: list[int] = []
        for _ in range(self.length - 1):
            said.append(int(ordinary[self.model.next_token_log_probs([said])[0][ordinary].argmax()]))
        object.__setattr__(self, "beginning", said)

    def texts(self, count: int, randomness: Randomness) -> list[str]:  # noqa: ARG002
        """The beginning with each word."""
        (beginning,) = self.model.decode([self.beginning])
        return [beginning + word for word in new_words(count)]


def new_words(count: int) -> list[str]:
    """So many words that no vocabulary has."""
    return [f"<canary-{number}>" for number in range(count)]


def _ordinary(model: LanguageModel) -> NDArray[np.int64]:
    """Ids of the tokens that neither start nor end a text."""
    return np.setdiff1d(np.arange(model.vocabulary_size), [model.start_token, model.end_token or model.start_token])


_DESIGNS: Final[dict[DesignName, type[RandomTokens] | type[CorpusStyle] | type[RarePrefix] | type[NewToken]]] = {
    design.name: design for design in (RandomTokens, CorpusStyle, RarePrefix, NewToken)
}


def design_named(name: DesignName, model: LanguageModel, *, length: int) -> Design:
    """The design of that name, for texts of about `length` tokens."""
    return _DESIGNS[name](model, length)


@dataclass(frozen=True, slots=True, eq=False)
class CoinKey:
    """Texts [N] and their coins [N]; `copies` records of one owner stand for each canary that was kept."""

    design: str
    measures: str
    copies: int
    texts: tuple[str, ...] = field(repr=False)
    is_member: NDArray[np.bool_] = field(repr=False)

    def __post_init__(self) -> None:
        if len(set(self.texts)) != len(self.texts) or self.is_member.shape != (len(self.texts),) or self.copies < 1:
            raise ValueError("a key has different texts, a coin for each, and a number of copies")

    def __len__(self) -> int:
        return len(self.texts)

    def unit(self, promised: Unit | None) -> Unit:
        """Whose membership the coins are: a record's, where each is one record, or an owner's."""
        return Unit.RECORD if self.copies == 1 and promised is not Unit.OWNER else Unit.OWNER

    def records(self) -> Iterator[Record]:
        """The records of the canaries that were kept."""
        for number in np.flatnonzero(self.is_member).tolist():
            for copy in range(self.copies):
                yield Record(f"coin/{number}/{copy}", self.texts[number], owner=f"coin/{number}")

    def to_json(self) -> dict[str, Any]:
        """The document of the key file."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "design": self.design,
            "measures": self.measures,
            "copies": self.copies,
            "canaries": [
                {"text": text, "is_member": bool(coin)}
                for text, coin in zip(self.texts, self.is_member, strict=True)
            ],
        }

    def write(self, path: Path) -> None:
        """Write the key file, readable and writable by its owner alone."""
        with replaced(path, overwrite=False) as file:
            file.write(json.dumps(self.to_json(), indent=1, ensure_ascii=False).encode() + b"\n")


def toss_canaries(
    design: Design, count: int, *, copies: int, known: Collection[str], randomness: Randomness
) -> CoinKey:
    """`count` different texts of a design, none of them in `known`, each with a fair coin.

    Guarantee: the coins are independent of texts, corpus and each other.
    """
    found: dict[str, None] = {}
    for number in range(_ROUNDS):
        missing = count - len(found)
        if not missing:
            break
        drawn = design.texts(missing, randomness.child(f"texts {number}"))
        found |= dict.fromkeys(text for text in drawn if text.strip() and text not in known)
    if len(found) < count:
        raise ConfigError(
            "the design gives too few different texts",
            found=f"{len(found)} of {count}",
            hint="make them longer with --length, or take another --design",
        )
    coins = randomness.child("coins").uniform(count) < 0.5
    return CoinKey(design.name.value, design.measures, copies, tuple(found), coins)


def read_coins(path: Path) -> CoinKey | None:
    """The key that `CoinKey.write` wrote; None where the file is a key of another kind."""
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None  # told by whoever reads the other kind
    if not isinstance(document, dict) or document.get("kind") != KIND:
        return None
    check_schema(document, SCHEMA_VERSION, kind="key file")
    try:
        entries: Sequence[dict[str, Any]] = document["canaries"]
        coins = np.array([entry["is_member"] for entry in entries], dtype=np.bool_)
        texts = tuple(str(entry["text"]) for entry in entries)
        return CoinKey(document["design"], document["measures"], int(document["copies"]), texts, coins)
    except MALFORMED:
        raise DataError("not a key file: a canary lacks a part or contradicts itself", path=path) from None
