"""One training of CRT's figures on generated dialogues, and the attacks on it: exposure and membership of canaries.

    redaction     SGD on the redacted text ("No-DP with mask")
    CRT           confidentially redacted training, (ε, δ) for a secret that π misses and π_c catches
    DP-SGD        all records, whatever the policy, replace-one
    selective     selective DP-SGD on an LSTM from nothing, the paper's rival: noise on what the policy marks alone

The policy π is simulated, as in the paper: a list of the secrets' own characters less a share γ of them, so many
canaries exactly. The conservative policy π_c is the built-in one, as a user has it, or the whole list, which nobody
has: the oracle that the paper's proofs assume. What π and the built-in one miss together is counted on the labels.
Masks stay, as in the paper. Membership asks whether a sentence was trained on, by its perplexity: planted canary
sentences against sentences of the same template with other numbers.
"""

import math
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from reproductions.experiment import Values
from reproductions.random_groups import score_random_groups
from reticent import Corpus, Guarantee, Record, load_model, train
from reticent.auditing import ExposureSettings, SearchLimits, auc_interval, measure_exposures
from reticent.core import Canary, CodeSpace, LanguageModel, Notion, Randomness, Span
from reticent.data import generate_dialogues, make_canaries, plant_canaries, redact_records, write_corpus
from reticent.runs import policy_named
from reticent.training import count_misses

TEMPLATE: Final = "My ID is: {}"
SELECTIVE: Final = "selective DP-SGD (LSTM)"
BUILT_IN: Final = "CRT, built-in π_c"
ORACLE: Final = "CRT, oracle π_c"
CANARIES: Final = 10
DELTA: Final = 8e-5
CONFIDENCE: Final = 0.99  # of an area under a curve; several trainings are judged together


def _lines(corpus: Corpus) -> Corpus:
    """Each dialogue as records of one line: whole sentences, cut before anybody redacts."""

    records = []
    for record in corpus:
        start = 0
        for number, text in enumerate(record.text.split("\n")):
            inside = [s for s in record.spans if start <= s.start and s.end <= start + len(text)]
            spans = tuple(
                _narrowed(text, Span(s.start - start, s.end - start, s.kind, s.identifier)) for s in inside
            )
            if text:
                records.append(Record(f"{record.id}/{number}", text, owner=record.owner, spans=spans))
            start += len(text) + 1
    return Corpus(records)


def _narrowed(text: str, span: Span) -> Span:
    """From the first letter or digit to the last: a list does not find the bracket of "(011) 138-2649"."""
    places = [at for at in range(span.start, span.end) if text[at].isalnum()]
    return replace(span, start=places[0], end=places[-1] + 1)


def is_missed(place: int, miss_rate: float) -> bool:
    """Whether the secret at this place of a list is left out: of the first n, the whole part of n γ."""
    return math.floor((place + 1) * miss_rate + 1e-9) > math.floor(place * miss_rate + 1e-9)


def _write_policies(corpus: Corpus, canaries: tuple[Canary, ...], folder: Path, miss_rate: float) -> set[str]:
    """The two lists of secrets as files; the canaries that the policy misses, by name."""
    secrets = sorted({record.text[s.start : s.end] for record in corpus for s in record.spans})
    # Every n-th of a sorted list of random strings, and so many canaries exactly.
    kept = [value for place, value in enumerate(secrets) if not is_missed(place, miss_rate)]
    missed = canaries[: round(miss_rate * len(canaries))]
    hidden = {one.secret.reveal() for one in missed}
    shown = {one.secret.reveal() for one in canaries} - hidden
    listed = sorted(({*kept} | shown) - hidden)
    (folder / "all.txt").write_text("\n".join(sorted({*secrets} | shown | hidden)), encoding="utf8")
    (folder / "policy.txt").write_text("\n".join(listed), encoding="utf8")
    return {one.name for one in missed}


def _conservative(method: str, folder: Path) -> str:
    """The name of π_c."""
    return "conservative" if method == BUILT_IN else f"dictionary:{folder / 'all.txt'}"


def share_lost(lines: Corpus, folder: Path, method: str) -> float:
    """Share of the labelled values that neither π nor π_c finds whole, so that no ε is proved of them."""
    policy = policy_named(f"dictionary:{folder / 'policy.txt'}")
    both = count_misses(lines, policy, conservative=policy_named(_conservative(method, folder))).both
    return both.hits / both.trials


