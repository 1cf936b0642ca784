"""The random-code attack (SubMix, section 4.2): prompt for planted codes and count how often one comes out.

m codes of ℓ symbols were planted, uniform and distinct, each in the same sentence. The attacker gives the
sentence's beginning, g times, and takes the first ℓ symbols of each answer:

    hit rate = answers that are one of the m codes / g        guessing blindly hits m / |space|

The denominator is what was asked for: an answer that is no code, or that never came (a predictor whose budget is
spent), is a miss. The interval is Clopper and Pearson's, for answers that are independent given the model. It
needs text alone, so a predictor or a remote model is attacked like any other.

If a guarantee bounds the chance to extract one given code by B, the expected hit rate is at most m·B
(`hit_rate_ceiling`), an expectation over training as well: one model that passes it is evidence, several are proof.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from reticent.auditing.metrics.intervals import clopper_pearson
from reticent.core.finding import Finding
from reticent.core.guarantee import Unit
from reticent.core.metric import CODE_HIT_RATE
from reticent.core.model import Access, TextModel
from reticent.core.randomness import Randomness
from reticent.core.sampling import Sampling
from reticent.core.secret import PLACEHOLDER, CodeSpace, Secret

Answer = Callable[[str, int], Sequence[str]]  # a prompt and a number in, at most so many continuations out

_SPARE_TOKENS: Final = (
    4  # white space before the code, and tokenizers that need two tokens for one symbol now and then
)


@dataclass(frozen=True, slots=True)
class PlantedCodes:
    """What was planted: the sentence, the space of the codes, and the codes, masked in every `repr`."""

    template: str
    space: CodeSpace
    codes: tuple[Secret, ...]

    def __post_init__(self) -> None:
        if self.template.count(PLACEHOLDER) != 1:
            raise ValueError(f"the template needs exactly one {PLACEHOLDER}")
        if not self.codes or any(code.reveal() not in self.space for code in self.codes):
            raise ValueError("planted codes are members of their space, at least one")

    @property
    def prompt(self) -> str:
        """The sentence up to the code, without the white space before it: tokenizers attach it to what follows."""
        return self.template.split(PLACEHOLDER)[0].rstrip()

    @property
    def values(self) -> frozenset[str]:
        """The distinct codes in clear."""
        return frozenset(code.reveal() for code in self.codes)

    @property
    def guess_rate(self) -> float:
        """Chance that a blind guess is one of the codes."""
        return len(self.values) / self.space.size


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeHits:
    """How many answers of an attack were planted codes; holds no code."""

    asked: int
    answered: int
    well_formed: int
    hits: int
    distinct_hits: int
    codes: int
    guess_rate: float

    @property
    def hit_rate(self) -> float:
        """Hits over what was asked for."""
        return self.hits / self.asked

    @property
    def recall(self) -> float:
        """Share of the planted codes that came at least once."""
        return self.distinct_hits / self.codes

    def finding(
        self, *, confidence: float = 0.95, unit: Unit = Unit.SECRET, extraction_bound: float | None = None
    ) -> Finding:
        """The hit rate against blind guessing; with a bound per code, the notes say whether it was passed."""
        low, high = clopper_pearson(self.hits, self.asked, confidence=confidence)
        notes = [
            f"{self.hits} hits in {self.well_formed} codes in {self.answered} answers of {self.asked} asked",
            f"{self.distinct_hits} of {self.codes} codes came at least once",
        ]
        if extraction_bound is not None:
            ceiling = hit_rate_ceiling(extraction_bound, self.codes)
            verdict = "passed" if low > ceiling else "not passed"
            notes.append(f"expected hit rate allowed by the extraction bound: {ceiling:.4g}; {verdict}")
        return Finding(
            attack="random codes",
            metric=CODE_HIT_RATE.name,
            value=self.hit_rate,
            low=low,
            high=high,
            confidence=confidence,
            n=self.asked,
            measure=f"share of {self.asked} answers that are one of {self.codes} planted codes",
            unit=unit,
            access=Access.TEXT,
            null=self.guess_rate,
            notes=tuple(notes),
        )


def hit_rate_ceiling(extraction_bound: float, codes: int) -> float:
    """Greatest expected hit rate if each of `codes` planted codes comes with chance at most `extraction_bound`.

    Guarantee: an answer is at most one code, so its chance to be any of them is at most the sum.
    """
    if not 0.0 <= extraction_bound <= 1.0 or codes < 1:
        raise ValueError("a chance in [0, 1] and at least one code are needed")
    return min(1.0, codes * extraction_bound)


def attack_codes(answer: Answer, planted: PlantedCodes, *, generations: int) -> CodeHits:
    """Ask for planted codes `generations` times and count the hits.

    `answer` may give fewer continuations than asked, never more.
    """
    if generations < 1:
        raise ValueError("an attack asks at least once")
    answers = answer(planted.prompt, generations)
    if len(answers) > generations:
        raise ValueError(f"asked for {generations} continuations, found {len(answers)}")
    found = [code for text in answers if (code := _first_code(text, planted.space)) is not None]
    values = planted.values
    return CodeHits(
        asked=generations,
        answered=len(answers),
        well_formed=len(found),
        hits=sum(code in values for code in found),
        distinct_hits=len(values.intersection(found)),
        codes=len(values),
        guess_rate=planted.guess_rate,
    )


def code_answers(
    model: TextModel, planted: PlantedCodes, *, randomness: Randomness, temperature: float = 1.0
) -> Answer:
    """Let a model answer an attack on planted codes: continuations just long enough for a code."""
    sampling = Sampling(max_tokens=planted.space.length + _SPARE_TOKENS, temperature=temperature)

    def answer(prompt: str, count: int) -> Sequence[str]:
        return model.complete([prompt], sampling, count=count, randomness=randomness)[0]

    return answer


def _first_code(text: str, space: CodeSpace) -> str | None:
    """The first ℓ symbols after white space, if they are a code: the attacker knows ℓ and reads no further."""
    start = text.lstrip()[: space.length]
    return start if start in space else None
