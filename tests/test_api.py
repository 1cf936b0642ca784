"""The public API: the names it offers, that it is light, and that every example in it runs."""

import ast
import doctest
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import reticent
from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators import generate_dialogues
from reticent.data.writing import write_corpus

ROOT = Path(__file__).resolve().parent.parent
# A name that leaves this list breaks somebody's program. Add to it with care.
SNAPSHOT = [
    "BudgetExhausted",
    "Corpus",
    "DpSgd",
    "Finding",
    "Guarantee",
    "Predictor",
    "PrivateStep",
    "Record",
    "ReticentError",
    "UsageError",
    "__version__",
    "audit",
    "bound",
    "dedup",
    "diff",
    "evaluate",
    "load_model",
    "open_corpus",
    "plan",
    "plant",
    "report",
    "scan",
    "scrub",
    "synthesize",
    "train",
    "verify",
]
# The names of each package, for researchers: the same holds for them.
PACKAGES = {
    "core": """
        Access AccessError BandedCycle BestOfRuns Budget Canary CodeSpace Comparison Composed
        ConcentratedRelease ConfigError DataError Ensemble Estimate Event ExponentialSampling FilteredCharge
        Gaussian LanguageModel Laplace Ledger ListedSpace ModelError Neighbours NoisyCheck NoisyVote NonPrivate
        Notion Policy RandomAllocation Randomness Range RealisedCharge Repeated SampledGaussian SampledGroup
        Sampling Secret SecretSpace Span SubsampledMixture TextModel Tokens Unit UnsupportedEvent Verdict at_least
        at_most read_document renyi_divergence write_atomically write_document
    """,
    "accounting": """
        Confidentiality ExtractionBound LeakageBounds RenyiCurve auc_ceiling ceiling compare_with_guarantee
        confidentiality dp_sgd_guarantee epsilon_from_renyi epsilons extraction_success guarantee_of
        leakage_bounds missed_secret rdp_epsilon rdp_leakage true_positive_rate_ceiling
    """,
    "ledger": """
        SqliteLedger
    """,
    "data": """
        PatternPolicy PolicyMeasurement UnionPolicy generate_cases generate_codes generate_dialogues
        make_canaries measure_policy plant_canaries redact_records split_corpus write_corpus
    """,
    "models": """
        AdapterEnsemble EnsembleMember HuggingFaceModel LSTMConfig LSTMForCausalLM embedded_model_path
    """,
    "auditing": """
        BeamSettings BestPhrases CalibratedScore CandidateDraw CandidateScorer CandidateScoring CandidateSources
        CodeHits ContextWindow EmittedValues ErrorZoneScore Exposure ExposureSettings ExtractionGame GroupScores
        HeldOutPlaces LossScore LowerCaseScore MaskedSpan MembershipSetting MinKPlusPlusScore MinKScore
        OtherValues PhraseScore PhraseWalk PiiInventory PiiSetting PlantedCodes Pooling RiskMap SearchLimits
        Snapshots TargetScores UpdateScore WindowScore ZlibScore attack_codes auc auc_interval calibrated_loss
        code_answers compare_extractability continue_greedily draw_candidates draw_risk_map emission_log_prob
        estimate_extractability extraction_findings gather_candidates hit_rate_ceiling infer_values
        inference_finding masked_spans match_phrases measure_exposures membership_findings one_run_epsilon
        pooled_scores rank_candidates reconstruction_findings sample_texts score_owners search_phrases tag_texts
        take_inventory token_counter token_lengths tpr_at_fpr
    """,
    "training": """
        TRAINING_ACCOUNT AllocationSampler BandedSampler CheckpointSchedule Checkpoints Computation Decay
        Evaluation GradientSource Learner MemberRecipe MemberShare ModelStart OptimiserSettings PlainGradients
        PlainPlan PoissonSampler PrivateGradients Progress Units choose_token_budget count_misses encode_texts
        evaluate_model load_for_training member_seed release_model split_key split_owners train_learner
        train_member verify_disjoint
    """,
    "prediction": """
        Layout Mechanism MechanismName MechanismOptions MemoryLedger Passage PredictionTarget TokenPredictor
        evaluate_mechanisms look_up_passages realised_share set_up_mechanism
    """,
    "engine": """
        EngineSettings Piece open_engine run_pieces
    """,
    "runs": """
        CanaryModule EngineOptions Shown noisy_sum_of_update option package_versions policy_named
    """,
    "cli": """
        Output VerbCommand run table verb
    """,
}


def test_the_public_names_are_the_snapshot():
    assert sorted(reticent.__all__) == SNAPSHOT
    assert set(SNAPSHOT) <= set(dir(reticent))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_public_names_of_a_package_are_the_snapshot_and_each_can_be_loaded(package):
    offered = import_module(f"reticent.{package}")
    assert sorted(offered.__all__) == sorted(PACKAGES[package].split())
    assert set(offered.__all__) <= set(dir(offered))
    for name in offered.__all__:
        assert getattr(offered, name) is getattr(import_module(offered._PLACES[name]), name)


def test_no_other_package_offers_names():
    files = (ROOT / "src" / "reticent").glob("*/__init__.py")
    assert {path.parent.name for path in files if "_PLACES" in path.read_text("utf8")} == set(PACKAGES)


def test_every_name_has_one_home_and_is_not_called_like_a_module():
    """A module of the same name would take its place in the package as soon as it is imported."""
    everything = [*SNAPSHOT, *(name for names in PACKAGES.values() for name in names.split())]
    assert sorted(everything) == sorted(set(everything))
    for package, names in PACKAGES.items():
        assert not {path.stem for path in (ROOT / "src" / "reticent" / package).iterdir()} & set(names.split())


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = reticent.trian


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_type_checkers_see_every_name_where_it_is_loaded_from(package):
    offered = import_module(f"reticent.{package}".rstrip("."))
    tree = ast.parse(Path(offered.__file__).read_text(encoding="utf8"))
    (typed,) = (
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.name: node.module for node in typed.body for alias in node.names}
    assert seen == offered._PLACES
    assert set(seen) == set(offered.__all__) - {"__version__"}


def test_importing_reticent_and_its_packages_loads_nothing_heavy():
    names = ", ".join(["reticent", *(f"reticent.{package}" for package in PACKAGES)])
    code = f"import sys, {names}; print(*(m for m in ('numpy', 'scipy', 'torch', 'pydantic') if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder for all examples, with two corpora: later examples read what earlier ones wrote."""
    path, before = tmp_path_factory.mktemp("examples"), Path.cwd()
    whole = generate_dialogues(120, randomness=Randomness.seeded(5))
    dialogues = Corpus(Record(one.id, one.text[:160], owner=one.owner) for one in whole)  # short, to be quick
    write_corpus(dialogues[:60], path / "mails.jsonl")
    write_corpus(dialogues[60:], path / "others.jsonl")
    os.chdir(path)
    yield path
    os.chdir(before)


def test_every_public_name_has_an_example_that_runs(folder):
    finder = doctest.DocTestFinder(recurse=False)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    for name in reticent._PLACES:
        value = getattr(reticent, name)
        tests = finder.find(value, name, globs={"reticent": reticent})
        assert sum(len(test.examples) for test in tests), f"{name} has no example"
        for test in tests:
            runner.run(test)
    assert runner.failures == 0
