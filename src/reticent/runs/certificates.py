"""What was proved of a model on disk, as a reader may believe it: bound to the files, derived again.

Every verb that reads a guarantee reads it here. Refused: one without an event, one whose numbers do not follow from
its event, one that was written for other weights, one whose last charge does not stand in the run's ledger. The
guarantee that is returned has the numbers that were computed here, not those that the file states.
"""

from pathlib import Path
from typing import Any

from reticent.accounting.derivation import require_derivable
from reticent.core.certificate import GUARANTEE, Certificate
from reticent.core.errors import GuaranteeError, UnsupportedEvent
from reticent.core.guarantee import Guarantee
from reticent.ledger.durable import SqliteLedger

LEDGER = "ledger.db"


def proved_of(model: Path) -> Guarantee | None:
    """What was proved of the weights in a folder; None where nothing is stated."""
    if not (model / GUARANTEE).is_file():
        return None
    certificate = read_certificate(model)
    certificate.require_weights(model)
    require_paid(certificate, model.parent / LEDGER)
    return believed(certificate.guarantee, where=str(model / GUARANTEE))


def read_certificate(folder: Path) -> Certificate:
    """The certificate in a folder, well-formed but not checked."""
    try:
        return Certificate.read(folder)
    except (KeyError, TypeError, ValueError, AttributeError, UnsupportedEvent) as error:
        raise GuaranteeError(
            f"{folder / GUARANTEE}: not a guarantee that this version can read", found=type(error).__name__
        ) from None


def believed(guarantee: Guarantee, *, where: str) -> Guarantee:
    """The guarantee with its numbers derived again; GuaranteeError where they are others than it states."""
    try:
        return require_derivable(guarantee, where=where)
    except (UnsupportedEvent, ValueError) as error:
        raise GuaranteeError(
            f"{where}: no accountant prices the event of this guarantee", found=str(error)
        ) from None


def stated(document: dict[str, Any], *, where: str) -> Guarantee:
    """A guarantee inside another document of ours (findings.json, training.json), derived again."""
    try:
        guarantee = Guarantee.from_json(document)
    except (KeyError, TypeError, ValueError, AttributeError, UnsupportedEvent) as error:
        raise GuaranteeError(f"{where}: not a guarantee", found=type(error).__name__) from None
    return believed(guarantee, where=where)


def require_paid(certificate: Certificate, ledger: Path) -> None:
    """Where the run's ledger is at hand, the certificate's last charge must stand in it."""
    if not ledger.is_file():
        return
    with SqliteLedger.open(ledger) as opened:
        if certificate.ledger is None or not opened.holds(certificate.ledger):
            raise GuaranteeError(
                f"{ledger}: this ledger did not pay for the weights beside it",
                found="a guarantee whose last charge it does not hold",
                hint="restore the run directory as training left it",
            )
