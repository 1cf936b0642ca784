"""Attacks give scores, metrics give findings; models are known through their protocol alone."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.auditing.attacks.exposure.candidate_search import SearchLimits as SearchLimits
    from reticent.auditing.attacks.exposure.ranking import Exposure as Exposure
    from reticent.auditing.attacks.exposure.ranking import ExposureSettings as ExposureSettings
    from reticent.auditing.attacks.exposure.ranking import measure_exposures as measure_exposures
    from reticent.auditing.attacks.extraction.codes import CodeHits as CodeHits
    from reticent.auditing.attacks.extraction.codes import PlantedCodes as PlantedCodes
    from reticent.auditing.attacks.extraction.codes import attack_codes as attack_codes
    from reticent.auditing.attacks.extraction.codes import code_answers as code_answers
    from reticent.auditing.attacks.extraction.codes import hit_rate_ceiling as hit_rate_ceiling
    from reticent.auditing.attacks.lazy.emission import calibrated_loss as calibrated_loss
    from reticent.auditing.attacks.lazy.emission import emission_log_prob as emission_log_prob
    from reticent.auditing.attacks.lazy.risk_map import RiskMap as RiskMap
    from reticent.auditing.attacks.lazy.risk_map import draw_risk_map as draw_risk_map
    from reticent.auditing.attacks.membership.findings import MembershipSetting as MembershipSetting
    from reticent.auditing.attacks.membership.findings import membership_findings as membership_findings
    from reticent.auditing.attacks.membership.groups import GroupScores as GroupScores
    from reticent.auditing.attacks.membership.groups import Pooling as Pooling
    from reticent.auditing.attacks.membership.groups import pooled_scores as pooled_scores
    from reticent.auditing.attacks.membership.groups import score_owners as score_owners
    from reticent.auditing.attacks.membership.scores import CalibratedScore as CalibratedScore
    from reticent.auditing.attacks.membership.scores import ErrorZoneScore as ErrorZoneScore
    from reticent.auditing.attacks.membership.scores import LossScore as LossScore
    from reticent.auditing.attacks.membership.scores import LowerCaseScore as LowerCaseScore
    from reticent.auditing.attacks.membership.scores import MinKPlusPlusScore as MinKPlusPlusScore
    from reticent.auditing.attacks.membership.scores import MinKScore as MinKScore
    from reticent.auditing.attacks.membership.scores import WindowScore as WindowScore
    from reticent.auditing.attacks.membership.scores import ZlibScore as ZlibScore
    from reticent.auditing.attacks.membership.target_scores import TargetScores as TargetScores
    from reticent.auditing.attacks.personal_data.contexts import ContextWindow as ContextWindow
    from reticent.auditing.attacks.personal_data.contexts import MaskedSpan as MaskedSpan
    from reticent.auditing.attacks.personal_data.contexts import OtherValues as OtherValues
    from reticent.auditing.attacks.personal_data.contexts import masked_spans as masked_spans
    from reticent.auditing.attacks.personal_data.extractability import (
        compare_extractability as compare_extractability,
    )
    from reticent.auditing.attacks.personal_data.extractability import (
        estimate_extractability as estimate_extractability,
    )
    from reticent.auditing.attacks.personal_data.extraction import EmittedValues as EmittedValues
    from reticent.auditing.attacks.personal_data.extraction import ExtractionGame as ExtractionGame
    from reticent.auditing.attacks.personal_data.extraction import sample_texts as sample_texts
    from reticent.auditing.attacks.personal_data.extraction import tag_texts as tag_texts
    from reticent.auditing.attacks.personal_data.extraction import token_lengths as token_lengths
    from reticent.auditing.attacks.personal_data.findings import PiiSetting as PiiSetting
    from reticent.auditing.attacks.personal_data.findings import extraction_findings as extraction_findings
    from reticent.auditing.attacks.personal_data.findings import inference_finding as inference_finding
    from reticent.auditing.attacks.personal_data.findings import reconstruction_findings as reconstruction_findings
    from reticent.auditing.attacks.personal_data.inference import CandidateDraw as CandidateDraw
    from reticent.auditing.attacks.personal_data.inference import draw_candidates as draw_candidates
    from reticent.auditing.attacks.personal_data.inference import infer_values as infer_values
    from reticent.auditing.attacks.personal_data.inference import token_counter as token_counter
    from reticent.auditing.attacks.personal_data.inventory import PiiInventory as PiiInventory
    from reticent.auditing.attacks.personal_data.inventory import take_inventory as take_inventory
    from reticent.auditing.attacks.personal_data.reconstruction import CandidateSources as CandidateSources
    from reticent.auditing.attacks.personal_data.reconstruction import continue_greedily as continue_greedily
    from reticent.auditing.attacks.personal_data.reconstruction import gather_candidates as gather_candidates
    from reticent.auditing.attacks.personal_data.reconstruction import rank_candidates as rank_candidates
    from reticent.auditing.attacks.personal_data.scoring import CandidateScorer as CandidateScorer
    from reticent.auditing.attacks.personal_data.scoring import CandidateScoring as CandidateScoring
    from reticent.auditing.attacks.personal_data.scoring import HeldOutPlaces as HeldOutPlaces
    from reticent.auditing.attacks.update.matching import match_phrases as match_phrases
    from reticent.auditing.attacks.update.score import PhraseScore as PhraseScore
    from reticent.auditing.attacks.update.score import Snapshots as Snapshots
    from reticent.auditing.attacks.update.score import UpdateScore as UpdateScore
    from reticent.auditing.attacks.update.search import BeamSettings as BeamSettings
    from reticent.auditing.attacks.update.search import BestPhrases as BestPhrases
    from reticent.auditing.attacks.update.search import PhraseWalk as PhraseWalk
    from reticent.auditing.attacks.update.search import search_phrases as search_phrases
    from reticent.auditing.metrics.one_run import one_run_epsilon as one_run_epsilon
    from reticent.auditing.metrics.roc import auc as auc
    from reticent.auditing.metrics.roc import auc_interval as auc_interval
    from reticent.auditing.metrics.roc import tpr_at_fpr as tpr_at_fpr

_PLACES = names_by_module(
    __name__,
    {
        "attacks.exposure.candidate_search": "SearchLimits",
        "attacks.exposure.ranking": "Exposure ExposureSettings measure_exposures",
        "attacks.extraction.codes": "CodeHits PlantedCodes attack_codes code_answers hit_rate_ceiling",
        "attacks.lazy.emission": "calibrated_loss emission_log_prob",
        "attacks.lazy.risk_map": "RiskMap draw_risk_map",
        "attacks.membership.groups": "GroupScores Pooling pooled_scores score_owners",
        "attacks.membership.findings": "MembershipSetting membership_findings",
        "attacks.membership.scores": "CalibratedScore ErrorZoneScore LossScore LowerCaseScore "
        "MinKPlusPlusScore MinKScore WindowScore ZlibScore",
        "attacks.membership.target_scores": "TargetScores",
        "attacks.personal_data.contexts": "ContextWindow MaskedSpan OtherValues masked_spans",
        "attacks.personal_data.extractability": "compare_extractability estimate_extractability",
        "attacks.personal_data.extraction": "EmittedValues ExtractionGame sample_texts tag_texts token_lengths",
        "attacks.personal_data.findings": "PiiSetting extraction_findings inference_finding "
        "reconstruction_findings",
        "attacks.personal_data.inference": "CandidateDraw draw_candidates infer_values token_counter",
        "attacks.personal_data.inventory": "PiiInventory take_inventory",
        "attacks.personal_data.reconstruction": "CandidateSources continue_greedily gather_candidates "
        "rank_candidates",
        "attacks.personal_data.scoring": "CandidateScorer CandidateScoring HeldOutPlaces",
        "attacks.update.matching": "match_phrases",
        "attacks.update.score": "PhraseScore Snapshots UpdateScore",
        "attacks.update.search": "BeamSettings BestPhrases PhraseWalk search_phrases",
        "metrics.one_run": "one_run_epsilon",
        "metrics.roc": "auc auc_interval tpr_at_fpr",
    },
)

if not TYPE_CHECKING:
    __all__ = sorted(_PLACES)
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
