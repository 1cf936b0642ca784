"""What `reticent diff` tells of twenty newsgroup posts that were added to a subword model.

    python -m bench.update_posts DATA MODEL FOLDER

DATA is the newsgroup set (JSON lines: id, group, text), MODEL a small subword model, FOLDER keeps the snapshots.

    after      MODEL after 20 hockey posts: their first 200 characters without quotations
    null i     MODEL after 20 other posts, from another seed: what such an update does without the text in question

Every snapshot is trained by `reticent train --method sgd` with one recipe. What FOLDER holds already is not made
again, so that a run can be cut short and taken up.

Prints how many of the 20 posts and of 20 untouched ones are flagged, the ten phrases of a search without the
posts, and the time and memory of that comparison. Ends with 1 unless five posts are flagged, none of the untouched,
and half of the phrases stand in the posts, within 60 s and 2 GB.
"""

import json
import re
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.writing import write_corpus
from reticent.models.huggingface.loading import load_model
from reticent.runs.training.run import train
from reticent.runs.training.settings import DataSection, Method, ModelSection, TrainingSection, TrainSettings
from reticent.runs.update.comparing import Known, PhraseSearch, UpdateStep, compare_snapshots
from reticent.training.update_rules import Decay

ADDED: Final = 20
NULLS: Final = 20
CHARACTERS: Final = 200
EPOCHS, BATCH, RATE = 12, 4, 1e-3  # enough for a model of 15 million weights to learn the posts
GROUP: Final = "rec.sport.hockey"
_QUOTED: Final = re.compile(r"^\s*[>|:}]|^In article|writes:|wrote:|^\S+: |@")
SECONDS, GIGABYTES, FLAGGED = 60.0, 2.0, 5


def posts(data: Path) -> list[Record]:
    """The beginnings of hockey posts, without quotations, in random order."""
    listed = []
    for row in map(json.loads, data.read_text(encoding="utf8").splitlines()):
        own = " ".join(line.strip() for line in row["text"].splitlines() if not _QUOTED.search(line))
        text = " ".join(own.split())
        if row["group"] == GROUP and len(text) > 2 * CHARACTERS:
            listed.append(Record(row["id"], text[:CHARACTERS].rsplit(" ", 1)[0]))
    return [listed[place] for place in Randomness.seeded(0).permutation(len(listed)).tolist()]


def snapshot(folder: Path, name: str, records: list[Record], *, source: str, seed: int) -> str:
    """The model after these records; made once."""
    run = folder / name
    if not (run / "model" / "config.json").is_file():
        write_corpus(Corpus(records), folder / f"{name}.jsonl")
        config = TrainSettings(
            data=DataSection(file=str(folder / f"{name}.jsonl")),
            model=ModelSection(source=source),
            training=TrainingSection(
                method=Method.SGD,
                epochs=EPOCHS,
                batch=BATCH,
                learning_rate=RATE,
                warmup=5,
                decay=Decay.LINEAR,
            ),
            seed=seed,
        )
        train(config.into(run), observe=lambda *_: True)
    return str(run / "model")


def compared(models: Sequence[str], nulls: Sequence[str], records: list[Record] | None) -> UpdateStep:
    """The comparison that `reticent diff` makes."""
    known = Known(
        update=None if records is None else Corpus(records), nulls=(load_model(one, name=one) for one in nulls)
    )
    (step,) = compare_snapshots([load_model(one, name=one) for one in models], PhraseSearch(), known=known)
    return step


def phrases_of(models: Sequence[str], added: list[Record]) -> tuple[int, int]:
    """Show what the search finds without the posts: how many phrases, and how many of them stand in a post."""
    begin = time.process_time()
    step = compared(models, (), added)
    seconds, memory = time.process_time() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    for one, text in zip(step.phrases, step.texts, strict=True):
        print(f"  {one.scores.score:5.2f}  {'in a post' if one.holders else '':9}  {' '.join(text.split())}")
    print(f"{seconds:.0f} s of one core, {memory:.2f} GB")
    return sum(bool(one.holders) for one in step.phrases), int(seconds > SECONDS or memory > GIGABYTES)


def main() -> int:
    """Make the snapshots, compare them, print what was found."""
    if len(sys.argv) != 4:
        print("python -m bench.update_posts DATA MODEL FOLDER")
        return 0
    data, model, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    drawn = posts(data)
    groups = [drawn[start : start + ADDED] for start in range(0, (NULLS + 2) * ADDED, ADDED)]
    added, untouched = groups[:2]
    models = [model, snapshot(folder, "after", added, source=model, seed=1)]
    found, is_dear = phrases_of(models, added)
    nulls = [
        snapshot(folder, f"null-{place}", group, source=model, seed=2 + place)
        for place, group in enumerate(groups[2:])
    ]
    flagged, alarms = (sum(compared(models, nulls, records).is_exposed) for records in (added, untouched))
    print(f"Flagged by {NULLS} null snapshots: {flagged} of {ADDED} added posts, {alarms} of {ADDED} untouched.")
    return int(flagged < FLAGGED or alarms > 0 or found < FLAGGED or bool(is_dear))


if __name__ == "__main__":
    sys.exit(main())
