"""A run's numbers, derived again and held against what its files say: `reticent bound RUN`.

Reads `guarantee.json` (of a run, of a model's folder, or the file alone, as a third party has it), the statements
beside it, the weights and the ledger, each where it is at hand. Loads no model and needs no data.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from reticent.accounting.curve import leaves
from reticent.accounting.derivation import agrees, derived
from reticent.core.document import object_to_json, read_document
from reticent.core.errors import ConfigError, GuaranteeError, LedgerError
from reticent.core.event import Event, Round
from reticent.core.evidence.certificate import GUARANTEE, Certificate, base_digest, model_digest
from reticent.core.guarantee import Basis, Guarantee
from reticent.core.printing.numbers import at_most, counted
from reticent.ledger.durable import SqliteLedger
from reticent.runs.directory import LEDGER, TRAINING
from reticent.runs.proofs.certificates import is_about, read_certificate, well_formed_by_name
from reticent.runs.synthesis.datasheet import SUFFIX, file_digest, read_datasheet

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: what the files say and what was found; None where it could not be looked at."""

    name: str
    sentence: str
    holds: bool | None

    def to_json(self) -> dict[str, Any]:
        """JSON values; the document that holds them carries the schema version."""
        return {"check": self.name, "holds": self.holds, "sentence": self.sentence}


@dataclass(frozen=True, slots=True)
class Rederivation:
    """A guarantee as it is stated and as it was derived here, with every check."""

    where: Path
    stated: Guarantee
    anew: Guarantee | None
    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Whether no check failed."""
        return all(check.holds is not False for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """The document of `reticent bound RUN --json`."""
        document = {
            "schema_version": SCHEMA_VERSION,
            "guarantee": self.where,
            "stated": _numbers(self.stated),
            "derived": None if self.anew is None else _numbers(self.anew),
            "agrees": self.agrees,
            "checks": self.checks,
            "assumes": self.stated.assumes,
        }
        return object_to_json(document)


def _numbers(guarantee: Guarantee) -> dict[str, Any]:
    return {
        name: getattr(guarantee, name) for name in ("epsilon", "delta", "order", "unit", "neighbours", "notion")
    }


def rederive(path: Path) -> Rederivation:
    """Derive again what a run directory, a model's folder, a guarantee.json or a datasheet states."""
    if path.name.endswith(SUFFIX):
        return _of_datasheet(path)
    stated_in = (path / GUARANTEE, path / "model" / GUARANTEE)
    if (path / LEDGER).is_file() and not any(place.is_file() for place in stated_in):
        return _of_ledger(path / LEDGER)
    folder = _folder(path)
    certificate = read_certificate(folder)
    run = folder.resolve().parent if folder.resolve().name == "model" else folder
    anew, headline = _derived(certificate.guarantee)
    checks = [headline, *_other_guarantees(run, certificate.guarantee), _weights(folder, certificate)]
    checks += [*_of_run(run, folder, certificate), _ledger(run / LEDGER, certificate)]
    return Rederivation(folder / GUARANTEE, certificate.guarantee, anew, tuple(checks))


def _folder(path: Path) -> Path:
    """The folder of the guarantee: beside the weights where there are some."""
    if path.is_file() and path.name == GUARANTEE:
        return path.parent
    for folder in (path / "model", path):
        if (folder / GUARANTEE).is_file():
            return folder
    raise ConfigError(
        f"{path}: no guarantee is stated here",
        expected=f"a run directory, a model's folder, or a {GUARANTEE}",
        hint="without a run, compute a bound from settings: reticent bound dp-sgd, confidentiality or extraction",
    )


def _derived(guarantee: Guarantee, name: str = "epsilon") -> tuple[Guarantee | None, Check]:
    """The guarantee derived again, and whether it is the one that is stated."""
    try:
        anew = derived(guarantee)
    except GuaranteeError as error:
        return None, Check(name, f"{error.line()}.", holds=False)
    is_same = agrees(guarantee, anew)
    says = f"stated ε = {at_most(guarantee.epsilon)} at δ = {at_most(guarantee.delta)}"
    found = f"recomputed ε = {at_most(anew.epsilon)} at δ = {at_most(anew.delta)}"
    if guarantee.epsilon == math.inf:
        return anew, Check(name, f"{says}: it promises nothing, so there is nothing to recompute.", holds=True)
    verdict = "they agree" if is_same else "THEY DO NOT AGREE: trust neither until you know why"
    return anew, Check(name, f"{says}, {found}: {verdict}.", is_same)


def _other_guarantees(run: Path, headline: Guarantee) -> Iterator[Check]:
    """The other statements of a training, each derived again."""
    if not (run / TRAINING).is_file():
        return
    documents = read_document(run / TRAINING).get("guarantees", {})
    yield from _statements(well_formed_by_name(documents, where=str(run / TRAINING)), headline)


def _statements(others: dict[str, Guarantee], headline: Guarantee) -> Iterator[Check]:
    for name, each in others.items():
        if is_about(name, each, headline):
            yield _derived(each, name)[1]
        else:
            yield Check(
                name,
                "This statement is about ANOTHER event, or OTHER miss rates, than the run's guarantee.",
                holds=False,
            )


