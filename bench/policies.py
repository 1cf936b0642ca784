"""Policies: how fast our patterns are beside Presidio with the same patterns, how well each policy finds labels.

Speed: one core, the texts of our generators. Presidio gets each of our rules as a `PatternRecognizer` and empty
linguistic artefacts, so that it runs no pipeline and checks no digit: it does less than ours. Turns alternate,
medians over rounds.

Quality: the court cases of the Text Anonymization Benchmark, where they are. A labelled span counts as found only
if every visible character of it is. The union is the one of all candidates with the highest F2 on the train
split; what is printed is the dev split, which chose nothing.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reticent.core.corpus import Policy, Record
from reticent.core.randomness import Randomness
from reticent.data.generators.cases import generate_cases
from reticent.data.generators.dialogues import generate_dialogues
from reticent.data.measurement import Measurement, Rate, f_score, measure
from reticent.data.policies.capitals import LEGAL_WORDS, CapitalRuns
from reticent.data.policies.circumstances import Circumstances
from reticent.data.policies.combined import Union
from reticent.data.policies.named_entities import SpacyPolicy
from reticent.data.policies.patterns import KINDS, PatternPolicy, rules_as_patterns
from reticent.data.policies.presidio import PresidioPolicy
from reticent.data.policies.span_cache import SpanCache

ROUNDS = 5
TEXTS = 300


def shared_folder() -> Path:
    """Where the labelled cases are: RETICENT_SHARED, or `shared` beside the checkout."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    return Path(os.environ.get("RETICENT_SHARED", beside))


def generated_texts() -> list[str]:
    """Dialogues and cases, the same in every run."""
    cases = generate_cases(TEXTS, randomness=Randomness.seeded(1))
    dialogues = generate_dialogues(TEXTS, randomness=Randomness.seeded(2))
    return [record.text for corpus in (cases, dialogues) for record in corpus]


def presidio_patterns() -> Callable[[str], object]:
    """Presidio's analyser with our rules and nothing else."""
    import spacy
    from presidio_analyzer import AnalyzerEngine, Pattern, PatternRecognizer, RecognizerRegistry
    from presidio_analyzer.nlp_engine import NlpArtifacts, SpacyNlpEngine

    class NoEngine(SpacyNlpEngine):  # type: ignore[misc]
        """An engine that is never asked: the artefacts are given."""

        def __init__(self) -> None:
            super().__init__()
            self.nlp = {"en": spacy.blank("en")}

    engine = NoEngine()
    registry = RecognizerRegistry(supported_languages=["en"], global_regex_flags=0)
    for number, (kind, pattern) in enumerate(rules_as_patterns()):
        shape = Pattern(name=f"{kind} {number}", regex=pattern, score=0.9)
        recogniser = PatternRecognizer(
            supported_entity=kind, patterns=[shape], name=f"{kind} {number}", global_regex_flags=0
        )
        registry.add_recognizer(recogniser)
    analyser = AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=["en"])
    nothing = NlpArtifacts(
        entities=[], tokens=spacy.blank("en")(""), tokens_indices=[], lemmas=[], nlp_engine=engine, language="en"
    )
    kinds = list(KINDS)
    return lambda text: analyser.analyze(text, language="en", entities=kinds, nlp_artifacts=nothing)


def throughput() -> dict[str, float]:
    """Megabytes a second of each contender on one core."""
    texts = generated_texts()
    size = sum(len(text.encode()) for text in texts) / 1e6
    ours, union = PatternPolicy(), Union([PatternPolicy(), Circumstances(), CapitalRuns(ordinary=LEGAL_WORDS)])
    rival = presidio_patterns()
    contenders: dict[str, Callable[[], object]] = {
        "patterns": lambda: ours.find(texts),
        "presidio-analyzer, the same patterns": lambda: [rival(text) for text in texts],
        "union (patterns, circumstances, capitals)": lambda: union.find(texts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, find in contenders.items():
            start = time.process_time()
            find()
            seconds[name].append(time.process_time() - start)
    return {name: size / statistics.median(times) for name, times in seconds.items()}


def labelled_cases(split: str) -> list[Record]:
    """The cases of one split of the Text Anonymization Benchmark."""
    from reticent.data.reading.corpus_file import open_corpus

    path = shared_folder() / "data" / "tab.jsonl"
    with path.open(encoding="utf8") as lines:
        splits = {row["id"]: row["split"] for row in map(json.loads, lines)}
    return [record for record in open_corpus(path) if splits[record.id] == split]


def candidates(parts: dict[str, Policy]) -> Iterator[Policy]:
    """Patterns with every choice of the other parts (an e-mail address in small letters is in no court case)."""
    others = [name for name in parts if name != "patterns"]
    for count in range(len(others) + 1):
        for names in combinations(others, count):
            chosen = ("patterns", *names)
            yield Union([parts[name] for name in chosen], name=" + ".join(chosen))


def parts_of_unions(cache: Path) -> dict[str, Policy]:
    """What unions are made of; what takes long is kept."""
    return {
        "patterns": PatternPolicy(context=False),
        "circumstances": Circumstances(),
        "capitals": CapitalRuns(),
        "capitals but law": CapitalRuns(ordinary=LEGAL_WORDS),
        "spacy": SpanCache(SpacyPolicy(), cache),
    }


def choose(cases: list[Record], parts: dict[str, Policy]) -> Policy:
    """The candidate with the highest F2 on `cases`."""
    return max(candidates(parts), key=lambda policy: f_score(measure(cases, policy)))


def quality() -> list[Measurement]:
    """Every part, Presidio and the chosen union, on the dev split."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="reticent-bench-") as folder:
        parts = parts_of_unions(Path(folder) / "findings")
        union = choose(labelled_cases("train"), parts)
        contenders: dict[str, Policy] = {**parts, "presidio": PresidioPolicy(), union.name: union}
        dev = labelled_cases("dev")
        return [replace(measure(dev, policy), policy=name) for name, policy in contenders.items()]


def cell(rate: Rate | None) -> str:
    """A rate with its interval."""
    if rate is None or rate.value is None:
        return "–"
    low, high = rate.interval
    return f"{rate.value:.1%} [{100 * low:.0f}, {100 * high:.0f}]"


def main() -> None:
    """Print both tables."""
    console = Console()
    speeds = throughput()
    table = Table(title=f"megabytes a second on one core, medians of {ROUNDS} rounds")
    for column in ("contender", "MB/s", "against Presidio"):
        table.add_column(column, justify="left" if column == "contender" else "right")
    rival = speeds["presidio-analyzer, the same patterns"]
    for name, speed in speeds.items():
        table.add_row(name, f"{speed:.2f}", f"{speed / rival:.1f} ×")
    console.print(table)
    if not (shared_folder() / "data" / "tab.jsonl").is_file():
        console.print("no labelled court cases here: set RETICENT_SHARED")
        return
    measured = quality()
    kinds = sorted({kind for one in measured for kind in one.recall_by_kind})
    table = Table(title="Text Anonymization Benchmark, dev split; 95 % intervals; the last was chosen on train")
    for column in (
        "policy",
        *(f"recall of {name}" for name in ("direct", "quasi", *kinds)),
        "precision",
        "by character",
    ):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for one in measured:
        recalls = [one.recall_by_identifier.get(name) for name in ("direct", "quasi")]
        recalls += [one.recall_by_kind.get(kind) for kind in kinds]
        share = "–" if one.character_precision is None else f"{one.character_precision:.1%}"
        table.add_row(one.policy, *map(cell, recalls), cell(one.precision), share)
    Console(width=220).print(table)
