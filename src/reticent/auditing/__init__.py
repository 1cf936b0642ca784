"""Attacks give scores, metrics give findings; models are known through their protocol alone."""

from typing import TYPE_CHECKING

from reticent.core.lazy_names import lazy_names, names_by_module

if TYPE_CHECKING:
    from reticent.auditing.attacks.exposure.candidate_search import SearchLimits
    from reticent.auditing.attacks.exposure.ranking import Exposure, ExposureSettings, measure_exposures
    from reticent.auditing.attacks.extraction.codes import (
        CodeHits,
        PlantedCodes,
        attack_codes,
        code_answers,
        hit_rate_ceiling,
    )
    from reticent.auditing.attacks.lazy.emission import calibrated_loss, emission_log_prob
    from reticent.auditing.attacks.lazy.risk_map import RiskMap, draw_risk_map
    from reticent.auditing.attacks.membership.groups import GroupScores, Pooling, pooled_scores, score_owners
    from reticent.auditing.attacks.membership.metrics import MembershipSetting, membership_findings
    from reticent.auditing.attacks.membership.scores import (
        CalibratedScore,
        ErrorZoneScore,
        LossScore,
        LowerCaseScore,
        MinKPlusPlusScore,
        MinKScore,
        WindowScore,
        ZlibScore,
    )
    from reticent.auditing.attacks.membership.target_scores import TargetScores
    from reticent.auditing.attacks.personal_data.contexts import (
        ContextWindow,
        MaskedSpan,
        OtherValues,
        masked_spans,
    )
    from reticent.auditing.attacks.personal_data.extractability import (
        compare_extractability,
        estimate_extractability,
    )
    from reticent.auditing.attacks.personal_data.extraction import (
        EmittedValues,
        ExtractionGame,
        sample_texts,
        tag_texts,
        token_lengths,
    )
    from reticent.auditing.attacks.personal_data.findings import (
        PiiSetting,
        extraction_findings,
        inference_finding,
        reconstruction_findings,
    )
    from reticent.auditing.attacks.personal_data.inference import (
        CandidateDraw,
        draw_candidates,
        infer_values,
        token_counter,
    )
    from reticent.auditing.attacks.personal_data.inventory import PiiInventory, take_inventory
    from reticent.auditing.attacks.personal_data.reconstruction import (
        CandidateSources,
        continue_greedily,
        gather_candidates,
        rank_candidates,
    )
    from reticent.auditing.attacks.personal_data.scoring import CandidateScorer, CandidateScoring, HeldOutPlaces
    from reticent.auditing.attacks.update.matching import match_phrases
    from reticent.auditing.attacks.update.score import PhraseScore, Snapshots, UpdateScore
    from reticent.auditing.attacks.update.search import BeamSettings, BestPhrases, PhraseWalk, search_phrases
    from reticent.auditing.metrics.one_run import one_run_epsilon
    from reticent.auditing.metrics.roc import auc, auc_interval, tpr_at_fpr

_PLACES = names_by_module(
    __name__,
    {
        "attacks.exposure.candidate_search": "SearchLimits",
        "attacks.exposure.ranking": "Exposure ExposureSettings measure_exposures",
        "attacks.extraction.codes": "CodeHits PlantedCodes attack_codes code_answers hit_rate_ceiling",
        "attacks.lazy.emission": "calibrated_loss emission_log_prob",
        "attacks.lazy.risk_map": "RiskMap draw_risk_map",
        "attacks.membership.groups": "GroupScores Pooling pooled_scores score_owners",
        "attacks.membership.metrics": "MembershipSetting membership_findings",
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

__all__ = [
    "BeamSettings",
    "BestPhrases",
    "CalibratedScore",
    "CandidateDraw",
    "CandidateScorer",
    "CandidateScoring",
    "CandidateSources",
    "CodeHits",
    "ContextWindow",
    "EmittedValues",
    "ErrorZoneScore",
    "Exposure",
    "ExposureSettings",
    "ExtractionGame",
    "GroupScores",
    "HeldOutPlaces",
    "LossScore",
    "LowerCaseScore",
    "MaskedSpan",
    "MembershipSetting",
    "MinKPlusPlusScore",
    "MinKScore",
    "OtherValues",
    "PhraseScore",
    "PhraseWalk",
    "PiiInventory",
    "PiiSetting",
    "PlantedCodes",
    "Pooling",
    "RiskMap",
    "SearchLimits",
    "Snapshots",
    "TargetScores",
    "UpdateScore",
    "WindowScore",
    "ZlibScore",
    "attack_codes",
    "auc",
    "auc_interval",
    "calibrated_loss",
    "code_answers",
    "compare_extractability",
    "continue_greedily",
    "draw_candidates",
    "draw_risk_map",
    "emission_log_prob",
    "estimate_extractability",
    "extraction_findings",
    "gather_candidates",
    "hit_rate_ceiling",
    "infer_values",
    "inference_finding",
    "masked_spans",
    "match_phrases",
    "measure_exposures",
    "membership_findings",
    "one_run_epsilon",
    "pooled_scores",
    "rank_candidates",
    "reconstruction_findings",
    "sample_texts",
    "score_owners",
    "search_phrases",
    "tag_texts",
    "take_inventory",
    "token_counter",
    "token_lengths",
    "tpr_at_fpr",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)
