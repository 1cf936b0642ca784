"""The journey of `reticent diff`: snapshots in, phrases that an update gives away out, and a run directory.

    RUN/  run.json  findings.json  phrases.json (scores, ranks, which records hold them)  records.json (bits gained)
          prefix_scores.png

Phrases are corpus text: they stand in no file and on no screen unless the operator asked with `--reveal`. Records
are named by id. Of more than two snapshots every successive pair is searched, and each phrase is scored at every
update.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from reticent.auditing.attacks.update.bounded_search import find_phrases
from reticent.auditing.attacks.update.findings import Evidence, FoundPhrase, phrase_level, update_findings
from reticent.auditing.attacks.update.matching import RecordGains, match_phrases, record_gains
from reticent.auditing.attacks.update.null import Highest, NullTest, null_scores, untouched_scores
from reticent.auditing.attacks.update.score import Score, Snapshots, timeline
from reticent.auditing.attacks.update.search import Beam, BeamSettings, score_beam
from reticent.core.corpus import Corpus
from reticent.core.document import number_to_json, write_document
from reticent.core.errors import ConfigError, ModelError
from reticent.core.finding import Finding
from reticent.core.model import LanguageModel
from reticent.core.randomness import Randomness
from reticent.runs.directory import RunDirectory

SCHEMA_VERSION: Final = 1
FINDINGS: Final = "findings.json"
PHRASES: Final = "phrases.json"
RECORDS: Final = "records.json"
FIGURE: Final = "prefix_scores.png"


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSettings:
    """How snapshots are compared. `top` phrases of each group are reported.

    Phrases are searched with a bound (`update.bounded_search`), unless groups, a width, the relative score or the
    paper's halved width is asked for.
    """

    length: int = 5
    width: int | None = None
    groups: int = 1
    score: Score = Score.ABSOLUTE
    prefix: str = field(default="", repr=False)
    top: int = 10
    removed: bool = False
    halving: bool = False
    seed: int = 0

    @property
    def is_bounded(self) -> bool:
        """Whether the search proves what it can."""
        return not self.halving and self.groups == 1 and self.width is None and self.score is Score.ABSOLUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the operator knows: the update's records, untouched text, snapshots without the update's text.

    `nulls` are made from the snapshot before as the one after was, from other seeds, without the update's text.
    They are read once, one at a time, so that a generator keeps one of them in memory.
    """

    update: Corpus | None = None
    untouched: Corpus | None = None
    nulls: Iterable[LanguageModel] = ()

    @property
    def judges_records(self) -> bool:
        """Whether the update's records are compared with untouched ones."""
        return self.update is not None and self.untouched is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateStep:
    """One update between two snapshots: what it gives away."""

    before: str
    after: str
    phrases: tuple[FoundPhrase, ...]
    texts: tuple[str, ...] = field(repr=False)
    timelines: tuple[tuple[float, ...], ...]  # DS of each phrase at every update
    test: NullTest
    untouched: Highest | None  # the highest score of phrases of untouched text: a scale, no null
    findings: tuple[Finding, ...]
    gains: RecordGains | None
    forward_tokens: int
    proved: int  # of the first phrases: no other phrase of the length scores higher
    ceiling: float  # no phrase that was not found scores above; infinite where nothing is known

    @property
    def above_null(self) -> int:
        """Reported phrases above the null; 0 where nothing could be decided."""
        return sum(one.is_above_null is True for one in self.phrases)


def compare_snapshots(
    models: Sequence[LanguageModel], settings: DiffSettings, *, known: Known | None = None
) -> list[UpdateStep]:
    """What each update between successive snapshots gives away. The operator's knowledge is of the first one."""
    if len(models) < 2:
        raise ConfigError("an update has two snapshots", found=len(models))
    pairs = [Snapshots(before, after) for before, after in pairwise(models)]
    for pair in pairs:
        if pair.is_identical:
            raise ModelError(
                f"'{pair.before.name}' and '{pair.after.name}' are the same model: nothing was updated",
                hint="give the snapshots before and after the update",
            )
    ordered = [pair.swapped() for pair in pairs] if settings.removed else pairs
    return [
        _step(pair, models, settings, known=(known or Known()) if place == 0 else Known())
        for place, pair in enumerate(ordered)
    ]


