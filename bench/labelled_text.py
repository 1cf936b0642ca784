"""Labelled text that policies are measured on, each set in two fixed halves: one to choose by, one to report.

The court cases have splits of their own (train to choose by, dev to report). Of every other set a record's half
follows from its id. The chats are generated here, in English and German, with names that no list of ours holds.
"""

import hashlib
import json
import os
import random
from pathlib import Path

from reticent.core.corpus import Record, Span
from reticent.data.measurement import PolicyMeasurement
from reticent.data.reading.corpus_file import open_corpus

FILES = ("tab", "tweets", "german", "pii-sentences")
Halves = tuple[list[Record], list[Record]]


def shared_folder() -> Path:
    """Where the labelled files are: RETICENT_SHARED, or `shared` beside the checkout."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared"
    return Path(os.environ.get("RETICENT_SHARED", beside))


def labelled_sets() -> dict[str, Halves]:
    """Every set that is there, as the half to choose by and the half to report."""
    sets: dict[str, Halves] = {}
    for name in FILES:
        path = shared_folder() / "data" / f"{name}.jsonl"
        if path.is_file():
            sets[name] = _cases(path) if name == "tab" else _by_id(list(open_corpus(path)))
    sets["chats in English"] = _by_id(chats(400, language="en"))
    sets["chats in German"] = _by_id(chats(400, language="de"))
    return sets


def _by_id(records: list[Record]) -> Halves:
    halves: Halves = ([], [])
    for record in records:
        halves[hashlib.blake2b(record.id.encode(), digest_size=1).digest()[0] % 2].append(record)
    return halves


def _cases(path: Path) -> Halves:
    with path.open(encoding="utf8") as lines:
        splits = {row["id"]: row["split"] for row in map(json.loads, lines)}
    records = list(open_corpus(path))
    return [r for r in records if splits[r.id] == "train"], [r for r in records if splits[r.id] == "dev"]


_SYLLABLES_LIST = """
ba be bo da del den fal gar han ir jo kal ken lar lo mar mi nor ol per ra rin sa sel ta tor va ven wil za
"""
_SYLLABLES = _SYLLABLES_LIST.split()
_TURNS = {
    "en": (
        "SYS: Hello, I am the support bot. What can I do for you?",
        "USR: My name is {PERSON} and my parcel never came.",
        "SYS: Thank you, {PERSON}. Where should it have gone?",
        "USR: To {LOC}, I moved there last spring.",
        "USR: You can reach me at {EMAIL} or {PHONE}.",
        "SYS: Sorry about that! We Will Refund You Soon.",
        "USR: My neighbour {PERSON} from {LOC} had the same trouble with her Washing Machine.",
        "Assistant: Please hold on while I look at your order.",
    ),
    "de": (
        "Berater: Guten Tag, wie kann ich Ihnen helfen?",
        "Kunde: Ich heiße {PERSON} und warte seit einer Woche auf mein Paket.",
        "Berater: Danke, Frau {PERSON}. Wohin sollte die Sendung gehen?",
        "Kunde: Nach {LOC}, dort wohne ich seit dem Frühling.",
        "Kunde: Sie erreichen mich unter {EMAIL} oder {PHONE}.",
        "Berater: Das tut mir leid, die Waschmaschine hat leider eine längere Lieferzeit.",
        "Kunde: Meine Nachbarin {PERSON} aus {LOC} hatte denselben Ärger mit der Rechnung.",
    ),
}


def chats(count: int, *, language: str) -> list[Record]:
    """So many short chats with labels; names and places are made of syllables, the same in every run."""
    source = random.Random(f"{language} {count}")

    def word() -> str:
        return "".join(source.choices(_SYLLABLES, k=source.randint(2, 3))).capitalize()

    makers = {
        "PERSON": lambda: f"{word()} {word()}" if source.random() < 0.7 else word(),
        "LOC": word,
        "EMAIL": lambda: f"{word().lower()}.{word().lower()}@example.{source.choice(('com', 'org', 'net'))}",
        "PHONE": lambda: f"+{source.randint(20, 98)} {source.randint(100, 999)} {source.randint(1000000, 9999999)}",
    }
    records = []
    for number in range(count):
        text, spans = "", []
        for turn in source.sample(_TURNS[language], 4):
            for piece in turn.replace("}", "{").split("{"):
                value = makers[piece]() if piece in makers else piece
                if piece in makers:
                    spans.append(Span(len(text), len(text) + len(value), piece))
                text += value
            text += "\n"
        records.append(Record(f"{language}-{number}", text, spans=tuple(spans)))
    return records


def f_score(measured: PolicyMeasurement, *, weight: float = 2.0) -> float:
    """F-measure of recall and character precision, in which recall counts `weight` times as much; 0 where nothing
    was found or labelled.

    F2 is what unions are chosen by: a secret left in clear costs more than a word masked for nothing.
    """
    recall, precision = measured.recall.value or 0.0, measured.character_precision or 0.0
    if recall == 0.0 or precision == 0.0:
        return 0.0
    return (1.0 + weight**2) * precision * recall / (weight**2 * precision + recall)