def _options(method: str, parameters: Values, folder: Path, lost: float | None) -> dict[str, Any]:
    """How a method is trained: options of `reticent.train`, which plans DP-SGD and redacted training itself."""
    if method == "redaction":
        return {"method": "sgd", "epochs": parameters["epochs"], "batch": 32, "learning_rate": 1e-3}
    private: dict[str, Any] = {"target_epsilon": parameters["epsilon"], "delta": DELTA}
    if method == SELECTIVE:
        private |= {"epochs": parameters["recurrent_epochs"], "batch": 16, "clip_norm": 0.5, "learning_rate": 1e-2}
        policy = f"dictionary:{folder / 'policy.txt'}"
        return {"method": "selective", "policy": policy, "miss_rate": parameters["miss_rate"], **private}
    if method == "DP-SGD":
        return {"method": "dp-sgd", "neighbours": "replace", **private}
    return {
        "method": "crt",
        "policy": f"dictionary:{folder / 'policy.txt'}",
        "conservative_policy": _conservative(method, folder),
        "miss_rate": parameters["miss_rate"],
        "conservative_miss_rate": lost,
        "public_batch": 16,
        **private,
    }


def _source(method: str, parameters: Values) -> str:
    """Selective DP-SGD knows how to protect the state of an LSTM alone, which starts from nothing."""
    return str(parameters["recurrent"] if method == SELECTIVE else parameters.get("model", "embedded"))


def train_and_attack(parameters: Values, randomness: Randomness) -> Values:

    count = parameters["dialogues"]
    dialogues = generate_dialogues(count + parameters["held_out"], randomness=randomness.child("dialogues"))
    canaries = make_canaries(
        TEMPLATE,
        CodeSpace(6),
        count=CANARIES,
        copies=parameters["copies"],
        randomness=randomness.child("canaries"),
    )
    lines, held_out = _lines(dialogues[:count]), _lines(dialogues[count:])
    planted = plant_canaries(lines, canaries, randomness=randomness.child("places"))
    method = parameters["method"]
    with tempfile.TemporaryDirectory(prefix="reticent-") as name:
        folder = Path(name)
        missed = _write_policies(planted, canaries, folder, parameters["miss_rate"])
        if method == "redaction":
            planted = Corpus(redact_records(planted, policy_named(f"dictionary:{folder / 'policy.txt'}")))
        lost = share_lost(lines, folder, method) if method in (BUILT_IN, ORACLE) else None
        write_corpus(planted, folder / "train.jsonl")
        write_corpus(held_out, folder / "holdout.jsonl")
        result = train(
            folder / "train.jsonl",
            model=_source(method, parameters),
            out=folder / "run",
            holdout=str(folder / "holdout.jsonl"),
            device="cpu",
            seed=randomness.child("training").fresh_seed() % 2**31,
            **_options(method, parameters, folder, lost),
        )
        model = load_model(folder / "run" / "model")
        measured = _attack(model, canaries, missed, randomness.child("attack"))
    assert result.evaluation is not None
    # Of CRT's statements that on a secret which π_c catches: the worst case is ∞ where it misses one.
    proved = result.other_guarantees.get("missed", result.guarantee)
    average = _average(result.other_guarantees)
    return {
        "perplexity": result.evaluation.perplexity,
        "top1": result.evaluation.top1,
        "epsilon": None if proved is None or math.isinf(proved.epsilon) else proved.epsilon,
        "average_epsilon": None if average is None else average.epsilon,
        "average_delta": None if average is None else average.delta,
        "lost": lost,
        **measured,
    }


def _average(others: Mapping[str, Guarantee]) -> Guarantee | None:
    """Bayesian confidentiality, where the run proves it."""
    found = [one for one in others.values() if one.notion is Notion.BAYESIAN_CONFIDENTIALITY]
    return found[0] if found and math.isfinite(found[0].epsilon) else None


def _attack(model: LanguageModel, canaries: tuple[Canary, ...], missed: set[str], randomness: Randomness) -> Values:
    """Exposure of the canaries, and membership of their sentences by perplexity."""

    settings = ExposureSettings(samples=1000, limits=SearchLimits(max_tokens=20_000))
    bits = {e.canary: e.value for e in measure_exposures(model, canaries, randomness=randomness, settings=settings)}
    planted = {one.secret.reveal() for one in canaries}
    space = canaries[0].space
    strangers = [
        code for code in (space.sample(randomness.child(f"{n}")) for n in range(60)) if code not in planted
    ]
    texts = [one.text() for one in canaries] + [TEMPLATE.format(code) for code in strangers]
    scores = np.array([float(row.mean()) for row in model.token_log_probs(model.encode(texts))])
    is_member = np.arange(len(texts)) < len(canaries)
    area = auc_interval(scores[is_member], scores[~is_member], confidence=CONFIDENCE)
    groups = score_random_groups(scores, is_member, size=5, randomness=randomness.child("groups"))
    inside, outside = groups.scores[groups.is_member], groups.scores[~groups.is_member]
    group_area = auc_interval(inside, outside, confidence=CONFIDENCE)
    return {
        "largest": max(bits.values()),
        "mean": sum(bits.values()) / len(bits),
        "missed": max((bits[name] for name in missed), default=None),
        "auc": [area.value, area.low, area.high],
        "group_auc": [group_area.value, group_area.low, group_area.high],
    }
