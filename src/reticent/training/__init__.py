"""Layer 2: plans, per-record gradients, the training loop, checkpoints."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.training.batches import Units as Units
    from reticent.training.batches import choose_token_budget as choose_token_budget
    from reticent.training.batches import encode_texts as encode_texts
    from reticent.training.checkpoint import Checkpoints as Checkpoints
    from reticent.training.evaluation import Evaluation as Evaluation
    from reticent.training.evaluation import evaluate_model as evaluate_model
    from reticent.training.gradients.source import TRAINING_ACCOUNT as TRAINING_ACCOUNT
    from reticent.training.gradients.source import Computation as Computation
    from reticent.training.gradients.source import GradientSource as GradientSource
    from reticent.training.gradients.source import PlainGradients as PlainGradients
    from reticent.training.gradients.source import PrivateGradients as PrivateGradients
    from reticent.training.loop import CheckpointSchedule as CheckpointSchedule
    from reticent.training.loop import Progress as Progress
    from reticent.training.loop import train_learner as train_learner
    from reticent.training.methods.ensemble import MemberRecipe as MemberRecipe
    from reticent.training.methods.ensemble import MemberShare as MemberShare
    from reticent.training.methods.ensemble import member_seed as member_seed
    from reticent.training.methods.ensemble import split_key as split_key
    from reticent.training.methods.ensemble import split_owners as split_owners
    from reticent.training.methods.ensemble import train_member as train_member
    from reticent.training.methods.ensemble import verify_disjoint as verify_disjoint
    from reticent.training.methods.redaction import count_misses as count_misses
    from reticent.training.optimiser import Learner as Learner
    from reticent.training.optimiser import OptimiserSettings as OptimiserSettings
    from reticent.training.plans.plan import PlainPlan as PlainPlan
    from reticent.training.plans.sampler import AllocationSampler as AllocationSampler
    from reticent.training.plans.sampler import BandedSampler as BandedSampler
    from reticent.training.plans.sampler import PoissonSampler as PoissonSampler
    from reticent.training.release import release_model as release_model
    from reticent.training.starting_model import ModelStart as ModelStart
    from reticent.training.starting_model import load_for_training as load_for_training
    from reticent.training.update_rules import Decay as Decay

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

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