def _step(pair: Snapshots, models: Sequence[LanguageModel], settings: DiffSettings, *, known: Known) -> UpdateStep:
    """Search one pair, match and judge what was found."""
    (prefix,) = pair.before.encode([settings.prefix]) if settings.prefix else [[]]
    search = BeamSettings(
        length=settings.length,
        width=settings.width,
        groups=settings.groups,
        score=settings.score,
        prefix=tuple(prefix),
        is_bounded=settings.is_bounded,
    )
    beam = find_phrases(pair, search, top=settings.top)
    randomness = Randomness.seeded(settings.seed)
    test = NullTest(
        null_scores(pair, known.nulls, settings=search, removed=settings.removed),
        level=phrase_level(judges_records=known.judges_records),
    )
    scale = None
    if known.untouched is not None:
        source = randomness.child("untouched")
        scale = untouched_scores(pair, known.untouched, settings=search, randomness=source)
    phrases = _judged(pair, beam, test, settings=settings, prefix=prefix, known=known)
    update = None if known.update is None else record_gains(pair, known.update)
    evidence = Evidence(
        phrases=phrases,
        searched=len(beam.scores),
        score=settings.score,
        length=settings.length,
        test=test,
        update=update,
        untouched=None if known.untouched is None else record_gains(pair, known.untouched),
        untouched_phrases=scale,
        ceiling=beam.ceiling,
    )
    tokens = [one.scores.tokens for one in phrases]
    return UpdateStep(
        before=pair.before.name,
        after=pair.after.name,
        phrases=tuple(phrases),
        texts=tuple(pair.before.decode(tokens)),
        timelines=tuple(map(tuple, timeline(models, tokens, prefix=prefix).T.tolist())),
        test=test,
        untouched=scale,
        findings=tuple(update_findings(evidence, randomness=randomness.child("intervals"))),
        gains=update,
        forward_tokens=beam.forward_tokens,
        proved=sum(one.is_proved for one in phrases),
        ceiling=beam.ceiling,
    )


def _judged(
    pair: Snapshots, beam: Beam, test: NullTest, *, settings: DiffSettings, prefix: list[int], known: Known
) -> list[FoundPhrase]:
    """The best phrases of each group, best first, beside the null and the operator's records."""
    places = np.sort(beam.best_of_groups(settings.top))
    scores = score_beam(pair, beam, places, prefix=prefix)
    tokens = [one.tokens for one in scores]
    holders = None if known.update is None else match_phrases(pair.before, tokens, known.update)
    untouched = None if known.untouched is None else match_phrases(pair.before, tokens, known.untouched)
    return [
        FoundPhrase(
            scores=one,
            group=int(beam.groups[place]),
            least_rank=beam.least_rank(float(beam.scores[place])),
            p_value=test.p_value(float(beam.scores[place])) if test.nulls else None,
            is_above_null=test.is_above(float(beam.scores[place])),
            holders=None if holders is None else tuple(holders[number]),
            is_untouched=None if untouched is None else bool(untouched[number]),
            is_proved=place < beam.proved,
        )
        for number, (place, one) in enumerate(zip(places.tolist(), scores, strict=True))
    ]


def write_diff(run: RunDirectory, steps: Sequence[UpdateStep], *, settings: DiffSettings, reveal: bool) -> None:
    """Write findings, phrases and records, and finish the run. Without `reveal` no phrase is written."""
    write_document(run.path / FINDINGS, diff_to_json(steps, settings=settings, reveal=reveal))
    phrases = {"schema_version": SCHEMA_VERSION, "updates": [_phrases_to_json(s, reveal=reveal) for s in steps]}
    write_document(run.path / PHRASES, phrases, mode=0o600)
    first = steps[0]
    if first.gains is not None:
        write_document(run.path / RECORDS, _records_to_json(first, first.gains), mode=0o600)
    decided = [step.above_null for step in steps if step.test.decides]
    run.finish(findings=sum(len(step.findings) for step in steps), above_null=sum(decided) if decided else None)


