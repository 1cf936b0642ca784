"""Policies: how fast our patterns are beside Presidio with the same patterns, how well each policy finds labels.

Speed: one core, the texts of our generators. Presidio gets each of our rules as a `PatternRecognizer` and empty
linguistic artefacts, so that it runs no pipeline and checks no digit: it does less than ours. Turns alternate,
medians over rounds. Where an English pipeline and `presidio-anonymizer` are installed, `scrub --policy presidio` of
a file is timed beside Presidio's own analyser and anonymiser on the same lines.

Quality: court cases, tweets, German sentences, synthetic sentences (where they are) and generated chats, each in
two halves (`labelled_text`); spaCy and Presidio where an English pipeline is installed. A labelled span counts as
found only if every visible character of it is, a title aside; in part if any is. What is printed is the half that
chose nothing.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.labelled_text import f_score, labelled_sets
from reticent import scrub
from reticent.core.corpus import Policy
from reticent.core.errors import UsageError
from reticent.core.randomness import Randomness
from reticent.data.generators.cases import generate_cases
from reticent.data.generators.dialogues import generate_dialogues
from reticent.data.measurement import PolicyMeasurement, Rate, measure_policy
from reticent.data.policies.shapes.patterns import KINDS, PatternPolicy, rules_as_patterns
from reticent.data.policies.taggers.named_entities import SpacyPolicy, english_pipeline
from reticent.data.policies.taggers.presidio import PresidioPolicy
from reticent.data.policies.words.capitals import CapitalRuns
from reticent.data.policies.words.names import Names
from reticent.runs.policies.by_name import union_policy

ROUNDS = 5
TEXTS = 300


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
    ours, union = PatternPolicy(), union_policy()
    rival = presidio_patterns()
    contenders: dict[str, Callable[[], object]] = {
        "patterns": lambda: ours.find(texts),
        "presidio-analyzer, the same patterns": lambda: [rival(text) for text in texts],
        "union": lambda: union.find(texts),
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, find in contenders.items():
            start = time.process_time()
            find()
            seconds[name].append(time.process_time() - start)
    return {name: size / statistics.median(times) for name, times in seconds.items()}


def presidio_alone() -> Callable[[str], str]:
    """Presidio's analyser with the installed English pipeline, then its anonymiser."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider
    from presidio_anonymizer import AnonymizerEngine

    models = [{"lang_code": "en", "model_name": english_pipeline()}]
    engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
    analyser, anonymiser = AnalyzerEngine(nlp_engine=engine, supported_languages=["en"]), AnonymizerEngine()
    analyser.registry.remove_recognizer("EmailRecognizer")  # it would ask the network for a list of domains
    return lambda text: anonymiser.anonymize(text, analyser.analyze(text, language="en", score_threshold=0.35)).text


def scrubbing_by_presidio() -> tuple[float, float]:
    """Processor seconds that `scrub --policy presidio` takes, and Presidio alone, on the same file.

    Both load the pipeline anew.
    """
    texts = generated_texts()[::3]
    presidio_alone()(texts[0])  # imports
    seconds: dict[str, list[float]] = {"ours": [], "alone": []}
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "chats.jsonl", Path(folder) / "out.jsonl"
        file.write_text("".join(json.dumps({"id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))

        def by_presidio() -> None:
            alone = presidio_alone()
            rows = map(json.loads, file.read_text(encoding="utf8").splitlines())
            out.write_text("".join(json.dumps(row | {"text": alone(row["text"])}) + "\n" for row in rows))

        for turn in range(ROUNDS):
            ours = partial(scrub, file, out=Path(folder) / f"clean-{turn}.jsonl", policy="presidio")
            for name, run in {"ours": ours, "alone": by_presidio}.items():
                start = time.process_time()
                run()
                seconds[name].append(time.process_time() - start)
    return statistics.median(seconds["ours"]), statistics.median(seconds["alone"])


def quality() -> dict[str, list[PolicyMeasurement]]:
    """The default policy, what it is made of, and its rivals, on the reporting half of every set."""
    contenders: dict[str, Policy] = {
        "union": union_policy(),
        "patterns": PatternPolicy(),
        "names": Names(),
        "capitals": CapitalRuns(),
    }
    for name, rival in {"presidio": PresidioPolicy, "spacy": SpacyPolicy}.items():
        try:
            contenders[name] = rival()
        except UsageError as missing:
            print(f"{name} is not compared: {missing}")
    return {
        name: [replace(measure_policy(reported, policy), policy=label) for label, policy in contenders.items()]
        for name, (_, reported) in labelled_sets().items()
    }


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
    try:
        ours, alone = scrubbing_by_presidio()
    except (ImportError, UsageError) as missing:
        print(f"scrubbing by Presidio is not timed: {missing}")
    else:
        print(f"scrub --policy presidio: {ours:.1f} s, Presidio alone {alone:.1f} s: {ours / alone:.2f} ×")
    for name, measured in quality().items():
        kinds = sorted({kind for one in measured for kind in one.recall_by_kind})
        table = Table(title=f"{name}: the reporting half; 95 % intervals")
        headers = ("policy", "recall", "in part", "precision by character", "F2", "flagged", *kinds)
        for column in headers:
            table.add_column(column, justify="left" if column == "policy" else "right")
        for one in measured:
            shares = (one.character_precision, f_score(one), one.found_share)
            recalls = [cell(one.recall_by_kind.get(kind)) for kind in kinds]
            told = ["–" if share is None else f"{share:.1%}" for share in shares]
            table.add_row(one.policy, cell(one.recall), cell(one.partial_recall), *told, *recalls)
        Console(width=260).print(table)
