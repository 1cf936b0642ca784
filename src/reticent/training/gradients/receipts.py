"""A checkpoint's tie to its ledger: the receipt of the last charge, kept in the one and looked for in the other.

A checkpoint that is newer than its ledger means that the ledger was rolled back or belongs to another run: steps
that it does not hold would be released twice. What was charged after the checkpoint stays spent.
"""

from typing import Any

from reticent.core.errors import LedgerError
from reticent.core.ledger import Ledger, Receipt


def receipt_state(receipt: Receipt | None) -> dict[str, Any]:
    """The ledger's place at the last step, as JSON values for a checkpoint."""
    return {"receipt": None if receipt is None else {"sequence": receipt.sequence, "digest": receipt.digest}}


def restored_receipt(state: dict[str, Any], ledger: Ledger) -> Receipt | None:
    """The receipt that a checkpoint holds, None where nothing was charged before it.

    Guarantee: refused unless this very charge stands in the ledger.
    """
    if state["receipt"] is None:
        return None
    receipt = Receipt(int(state["receipt"]["sequence"]), str(state["receipt"]["digest"]))
    if not ledger.holds(receipt):
        raise LedgerError(
            "the checkpoint is newer than its ledger, which was rolled back or belongs to another run",
            found=f"a checkpoint after charge {receipt.sequence}, which is not in the ledger",
            hint="restore the ledger from where it was; steps it does not hold would be released twice",
        )
    return receipt