def diff_to_json(steps: Sequence[UpdateStep], *, settings: DiffSettings, reveal: bool) -> dict[str, Any]:
    """The document of findings.json: findings of all updates, and the phrases' numbers."""
    return {
        "schema_version": SCHEMA_VERSION,
        "removed": settings.removed,
        "length": settings.length,
        "score": settings.score.value,
        "seed": settings.seed,
        "findings": [finding.to_json() for step in steps for finding in step.findings],
        "updates": [
            {
                "before": step.before,
                "after": step.after,
                "null": _test_to_json(step.test),
                "untouched_highest": None if step.untouched is None else number_to_json(step.untouched.score),
                "above_null": step.above_null if step.test.decides else None,
                "forward_tokens": step.forward_tokens,
                "proved": step.proved,
                "ceiling": number_to_json(step.ceiling),
                "phrases": _phrases_to_json(step, reveal=reveal)["phrases"],
            }
            for step in steps
        ],
    }


def _test_to_json(test: NullTest) -> dict[str, Any]:
    """The null snapshots' highest scores, how many a verdict needs, and the score that must be passed."""
    return {
        "highest": [number_to_json(null.score) for null in test.nulls],
        "level": test.level,
        "needed": test.needed,
        "limit": number_to_json(test.limit),
    }


def _phrases_to_json(step: UpdateStep, *, reveal: bool) -> dict[str, Any]:
    """Every reported phrase; its text and tokens where they were asked for."""
    listed = []
    for number, (one, text, times) in enumerate(zip(step.phrases, step.texts, step.timelines, strict=True)):
        entry: dict[str, Any] = {
            "number": number,
            "group": one.group,
            "differential_score": one.scores.score,
            "relative_differential_score": number_to_json(one.scores.relative),
            "bits": one.scores.bits,
            "rank_at_least": one.least_rank,
            "rank_is_exact": one.is_proved,
            "by_prefix_length": list(one.scores.increments),
            "by_update": list(times),
            "p_value": one.p_value if step.test.decides else None,
            "above_null": one.is_above_null,
            "in_update": None if one.holders is None else bool(one.holders),
            "records": None if one.holders is None else list(one.holders),
            "in_untouched": one.is_untouched,
        }
        if reveal:
            entry |= {"text": text, "tokens": list(one.scores.tokens)}
        listed.append(entry)
    return {"before": step.before, "after": step.after, "phrases": listed}


def _records_to_json(step: UpdateStep, gains: RecordGains) -> dict[str, Any]:
    """Every record of the update: bits gained, and which exposed phrases it holds; most bits first."""
    holding: dict[str, list[int]] = {}
    for number, one in enumerate(step.phrases):
        for holder in one.holders or () if one.is_exposed else ():
            holding.setdefault(holder, []).append(number)
    rows = sorted(zip(gains.ids, gains.bits.tolist(), gains.tokens.tolist(), strict=True), key=lambda row: -row[1])
    return {
        "schema_version": SCHEMA_VERSION,
        "records": [
            {"id": name, "bits": bits, "tokens": int(tokens), "phrases": holding.get(name, [])}
            for name, bits, tokens in rows
        ],
    }


def start_diff(out: Path, *, settings: DiffSettings, config: dict[str, Any], known: Known) -> RunDirectory:
    """A new run directory with its run.json."""
    corpora = {"update": known.update, "untouched": known.untouched}
    run = RunDirectory.create(out)
    fingerprints = {name: corpus.fingerprint for name, corpus in corpora.items() if corpus is not None}
    run.start("diff", config=config, seed=settings.seed, corpora=fingerprints)
    return run
