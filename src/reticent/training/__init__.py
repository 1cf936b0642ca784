"""Layer 2: plans, per-record gradients, the training loop, checkpoints."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.training.batches import Units, choose_token_budget, encode_texts
    from reticent.training.checkpoint import Checkpoints
    from reticent.training.evaluation import Evaluation, evaluate_model
    from reticent.training.gradients.source import (
        TRAINING_ACCOUNT,
        Computation,
        GradientSource,
        PlainGradients,
        PrivateGradients,
    )
    from reticent.training.loop import CheckpointSchedule, Progress, train_learner
    from reticent.training.methods.ensemble import (
        MemberRecipe,
        MemberShare,
        member_seed,
        split_key,
        split_owners,
        train_member,
        verify_disjoint,
    )
    from reticent.training.methods.redaction import count_misses
    from reticent.training.optimiser import Learner, OptimiserSettings
    from reticent.training.plans.plan import PlainPlan
    from reticent.training.plans.sampler import AllocationSampler, BandedSampler, PoissonSampler
    from reticent.training.release import release_model
    from reticent.training.starting_model import ModelStart, load_for_training
    from reticent.training.update_rules import Decay

_PLACES = names_by_module(
    __name__,
    {
        "batches": "Units choose_token_budget encode_texts",
        "checkpoint": "Checkpoints",
        "evaluation": "Evaluation evaluate_model",
        "gradients.source": "Computation GradientSource PlainGradients PrivateGradients TRAINING_ACCOUNT",
        "loop": "CheckpointSchedule Progress train_learner",
        "methods.ensemble": "MemberRecipe MemberShare member_seed split_key split_owners "
        "train_member verify_disjoint",
        "methods.redaction": "count_misses",
        "optimiser": "Learner OptimiserSettings",
        "plans.plan": "PlainPlan",
        "plans.sampler": "AllocationSampler BandedSampler PoissonSampler",
        "release": "release_model",
        "starting_model": "ModelStart load_for_training",
        "update_rules": "Decay",
    },
)

__all__ = [
    "TRAINING_ACCOUNT",
    "AllocationSampler",
    "BandedSampler",
    "CheckpointSchedule",
    "Checkpoints",
    "Computation",
    "Decay",
    "Evaluation",
    "GradientSource",
    "Learner",
    "MemberRecipe",
    "MemberShare",
    "ModelStart",
    "OptimiserSettings",
    "PlainGradients",
    "PlainPlan",
    "PoissonSampler",
    "PrivateGradients",
    "Progress",
    "Units",
    "choose_token_budget",
    "count_misses",
    "encode_texts",
    "evaluate_model",
    "load_for_training",
    "member_seed",
    "release_model",
    "split_key",
    "split_owners",
    "train_learner",
    "train_member",
    "verify_disjoint",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
