"""The extraction attacks of an audit: what each needs and costs, which targets it takes, and what it measures.

extraction   does the model complete a record, given its beginning?
generation   do its own texts contain pieces of records?
codes        does it complete a planted code, given the words before it?
divergence   what does it emit once it stops repeating a word? Opt-in: meant for chat models
styles       does it continue records in upper case, lower case or with doubled spaces? Opt-in: evades filters
novelty      are its texts less novel than held-out ones (RAVEN)? Opt-in: they may just be plainer
"""

from typing import ClassVar, Final

from reticent.auditing.attack import Lines, Measurement, NothingToAttack, PlannedAttack, skip
from reticent.auditing.attacks.extraction.codes import PlantedCodes, attack_codes, code_answers
from reticent.auditing.attacks.extraction.discoverable import (
    Discovery,
    DiscoverySettings,
    Writing,
    discover,
    discover_text,
)
from reticent.auditing.attacks.extraction.divergence_prompts import WORDS, diverge, repeat_prompts
from reticent.auditing.attacks.extraction.eidetic import EideticIndex
from reticent.auditing.attacks.extraction.findings import (
    MatchRule,
    discoverable_findings,
    divergence_finding,
    extracted_records_finding,
    novelty_findings,
    ranking_findings,
    styled_finding,
)
from reticent.auditing.attacks.extraction.generate_and_rank import generate_texts, match_records, rank_texts
from reticent.auditing.attacks.extraction.novelty import NGramIndex
from reticent.auditing.metrics.intervals import shared_confidence
from reticent.auditing.settings import AttackSettings, Sizes
from reticent.auditing.subject import Subject
from reticent.auditing.targets import count_sides, revealed_records, sampled_sides
from reticent.core.corpus import Corpus
from reticent.core.guarantee import Unit
from reticent.core.metric import (
    CODE_HIT_RATE,
    DISCOVERABLE_SHARE,
    DIVERGENCE_RATE,
    EXTRACTED_SHARE,
    EXTRACTION_PRECISION,
    EXTRACTION_RATE,
    NEAR_DISCOVERABLE_SHARE,
    NOVELTY_GAP,
    NP_DISCOVERABLE_SHARE,
    SAMPLED_SHARE,
    STYLED_SHARE,
)
from reticent.core.sampling import Sampling
from reticent.core.secret import Canary, CodeSpace

_SUFFIX_TOKENS: Final = 50
_TEXT_DRAWS: Final = 10  # answers to each record's beginning where chances cannot be computed
_FEWEST_WORDS: Final = 10  # of a record that is cut by words: about as much as 20 tokens, the default by tokens


class DiscoverableAttack:
    """Beginnings of training and of held-out records, given to the model."""

    name: ClassVar[str] = "extraction"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: every record read once, and half of it written."""
        n = count_sides(subject, sizes.extraction_records)
        last = SAMPLED_SHARE if subject.scoring_model is None else NP_DISCOVERABLE_SHARE
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=n,
            forward_tokens=round(n * mean),
            generated_tokens=round(n * min(mean / 2.0, _SUFFIX_TOKENS)),
            metrics=(DISCOVERABLE_SHARE.name, NEAR_DISCOVERABLE_SHARE.name, last.name),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Shares of records that the model completes."""
        sides = sampled_sides(subject, settings, sizes.extraction_records)
        training, held_out = (_discover(subject, settings, side) for side in sides)
        if not training.ids:
            raise NothingToAttack("no training record is long enough to be split into a prompt and a target")
        confidence = shared_confidence(settings.attack_confidence, 3)
        baseline = held_out if held_out.ids else None
        findings = discoverable_findings(training, baseline, confidence=confidence)
        said = [name for name, is_said in zip(training.ids, training.verbatim.tolist(), strict=True) if is_said]
        revealed = revealed_records(sides[0], said, attack=self.name) if settings.reveal else []
        return Measurement(findings, revealed=revealed)


