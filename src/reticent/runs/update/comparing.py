"""The journey of `reticent diff`: snapshots in, phrases that an update reveals out, and a run directory.

    RUN/  run.json  findings.json  phrases.json (scores, ranks, which records hold them)  records.json (bits gained)
          prefix_scores.png

Phrases are found by guided texts (`update.guided`) or by a search from the start of a text
(`update.bounded_search`, `update.search`). With the update's records at hand, the windows inside them are scored as
well, and each record is judged by the one that stands out most.

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
from reticent.auditing.attacks.update.guided import TEXT_TOKENS, GuidedSettings, write_texts
from reticent.auditing.attacks.update.matching import RecordGains, match_phrases, record_gains
from reticent.auditing.attacks.update.null import Highest, NullTest, WindowExcess, null_measures, window_excess
from reticent.auditing.attacks.update.score import PhraseScore, Snapshots, UpdateScore, timeline
from reticent.auditing.attacks.update.search import Beam, BeamSettings, score_beam
from reticent.core.arrays import Floats
from reticent.core.corpus import Corpus
from reticent.core.document import number_to_json, write_document
from reticent.core.errors import ConfigError, ModelError
from reticent.core.finding import Finding
from reticent.core.model import LanguageModel
from reticent.runs.directory import FINDINGS, RunDirectory
from reticent.runs.update.settings import Search

SCHEMA_VERSION: Final = 1
PHRASES: Final = "phrases.json"
RECORDS: Final = "records.json"
FIGURE: Final = "prefix_scores.png"


_LARGE_VOCABULARY: Final = 10_000  # from here on a search that reads every token takes minutes and gigabytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PhraseSearch:
    """How phrases of an update are searched. `top` phrases of each group are reported.

    Groups, a width, the relative score or the paper's halved width ask for a beam. Else small vocabularies are
    searched with a bound and large ones by guided texts, unless `search` says which.
    """

    length: int = 5
    width: int | None = None
    groups: int = 1
    score: UpdateScore = UpdateScore.ABSOLUTE
    prefixes: tuple[str, ...] = field(default=(), repr=False)
    texts: int = 96
    top: int = 10
    removed: bool = False
    halving: bool = False
    search: Search | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        asks_beam = self.halving or self.groups > 1 or self.width is not None
        if asks_beam and self.search not in (None, Search.BEAM):
            raise ConfigError(f"a {self.search} search has no width, halving or groups", hint="leave --search out")
        if self.search is Search.BOUNDED and self.score is UpdateScore.RELATIVE:
            raise ConfigError("the relative score has no bound to search with", hint="use --search guided or beam")
        if asks_beam and self.search is None:
            object.__setattr__(self, "search", Search.BEAM)

    def search_for(self, model: LanguageModel) -> Search:
        """The search that is made with a model of this vocabulary."""
        if self.search is not None:
            return self.search
        if model.vocabulary_size > _LARGE_VOCABULARY or len(self.prefixes) > 1:
            return Search.GUIDED
        return Search.BEAM if self.score is UpdateScore.RELATIVE else Search.BOUNDED


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
    """One update between two snapshots: what it reveals."""

    before: str
    after: str
    phrases: tuple[FoundPhrase, ...]
    texts: tuple[str, ...] = field(repr=False)
    timelines: tuple[tuple[float, ...], ...]  # DS of each phrase at every update
    test: NullTest
    record_test: NullTest  # of the update's records
    findings: tuple[Finding, ...]
    gains: RecordGains | None  # of the update's records
    excess: WindowExcess | None  # of the update's records
    window_texts: tuple[str, ...] = field(repr=False)  # the window of each that stands out most, as whole words
    is_exposed: tuple[bool, ...]  # of each
    untouched: RecordGains | None
    score: UpdateScore
    search: Search
    judges_phrases: bool
    forward_tokens: int
    proved: int  # of the first phrases: no other phrase of the length scores higher
    ceiling: float  # no phrase that was not found scores above; infinite where nothing is known

    @property
    def untouched_highest(self) -> float | None:
        """The highest score of phrases of untouched text: a scale, no null."""
        if self.untouched is None or len(self.untouched.ids) == 0:
            return None
        return float(self.untouched.highest.max())

    @property
    def above_null(self) -> int:
        """Reported phrases above the null; 0 where nothing could be decided."""
        return sum(one.is_above_null is True for one in self.phrases)


def compare_snapshots(
    models: Sequence[LanguageModel], settings: PhraseSearch, *, known: Known | None = None
) -> list[UpdateStep]:
    """What each update between successive snapshots reveals. The operator's knowledge is of the first one."""
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


@dataclass(frozen=True, slots=True)
class _Searched:
    """What a search found, best first: phrases, each also as whole words, its group and its least rank."""

    phrases: list[PhraseScore]
    words: list[tuple[int, ...]]
    groups: list[int]
    ranks: list[int]
    highest: Highest
    proved: int
    ceiling: float
    forward_tokens: int