def _of_run(run: Path, folder: Path, certificate: Certificate) -> Iterator[Check]:
    """The copy of the certificate that a run keeps beside the folder of its model."""
    if run != folder and (run / GUARANTEE).is_file():
        is_same = read_certificate(run) == certificate
        says = "says the same" if is_same else "does NOT say the same: one of the two was edited"
        yield Check("copy", f"{run / GUARANTEE} {says}.", is_same)


def _weights(folder: Path, certificate: Certificate) -> Check:
    if not any(path.suffix == ".safetensors" for path in folder.iterdir()):
        return Check("weights", "The weights are not here, so they were not checked.", None)
    if certificate.released != model_digest(folder):
        return Check("weights", "The weights beside it are NOT the ones it was written for.", holds=False)
    under = base_digest(folder)
    if certificate.base is not None and under is None:
        return Check("weights", "The adapter is the one it was written for; the model under it is not here.", None)
    if certificate.base != under:
        return Check("weights", "The model under the adapter is NOT the one that it was trained on.", holds=False)
    return Check("weights", "The weights beside it are the ones it was written for.", holds=True)


def _ledger(path: Path, certificate: Certificate) -> Check:
    if not path.is_file():
        return Check("ledger", "The ledger is not here, so the charges were not checked.", None)
    try:
        with SqliteLedger.open(path) as ledger:
            head = ledger.verify()
            is_paid = certificate.ledger is not None and ledger.holds(certificate.ledger)
            is_same = ledger.budget.guarantee == certificate.guarantee
    except LedgerError as error:
        return Check("ledger", f"{error.line()}.", holds=False)
    if certificate.ledger is None and certificate.released is None:
        unfinished = (
            f"The ledger holds {counted(head.sequence, 'charge')}, and the guarantee names no weights that they "
            "paid for yet, as in a run that is not finished; `reticent train --resume RUN` continues it."
        )
        return Check("ledger", unfinished, holds=False)
    if not is_paid:
        return Check("ledger", "The ledger does NOT contain the charge that paid for these weights.", holds=False)
    if not is_same:
        return Check("ledger", "The ledger was made for ANOTHER guarantee than is stated.", holds=False)
    return Check(
        "ledger",
        f"The ledger is intact ({counted(head.sequence, 'charge')}) and paid for these weights.",
        holds=True,
    )


def _of_ledger(path: Path) -> Rederivation:
    """What the budget of an ensemble's ledger proves: there are no weights to release."""
    with SqliteLedger.open(path) as ledger:
        head = ledger.verify()
        stated = ledger.budget.guarantee
    anew, headline = _derived(stated)
    whole = Check(
        "ledger", f"The ledger is intact: {counted(head.sequence, 'charge')}, all within its budget.", holds=True
    )
    return Rederivation(path, stated, anew, (headline, whole))


def _of_datasheet(path: Path) -> Rederivation:
    """What the datasheet of a synthetic corpus states, and whether the corpus beside it is the one it is about."""
    stated, others, corpus, digest = read_datasheet(path)
    anew, headline = _derived(stated)
    checks = [headline, *_statements(others, stated)]
    if not corpus.is_file():
        checks.append(Check("corpus", "The corpus is not here, so it was not checked.", None))
    elif file_digest(corpus) == digest:
        checks.append(Check("corpus", "The corpus beside it is the one it was written for.", holds=True))
    else:
        checks.append(Check("corpus", "The corpus beside it is NOT the one it was written for.", holds=False))
    return Rederivation(path, stated, anew, tuple(checks))


def described(event: Event) -> str:
    """What was done, in words: "375 steps with noise multiplier 0.71 and sampling rate 0.0427"."""
    said = (
        leaf.in_words(count) if isinstance(leaf, Round) else f"{count:,} × {leaf}" for leaf, count in leaves(event)
    )
    return "; ".join(said) or "nothing was released"


def _moving(basis: Basis) -> str:
    """How the clip norm went on, where it was not fixed."""
    if basis.clip_quantile is None:
        return ""
    noise = "unknown noise" if basis.count_noise is None else f"noise of standard deviation {basis.count_noise:.4g}"
    return f" at first, then by quantile {basis.clip_quantile:g} of the gradient norms, from counts with {noise}"


def sentences(found: Rederivation) -> list[str]:
    """What people read."""
    basis = found.stated.basis
    lines = [f"{found.where} is about one {found.stated.unit.value} ({found.stated.neighbours.value})."]
    if basis is not None:
        facts = [described(basis.event)]
        facts += [] if basis.clip_norm is None else [f"clip norm {basis.clip_norm:g}{_moving(basis)}"]
        facts += [] if basis.units is None else [f"{basis.units:,} units in the corpus"]
        facts += (
            []
            if not basis.earlier
            else [f"{counted(len(basis.earlier), 'earlier release')} of the same text added"]
        )
        lines.append(f"What was done: {'; '.join(facts)}.")
    lines += [f"{check.name}: {check.sentence}" for check in found.checks]
    lines += [
        "What no file can prove, and you must make sure of:",
        *(f"  - {each}" for each in found.stated.assumes),
    ]
    return lines
