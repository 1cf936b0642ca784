"""What was proved of a model on disk, as a reader may believe it: bound to the files, derived again.

Every verb that reads a guarantee reads it here. Refused: one without an event, one whose numbers do not follow from
its event, one that was written for other weights, one that the run's ledger was not made for. The
guarantee that is returned has the numbers that were computed here, not those that the file states.
"""

from pathlib import Path
from typing import Any

from reticent.accounting.curve import leaves
from reticent.accounting.derivation import require_derivable
from reticent.accounting.groups import group_event
from reticent.core.document import MALFORMED
from reticent.core.errors import ConfigError, GuaranteeError
from reticent.core.event import Composed, Event, SampledGroup
from reticent.core.evidence.certificate import GUARANTEE, Certificate
from reticent.core.guarantee import Basis, Guarantee, Unit
from reticent.ledger.durable import SqliteLedger
from reticent.runs.directory import LEDGER
from reticent.runs.schemas import read_valid

RELEASES = "all releases of the corpus"  # the one statement of a training that is about other runs too


def proved_of(model: Path) -> Guarantee | None:
    """What was proved of the weights in a folder; None where nothing is stated."""
    if not (model / GUARANTEE).is_file():
        return None
    certificate = read_certificate(model)
    certificate.require_weights(model)
    proved = require_derivable(certificate.guarantee, where=str(model / GUARANTEE))
    require_paid(certificate, model.resolve().parent / LEDGER)  # also where a link leads to the run
    return proved


def weights_guarantee(run: Path) -> Guarantee:
    """What was proved of a run's weights; refused where nothing was, since whatever they say may be private."""
    if not (run / "model").is_dir():
        raise ConfigError(
            f"{run}: neither an ensemble nor a trained model",
            expected="a run directory of `reticent train`",
            hint="train with --method submix, dp-sgd or crt",
        )
    guarantee = proved_of(run / "model")
    if guarantee is None:
        raise ConfigError(
            f"{run}: nothing was proved for these weights",
            expected=f"a run with model/{GUARANTEE}",
            hint="train with --method submix, dp-sgd or crt; nothing is released from an undefended model",
        )
    return guarantee


def read_certificate(folder: Path) -> Certificate:
    """The certificate in a folder, well-formed but not checked."""
    read_valid(folder / GUARANTEE)
    try:
        return Certificate.read(folder)
    except MALFORMED as error:
        raise GuaranteeError(
            f"{folder / GUARANTEE}: not a guarantee that this version can read", found=type(error).__name__
        ) from None


def stated(document: dict[str, Any], *, where: str) -> Guarantee:
    """A guarantee inside another document of ours (findings.json, training.json), derived again."""
    return require_derivable(_well_formed(document, where=where), where=where)


def _well_formed(document: Any, *, where: str) -> Guarantee:
    try:
        return Guarantee.from_json(document)
    except MALFORMED as error:
        raise GuaranteeError(f"{where}: not a guarantee", found=type(error).__name__) from None


def well_formed_by_name(documents: Any, *, where: str) -> dict[str, Guarantee]:
    """Guarantees by name inside another document of ours, as they stand there."""
    if not isinstance(documents, dict):
        raise GuaranteeError(f"{where}: not guarantees by name", found=type(documents).__name__)
    return {name: _well_formed(each, where=f"{where}, {name}") for name, each in documents.items()}


def read_other_guarantees(documents: Any, headline: Guarantee | None, *, where: str) -> dict[str, Guarantee]:
    """Further statements of a training by name: each derived again, and about what the headline says was done."""
    found = {
        name: require_derivable(each, where=f"{where}, {name}")
        for name, each in well_formed_by_name(documents, where=where).items()
    }
    for name, each in found.items():
        if not is_about(name, each, headline):
            raise GuaranteeError(
                f"{where}, {name}: this statement is about another event than the guarantee of the run, or about "
                "other miss rates",
                hint="the file was edited or damaged: restore the run directory as training left it",
            )
    return found


def is_about(name: str, statement: Guarantee, headline: Guarantee | None) -> bool:
    """Whether a statement rests on the event of the headline, or on one of its parts, and on its policies.

    The headline is bound by the ledger, and with it are the miss rates and whether one copy of a secret is kept:
    what is said of secrets rests on them. Statements about other runs are not here.
    """
    if name == RELEASES or headline is None or headline.basis is None or statement.basis is None:
        return True
    whole = headline.basis.event
    if headline.unit is Unit.SECRET and _rates(statement.basis) != _rates(headline.basis):
        return False
    event = statement.basis.event
    if statement.unit is Unit.OWNER and headline.unit is Unit.RECORD:  # about all records of an owner
        return any(event == group_event(whole, size) for size in _group_sizes(event))
    return event in (whole, *(whole.events if isinstance(whole, Composed) else ()))


def _group_sizes(event: Event) -> set[int]:
    return {leaf.group for leaf, _ in leaves(event) if isinstance(leaf, SampledGroup)}


def _rates(basis: Basis) -> tuple[float | None, float, bool]:
    return basis.miss_rate, basis.conservative_miss_rate, basis.keeps_one_copy


def require_paid(certificate: Certificate, ledger: Path) -> None:
    """Where the run's ledger is at hand, it must have been made for this guarantee and hold its last charge."""
    if not ledger.is_file():
        return
    with SqliteLedger.open(ledger) as opened:
        if certificate.ledger is None or not opened.holds(certificate.ledger):
            raise GuaranteeError(
                f"{ledger}: this ledger did not pay for the weights beside it",
                found="a guarantee whose last charge it does not hold",
                hint="restore the run directory as training left it",
            )
        if opened.budget.guarantee != certificate.guarantee:
            raise GuaranteeError(
                f"{ledger}: this ledger was made for another guarantee than the one beside the weights",
                found="another event, unit, kind of promise or assumption",
                hint="the file was edited or damaged: restore the run directory as training left it",
            )