def _searched(pair: Snapshots, settings: PhraseSearch) -> _Searched:
    """The search that the settings ask for."""
    prefixes = _prefixes(pair, settings)
    if settings.search_for(pair.before) is Search.GUIDED:
        return _guided(pair, settings, prefixes)
    beam = _beam(pair, settings, prefixes)
    places = np.sort(beam.best_of_groups(settings.top))
    phrases = score_beam(pair, beam, places, prefix=prefixes[0])
    return _Searched(
        phrases=phrases,
        words=[one.tokens for one in phrases],
        groups=beam.groups[places].tolist(),
        ranks=[beam.least_rank(float(beam.scores[place])) for place in places.tolist()],
        highest=_highest_of(beam),
        proved=int((places < beam.proved).sum()),
        ceiling=beam.ceiling,
        forward_tokens=beam.forward_tokens,
    )


def _highest(pair: Snapshots, settings: PhraseSearch) -> Highest:
    """The best score of that search: of a null pair nothing else is asked, so nothing else is computed."""
    prefixes = _prefixes(pair, settings)
    if settings.search_for(pair.before) is Search.GUIDED:
        return _guided(pair, settings, prefixes).highest
    return _highest_of(_beam(pair, settings, prefixes))


def _highest_of(beam: Beam) -> Highest:
    return Highest(float(beam.scores[0]), len(beam.scores))


def _prefixes(pair: Snapshots, settings: PhraseSearch) -> list[tuple[int, ...]]:
    return [tuple(row) for row in pair.before.encode(settings.prefixes or ("",))]


def _beam(pair: Snapshots, settings: PhraseSearch, prefixes: list[tuple[int, ...]]) -> Beam:
    """What a search that is not guided keeps."""
    chosen = settings.search_for(pair.before)
    if len(prefixes) > 1:
        raise ConfigError(f"a {chosen} search takes one prefix", found=len(prefixes), hint="use --search guided")
    search = BeamSettings(
        length=settings.length,
        width=settings.width,
        groups=settings.groups,
        score=settings.score,
        prefix=prefixes[0],
        is_bounded=chosen is Search.BOUNDED,
    )
    return find_phrases(pair, search, top=settings.top)


def _guided(pair: Snapshots, settings: PhraseSearch, prefixes: list[tuple[int, ...]]) -> _Searched:
    """Windows of guided texts, near-duplicates left out."""
    room = [m.context_length - 1 for m in (pair.before, pair.after) if m.context_length is not None]
    longest = max(map(len, prefixes))
    chosen = GuidedSettings(
        length=settings.length,
        texts=settings.texts,
        tokens=max(settings.length, min([TEXT_TOKENS, *(one - longest for one in room)])),
        score=settings.score,
        prefixes=tuple(prefixes),
        seed=settings.seed,
    )
    written = write_texts(pair, chosen)
    phrases = written.phrases(chosen, most=settings.top)
    return _Searched(
        phrases=phrases,
        words=[written.words(pair.before, one) for one in phrases],
        groups=[0] * len(phrases),
        ranks=list(range(len(phrases))),
        highest=Highest(phrases[0].by(settings.score), len(written.texts) * (chosen.tokens - chosen.length + 1)),
        proved=0,
        ceiling=np.inf,
        forward_tokens=written.forward_tokens,
    )


def _step(pair: Snapshots, models: Sequence[LanguageModel], settings: PhraseSearch, *, known: Known) -> UpdateStep:
    """Search one pair, match and judge what was found."""
    chosen: dict[str, Any] = {"length": settings.length, "score": settings.score}
    found = _searched(pair, settings)
    update, untouched = (
        None if records is None else record_gains(pair, records, **chosen)
        for records in (known.update, known.untouched)
    )

    def null_of(other: Snapshots) -> tuple[Highest, Sequence[Floats]]:
        windows = () if known.update is None else record_gains(other, known.update, **chosen).windows
        return _highest(other, settings), windows

    nulls = null_measures(pair, known.nulls, null_of, removed=settings.removed)
    level = phrase_level(judges_records=known.judges_records)
    beyond = None if update is None else window_excess(update.windows, [null[1] for null in nulls])
    test = NullTest(tuple(null[0] for null in nulls), level=level)
    record_test = NullTest(() if beyond is None else beyond.nulls, level=level)
    evidence = Evidence(
        phrases=found.phrases,
        searched=found.highest.phrases,
        score=settings.score,
        length=settings.length,
        test=test,
        record_test=record_test,
        excess=None if beyond is None else beyond.excess,
        update=update,
        untouched=untouched,
        ceiling=found.ceiling,
    )
    return UpdateStep(
        before=pair.before.name,
        after=pair.after.name,
        phrases=tuple(_judged(pair, found, evidence, known=known)),
        texts=tuple(pair.before.decode(found.words)),
        timelines=tuple(map(tuple, timeline(models, found.phrases).T.tolist())),
        test=test,
        record_test=record_test,
        findings=tuple(update_findings(evidence)),
        gains=update,
        window_texts=_window_texts(pair.before, update, beyond, length=settings.length),
        excess=beyond,
        is_exposed=tuple(evidence.exposed.tolist()),
        untouched=untouched,
        score=settings.score,
        search=settings.search_for(pair.before),
        judges_phrases=evidence.judges_phrases,
        forward_tokens=found.forward_tokens,
        proved=found.proved,
        ceiling=found.ceiling,
    )


