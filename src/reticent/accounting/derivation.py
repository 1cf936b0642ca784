"""A guarantee's numbers, derived again from its basis: nobody has to believe a file.

    derived(guarantee)     the same statement with numbers computed anew from its event
    require_derivable      the same, refused where the file says something else

What an event proves is decided by `guarantees` and `confidentiality`; here their functions are called once more,
with nothing but what the file says was done. What it says of the *event* is bound by the weights' digest and the
ledger (`core.evidence.certificate`), and by nothing else: whoever doubts it must look at the code that ran.
"""

import math
from dataclasses import replace

from reticent.accounting.bounds.confidentiality import bayesian, group_of_secrets, missed_secret_of
from reticent.accounting.guarantees import guarantee_of
from reticent.accounting.pld import privacy_profile
from reticent.core.errors import GuaranteeError, UnsupportedEvent
from reticent.core.guarantee import Basis, Guarantee, Neighbours, Notion, Unit

_AGREE = 1e-4  # relative: accountants of other releases differ in their last digits


def composed(guarantee: Guarantee, earlier: tuple[Guarantee, ...]) -> Guarantee:
    """The guarantee of this release and of earlier ones of the same text together: ε and δ are added.

    Guarantee: adaptive composition of (ε_i, δ_i)-differentially private releases for one notion, unit and relation
    is (Σ ε_i, Σ δ_i)-differentially private (Dwork and Roth 2014, theorem B.1).
    """
    if not earlier:
        return guarantee
    if guarantee.basis is None or guarantee.order is not None or any(each.order is not None for each in earlier):
        raise GuaranteeError("guarantees at one Rényi order, or without an event, are not added up")
    return replace(
        guarantee,
        mechanism=", then ".join(dict.fromkeys((*(each.mechanism for each in earlier), guarantee.mechanism))),
        epsilon=math.fsum((guarantee.epsilon, *(each.epsilon for each in earlier))),
        delta=min(1.0, math.fsum((guarantee.delta, *(each.delta for each in earlier)))),
        profile=(),
        renyi=(),
        basis=replace(guarantee.basis, earlier=(*guarantee.basis.earlier, *earlier)),
    )


def derived(guarantee: Guarantee) -> Guarantee:
    """The same statement, its numbers computed anew from its basis; ε = ∞ promises nothing and stays as it is.

    Guarantee: every number of the returned guarantee follows from `basis`; words are those of the given one.
    """
    if guarantee.epsilon == math.inf:
        return replace(guarantee, profile=(), renyi=())
    if guarantee.basis is None:
        raise GuaranteeError(
            "the guarantee does not say what was done, so it cannot be derived again",
            expected="a basis with an event",
            hint="train again with this version, or compute it from the settings: reticent bound dp-sgd",
        )
    basis = replace(guarantee.basis, earlier=())
    try:
        alone = _alone(guarantee, basis)
    except (UnsupportedEvent, ValueError, ArithmeticError, RecursionError) as error:
        raise GuaranteeError(
            "no accountant prices the event of this guarantee", found=type(error).__name__
        ) from None
    proved = replace(
        guarantee,
        notion=alone.notion,
        neighbours=alone.neighbours,
        data_dependent=alone.data_dependent,
        epsilon=alone.epsilon,
        delta=alone.delta,
        order=alone.order,
        profile=alone.profile,
        renyi=alone.renyi,
        basis=basis,
    )
    whole = composed(proved, tuple(derived(each) for each in guarantee.basis.earlier))
    return replace(whole, mechanism=guarantee.mechanism)


def _alone(guarantee: Guarantee, basis: Basis) -> Guarantee:
    """What the event itself proves, without earlier releases."""
    if guarantee.unit is Unit.SECRET:
        missed = missed_secret_of(basis.event, basis.delta)
        if guarantee.notion is Notion.BAYESIAN_CONFIDENTIALITY:
            if basis.miss_rate is None:
                raise GuaranteeError("a statement on average over secrets needs the policy's miss rate")
            return bayesian(missed, miss_rate=basis.miss_rate, conservative_miss_rate=basis.conservative_miss_rate)
        return missed if basis.group == 1 else group_of_secrets(missed, basis.group)
    if guarantee.notion is Notion.CONFIDENTIALITY:
        replaced = Neighbours.REPLACE
        epsilon = privacy_profile(basis.event, replaced).epsilon(basis.delta)
        return replace(guarantee, neighbours=replaced, epsilon=epsilon, delta=basis.delta, profile=(), renyi=())
    return guarantee_of(basis.event, delta=basis.delta, unit=guarantee.unit, neighbours=guarantee.neighbours)


def require_derivable(guarantee: Guarantee, *, where: str) -> Guarantee:
    """The guarantee as derived again; GuaranteeError where `where` states other numbers than its event proves.

    Guarantee: what is returned was computed from the event here and now.
    """
    try:
        anew = derived(guarantee)
    except GuaranteeError as error:
        raise GuaranteeError(
            f"{where}: {error.what}", found=error.found, expected=error.expected, hint=error.hint
        ) from None
    if not agrees(guarantee, anew):
        raise GuaranteeError(
            f"{where}: the stated ε does not follow from what was done",
            found=_promise(guarantee),
            expected=f"{_promise(anew)}, derived from its event",
            hint="the file was edited or damaged: restore it, and believe neither number until you know which",
        )
    return anew


def _promise(guarantee: Guarantee) -> str:
    numbers = f"ε = {guarantee.epsilon:.6g} at δ = {guarantee.delta:.6g}"
    return f"{numbers} ({guarantee.notion.value}, {guarantee.neighbours.value})"


def agrees(guarantee: Guarantee, other: Guarantee) -> bool:
    """Whether two guarantees promise the same: kind, ε, δ and order, up to the last digits of an accountant."""
    pairs = ((guarantee.epsilon, other.epsilon), (guarantee.delta, other.delta))
    is_close = all(one == two or math.isclose(one, two, rel_tol=_AGREE, abs_tol=1e-15) for one, two in pairs)
    kinds = [(each.notion, each.neighbours, each.data_dependent, each.order) for each in (guarantee, other)]
    return is_close and kinds[0] == kinds[1]