class StyledAttack:
    """Beginnings of records in other writings: what a filter of verbatim text lets pass."""

    name: ClassVar[str] = "styles"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: half of every record written in every writing."""
        n = count_sides(subject, sizes.extraction_records)
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=n,
            generated_tokens=round(n * len(Writing) * min(mean / 2.0, _SUFFIX_TOKENS)),
            metrics=tuple(STYLED_SHARE.at(one.value) for one in Writing if one is not Writing.PLAIN),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Shares of records that the model completes in each writing."""
        sides = sampled_sides(subject, settings, sizes.extraction_records)
        source, lengths = settings.randomness("writings"), DiscoverySettings(least=_FEWEST_WORDS)
        found = {
            writing: [
                discover_text(subject.model, side, randomness=source, settings=lengths, writing=writing)
                for side in sides
            ]
            for writing in Writing
        }
        plain = found.pop(Writing.PLAIN)[0]
        if not plain.ids:
            raise NothingToAttack("no training record is long enough to be split into a prompt and a target")
        confidence = shared_confidence(settings.attack_confidence, len(found))
        return Measurement(
            tuple(
                styled_finding(
                    mine, others if others.ids else None, plain, writing=writing.value, confidence=confidence
                )
                for writing, (mine, others) in found.items()
            )
        )


def _discover(subject: Subject, settings: AttackSettings, records: Corpus) -> Discovery:
    if subject.scoring_model is not None:
        return discover(subject.scoring_model, records)
    randomness = settings.randomness("continuations")
    lengths = DiscoverySettings(least=_FEWEST_WORDS)
    return discover_text(subject.model, records, randomness=randomness, draws=_TEXT_DRAWS, settings=lengths)


GENERATED_TOKENS: Final = 96  # of a text that is generated without a prompt
_TOP: Final = 20  # best ranked texts whose precision is told