def _window_texts(
    model: LanguageModel, gains: RecordGains | None, beyond: WindowExcess | None, *, length: int
) -> tuple[str, ...]:
    """The window of each record that stands out most, as whole words."""
    if gains is None or beyond is None:
        return ()
    return tuple(model.decode(gains.words(model, beyond.places.tolist(), length=length)))


def _judged(pair: Snapshots, found: _Searched, evidence: Evidence, *, known: Known) -> list[FoundPhrase]:
    """The phrases that were found beside the null and the operator's records."""
    holders, untouched = (
        None if records is None else match_phrases(pair.before, found.words, records)
        for records in (known.update, known.untouched)
    )
    test = evidence.test
    return [
        FoundPhrase(
            scores=one,
            group=found.groups[number],
            least_rank=found.ranks[number],
            p_value=test.p_value(one.by(evidence.score)) if test.nulls else None,
            is_above_null=test.is_above(one.by(evidence.score)) if evidence.judges_phrases else None,
            holders=None if holders is None else tuple(holders[number]),
            is_untouched=None if untouched is None else bool(untouched[number]),
            is_proved=number < found.proved,
        )
        for number, one in enumerate(found.phrases)
    ]


def write_diff(run: RunDirectory, steps: Sequence[UpdateStep], *, settings: PhraseSearch, reveal: bool) -> None:
    """Write findings, phrases and records, and finish the run. Without `reveal` no phrase is written."""
    write_document(run.path / FINDINGS, diff_to_json(steps, settings=settings, reveal=reveal))
    phrases = {"schema_version": SCHEMA_VERSION, "updates": [_phrases_to_json(s, reveal=reveal) for s in steps]}
    write_document(run.path / PHRASES, phrases, mode=0o600)
    first = steps[0]
    if first.gains is not None:
        write_document(run.path / RECORDS, _records_to_json(first, first.gains, reveal=reveal), mode=0o600)
    decided = [step.above_null for step in steps if step.judges_phrases]
    run.finish(findings=sum(len(step.findings) for step in steps), above_null=sum(decided) if decided else None)


def diff_to_json(steps: Sequence[UpdateStep], *, settings: PhraseSearch, reveal: bool) -> dict[str, Any]:
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
                "record_null": _test_to_json(step.record_test),
                "records_above_null": sum(step.is_exposed) if step.record_test.decides and step.gains else None,
                "search": step.search.value,
                "untouched_highest": number_to_json(step.untouched_highest),
                "above_null": step.above_null if step.judges_phrases else None,
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


def _records_to_json(step: UpdateStep, gains: RecordGains, *, reveal: bool) -> dict[str, Any]:
    """Every record of the update: bits, its highest window, whether that lies above the null; most bits first."""
    holding: dict[str, list[int]] = {}
    for number, one in enumerate(step.phrases):
        for holder in one.holders or () if one.is_exposed else ():
            holding.setdefault(holder, []).append(number)
    excess = [] if step.excess is None else step.excess.excess.tolist()
    highest = gains.highest.tolist()
    rows = []
    for place in np.argsort(-gains.bits, kind="stable").tolist():
        row = {
            "id": gains.ids[place],
            "bits": float(gains.bits[place]),
            "tokens": len(gains.texts[place]),
            "highest_window": number_to_json(highest[place]),
            "beyond_null": number_to_json(excess[place]),
            "p_value": step.record_test.p_value(excess[place]) if step.record_test.decides else None,
            "exposed": step.is_exposed[place] if step.record_test.decides else None,
            "phrases": holding.get(gains.ids[place], []),
        }
        rows.append(row | ({"window": step.window_texts[place]} if reveal else {}))
    return {"schema_version": SCHEMA_VERSION, "records": rows}


def start_diff(out: Path, *, settings: PhraseSearch, config: dict[str, Any], known: Known) -> RunDirectory:
    """A new run directory with its run.json."""
    corpora = {"update": known.update, "untouched": known.untouched}
    run = RunDirectory.for_new_run(out)
    fingerprints = {name: corpus.fingerprint for name, corpus in corpora.items() if corpus is not None}
    run.start("diff", config=config, seed=settings.seed, corpora=fingerprints)
    return run