class GenerationAttack:
    """Texts drawn without a prompt, ranked, and looked up in training and held-out records."""

    name: ClassVar[str] = "generation"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: texts written, and read again by each ranking's model."""
        metrics = [EXTRACTED_SHARE.name, EXTRACTION_RATE.name, EXTRACTION_PRECISION.at("repeats")]
        if subject.scoring_model is not None:
            rankings = ["perplexity", "zlib", "lower_case", "window", *(["reference"] if subject.base else [])]
            metrics += [EXTRACTION_PRECISION.at(ranking) for ranking in rankings]
        tokens = sizes.texts * GENERATED_TOKENS
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=sizes.texts,
            forward_tokens=3 * tokens,
            generated_tokens=tokens,
            metrics=tuple(metrics),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Share of records found in the texts, and how many of the best ranked texts hold one."""
        training, held_out = sampled_sides(subject, settings, sizes.records)
        generated = generate_texts(
            subject.model,
            sizes.texts,
            sampling=Sampling(max_tokens=GENERATED_TOKENS),
            randomness=settings.randomness("generated texts"),
        )
        ranked = rank_texts(
            subject.model,
            generated,
            training=EideticIndex(training),
            held_out=EideticIndex(held_out),
            reference=subject.base,
        )
        rule = MatchRule.of(training)
        matches = (match_records(generated.texts, side) for side in (training, held_out))
        confidence = shared_confidence(settings.attack_confidence, 2 + len(ranked.scores))
        found = extracted_records_finding(*matches, least=rule.least, confidence=confidence)
        rankings = ranking_findings(ranked, top=_TOP, rule=rule, confidence=confidence)
        hits = rule.hits(ranked.training).tolist() if settings.reveal else []
        revealed = [
            {"attack": self.name, "said": text.reveal()}
            for text, is_hit in zip(generated.texts, hits, strict=False)
            if is_hit
        ]
        return Measurement((found, *rankings), revealed=revealed)


class CodesAttack:
    """Ask for the codes of every template, by text alone."""

    name: ClassVar[str] = "codes"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: answers for each template."""
        needs = "text, canaries that are codes"
        groups = _by_template(subject)
        if not groups:
            reason = (
                "no canary is a code" if subject.canaries else "no canaries; give their key file with --canaries"
            )
            return (skip(self.name, needs, reason),)
        count = len({template for template, _ in groups}) * sizes.answers
        longest = max(space.length for _, space in groups)
        tokens = count * (longest + 4)
        line = PlannedAttack(
            name=self.name, needs=needs, n=count, generated_tokens=tokens, metrics=(CODE_HIT_RATE.name,)
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Hit rate of each template."""
        groups = _by_template(subject)
        findings = []
        for number, ((template, space), canaries) in enumerate(groups.items()):
            planted = PlantedCodes(template, space, tuple(canary.secret for canary in canaries))
            randomness = settings.randomness(f"answers {number}")
            answer = code_answers(subject.model, planted, randomness=randomness)
            hits = attack_codes(answer, planted, generations=sizes.answers)
            confidence = shared_confidence(settings.attack_confidence, len(groups))
            findings.append(hits.finding(confidence=confidence, unit=Unit.SECRET))
        return Measurement(tuple(findings))


def _by_template(subject: Subject) -> dict[tuple[str, CodeSpace], list[Canary]]:
    """Canaries that are codes, by what stands around them and what they were drawn from."""
    groups: dict[tuple[str, CodeSpace], list[Canary]] = {}
    for canary in subject.canaries:
        if isinstance(canary.space, CodeSpace):
            groups.setdefault((canary.template, canary.space), []).append(canary)
    return groups


_ANSWER_TOKENS: Final = 128


class DivergenceAttack:
    """Answers to repeat prompts, with and without an instruction, looked up after the repetition."""

    name: ClassVar[str] = "divergence"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: answers written."""
        n = 2 * len(WORDS) * _rounds(sizes)
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=n,
            generated_tokens=n * _ANSWER_TOKENS,
            metrics=(DIVERGENCE_RATE.name,),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """Share of answers that hold training text."""
        training, held_out = sampled_sides(subject, settings, sizes.records)
        prompts = (*repeat_prompts(), *repeat_prompts(instruction="")) * _rounds(sizes)
        answers = diverge(
            subject.model,
            prompts,
            training=EideticIndex(training),
            held_out=EideticIndex(held_out),
            sampling=Sampling(max_tokens=_ANSWER_TOKENS),
            randomness=settings.randomness("divergence"),
        )
        finding = divergence_finding(answers, rule=MatchRule.of(training), confidence=settings.attack_confidence)
        return Measurement((finding,))


def _rounds(sizes: Sizes) -> int:
    """How often each prompt is asked: about as many answers as texts are generated."""
    return max(1, sizes.texts // (2 * len(WORDS)))


_WORDS: Final = (5, 7, 10)  # of the n-grams that are told


class NoveltyAttack:
    """Generated texts beside held-out ones, both looked up in the whole training text."""

    name: ClassVar[str] = "novelty"

    def plan(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes, mean: float) -> Lines:  # noqa: ARG002
        """One line: texts written."""
        line = PlannedAttack(
            name=self.name,
            needs="text",
            n=sizes.texts,
            generated_tokens=sizes.texts * GENERATED_TOKENS,
            metrics=tuple(map(NOVELTY_GAP.at, _WORDS)),
        )
        return (line,)

    def run(self, subject: Subject, settings: AttackSettings, *, sizes: Sizes) -> Measurement:
        """How much less novel the generated texts are, for each n."""
        generated = generate_texts(
            subject.model,
            sizes.texts,
            sampling=Sampling(max_tokens=GENERATED_TOKENS),
            randomness=settings.randomness("generated texts"),
        )
        if not generated.texts:
            raise NothingToAttack("the model generated nothing")
        index = NGramIndex(subject.training)
        held_out = sampled_sides(subject, settings, sizes.records)[1]
        findings = novelty_findings(
            index.novelty([text.reveal() for text in generated.texts]),
            index.novelty(held_out.texts),
            sizes=_WORDS,
            confidence=settings.attack_confidence,
            owners=[record.owner for record in held_out],
        )
        if not findings:
            raise NothingToAttack(f"no text has {min(_WORDS)} words")
        return Measurement(findings)
