"""Selective DP-SGD: what is marked reaches the weights only through noise, and what is missed is not protected."""

import copy
import math
from contextlib import suppress

import numpy as np
import pytest
import torch

from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ConfigError, LedgerError, ModelError, UsageError
from reticent.core.event import Gaussian, Repeated, SampledGaussian
from reticent.core.guarantee import Neighbours, Notion
from reticent.core.randomness import Randomness
from reticent.data.policies.combined import Dictionary
from reticent.ledger.durable import SqliteLedger
from reticent.models.lstm.model import LSTMState
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.source import TRAINING_ACCOUNT, Computation
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.methods.selective import SelectivePlan, most_sensitive_runs, runs_of
from reticent.training.methods.selective_steps import (
    RunBatch,
    SelectiveGradients,
    Start,
    noisy_states,
    record_run_losses,
)
from reticent.training.plans.plan import MEASURE, SEEDED
from tests.training.gradients.oracles import clipped_sum, distance
from tests.training.small_models import START, gpt2, lstm
from tests.training.small_runs import budget as made_up_budget
from tests.training.small_runs import learner, private_plan, same_weights

POLICY = Dictionary({"xyz": "CODE", "uvw": "CODE"})
TEXTS = ("ab xyz cd", "abcd", "uvw a xyz", "no code", "b xyz")
COMPUTATION = Computation(token_budget=40)
SHAPE = (2, 12)


class Letters:
    """One token a letter."""

    start_token, end_token, context_length = START, 1, None

    def encode(self, texts):
        return [[3 + ord(letter) % 36 for letter in text] for text in texts]


def runs(*texts: str, **more):
    return runs_of(Letters(), Corpus(Record(str(i), text) for i, text in enumerate(texts)), POLICY, **more)


def plan(**more) -> SelectivePlan:
    values = {
        "units": len(TEXTS),
        "batch": 2,
        "epochs": 2,
        "seed": 3,
        "sensitive_runs": 2,
        "clip_norm": 0.5,
        "state_norm": 1.0,
        "noise_multiplier": 1.0,
        "delta": 1e-5,
        "miss_rate": 0.1,
        "is_local": True,
    }
    return SelectivePlan(**(values | more))


def new_ledger(folder, chosen: SelectivePlan) -> SqliteLedger:
    limits = made_up_budget(private_plan(10, 2, steps=chosen.steps))
    return SqliteLedger.create(folder / "ledger.db", limits, accounts=[TRAINING_ACCOUNT])


def source_of(module, ledger, chosen: SelectivePlan, texts=None, *, seed: int = 5) -> SelectiveGradients:
    return SelectiveGradients(
        module,
        runs(*TEXTS) if texts is None else texts,
        chosen,
        ledger=ledger,
        randomness=Randomness.seeded(seed),
        computation=COMPUTATION,
    )


def marked_parts(text) -> list[tuple[str, str, bool]]:
    """Runs as letters read and letters scored."""

    def letters(tokens) -> str:
        alphabet = {3 + ord(letter) % 36: letter for letter in "abcdefghijklmnopqrstuvwxyz "}
        return "".join({START: "^", 1: "$"}.get(int(token), alphabet.get(int(token), "?")) for token in tokens)

    return [(letters(run.inputs), letters(run.targets), run.is_sensitive) for run in text]


def test_a_position_is_sensitive_if_what_it_reads_or_what_it_predicts_is_marked():
    (text,) = runs("ab xyz cd")
    assert marked_parts(text) == [("^ab", "ab ", False), (" xyz", "xyz ", True), (" cd", "cd$", False)]
    (first,) = runs("xyz")
    assert marked_parts(first) == [("^xyz", "xyz$", True)]
    assert marked_parts(runs("")[0]) == [("^", "$", False)]
    assert most_sensitive_runs(runs("ab xyz cd", "uvw abc xyz", "abc")) == 2


def test_other_runs_depend_on_nothing_that_is_marked_not_even_where_a_text_is_cut():
    """Broken twin: cutting after so many tokens of any kind, where a longer secret pushes other tokens out."""
    longer = Dictionary({"xyz": "CODE", "xyzxyzxyz": "CODE"})
    pair = [Record("a", "ab xyz cdef"), Record("b", "ab xyzxyzxyz cdef")]

    def others(text, limit=None):
        tokens = [(int(t), run.is_sensitive) for run in text for t in run.targets][:limit]
        return [token for token, is_sensitive in tokens if not is_sensitive]

    first, second = runs_of(Letters(), pair, longer, max_length=6)
    assert others(first) == others(second)
    assert len(others(first)) == 5  # the space that follows the secret is scored after reading it: sensitive
    whole = runs_of(Letters(), pair, longer)
    assert others(whole[0], limit=9) != others(whole[1], limit=9)


def test_states_between_runs_are_those_of_reading_on(tmp_path):
    """Oracle: without noise and clipping, the state that a run starts from is that of the whole text before it."""
    module = lstm()
    chosen = plan(state_norm=1e6)
    with new_ledger(tmp_path, chosen) as ledger:
        source = source_of(module, ledger, chosen)
        silent = Randomness.seeded(0)
        silent.child = lambda name: silent
        silent.normal = lambda shape: np.zeros(shape)
        starts = source._starts(runs(*TEXTS), silent)
    for text, group in zip(runs(*TEXTS), starts, strict=True):
        assert all(
            start.run.targets.tolist() == run.targets.tolist() for start, run in zip(group, text, strict=True)
        )
        before: list[int] = []
        for start in group:
            if before:
                state = module(input_ids=torch.tensor([before]), use_cache=True).past_key_values
                assert torch.allclose(start.hidden, state.hidden[:, 0], atol=1e-6)
                assert torch.allclose(start.cell, state.cell[:, 0], atol=1e-6)
            else:
                assert not start.hidden.any()
            before += start.run.inputs.tolist()


def random_starts(text) -> list[Start]:
    torch.manual_seed(len(text))
    return [Start(run, torch.randn(SHAPE), torch.randn(SHAPE)) for run in text if run.is_sensitive]


def test_sensitive_runs_of_a_record_are_clipped_together_and_exactly():
    """Oracle: autograd, a record at a time. Broken twin: each run of a record clipped by itself."""
    module = lstm()
    groups = [random_starts(text) for text in runs("ab xyz cd uvw e", "uvw", "a xyz b")]

    def gradient(starts):
        alone = copy.deepcopy(module)
        losses = []
        for start in starts:
            state = LSTMState(start.hidden.unsqueeze(1), start.cell.unsqueeze(1), 0)
            inputs = torch.from_numpy(start.run.inputs).long()[None]
            logits = alone(input_ids=inputs, past_key_values=state).logits[0]
            losses.append(
                torch.nn.functional.cross_entropy(
                    logits, torch.from_numpy(start.run.targets).long(), reduction="sum"
                )
            )
        (sum(losses) / sum(len(start.run) for start in starts)).backward()
        return {name: p.grad.double() for name, p in alone.named_parameters()}

    truth = [gradient(starts) for starts in groups]
    limit = 0.3 * min(float(torch.sqrt(sum(g.square().sum() for g in one.values()))) for one in truth)
    with PerRecordGradients(module, limit, losses=record_run_losses) as engine:
        found = engine.clipped_sum(RunBatch.of_starts(groups, SHAPE))
    assert distance(found.gradients, clipped_sum(truth, limit)) < 1e-5
    by_run = clipped_sum([gradient([start]) for starts in groups for start in starts], limit)
    assert distance(by_run, clipped_sum(truth, limit)) > 0.1


def test_a_state_is_clipped_and_noised_as_a_whole():
    torch.manual_seed(0)
    hidden, cell = 5 * torch.randn(2, 3, 12), torch.randn(2, 3, 12)
    silent = noisy_states(hidden, cell, norm=1.0, deviation=0.0, randomness=Randomness.seeded(0))
    norms = silent.square().sum((0, 1, 3)).sqrt()
    assert torch.all(norms <= 1.0)
    assert torch.allclose(norms, torch.ones(3), atol=1e-4)
    large = torch.zeros(1, 400, 50)
    noise = noisy_states(large, large, norm=1.0, deviation=2.0, randomness=Randomness.seeded(0))
    assert float(noise.std()) == pytest.approx(2.0, rel=0.02)  # 40,000 draws: 5 standard errors are 1.8 %


def test_marked_values_reach_a_step_through_noise_alone(tmp_path, monkeypatch):
    """The gradient of other runs is a function of the released states: with those fixed, a marked value is nowhere.

    Broken twin: with the state as it is, whatever noise lies over it, the value shows.
    """
    module = lstm()
    chosen = plan(units=2, batch=2)
    here, there = runs("ab xyz cd", "abcd"), runs("ab uvw cd", "abcd")

    def plain_part(texts, folder):
        folder.mkdir()
        with new_ledger(folder, chosen) as ledger:
            source = source_of(module, ledger, chosen, texts)
            return source._plain(source._starts(texts, Randomness.seeded(1)))[0]

    leaky = [plain_part(texts, tmp_path / f"leaky{i}") for i, texts in enumerate((here, there))]
    assert distance(leaky[0], leaky[1]) > 1e-6  # the signal inside the noise

    def constant(hidden, cell, **_):
        return torch.ones(2, *hidden.shape)

    monkeypatch.setattr("reticent.training.methods.selective_steps.noisy_states", constant)
    cut = [plain_part(texts, tmp_path / f"cut{i}") for i, texts in enumerate((here, there))]
    assert distance(cut[0], cut[1]) == 0.0


def test_the_price_is_that_of_every_state_and_gradient_without_amplification():
    chosen = plan(noise_multiplier=8.0)
    assert chosen.event == Repeated(Gaussian(8.0), 2 * 3)
    assert chosen.step_event == Repeated(Gaussian(8.0), 3)
    marked = chosen.marked()
    # n Gaussians of multiplier σ under replace-one are one of σ/(2√n): (ε, δ) by Balle and Wang 2018, theorem 8.
    mu = 2 * math.sqrt(6) / 8.0
    normal = torch.distributions.Normal(0.0, 1.0)

    def delta(epsilon):
        a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return float(normal.cdf(torch.tensor(a, dtype=torch.float64))) - math.exp(epsilon) * float(
            normal.cdf(torch.tensor(b, dtype=torch.float64))
        )

    assert delta(marked.epsilon) == pytest.approx(1e-5, rel=0.02)
    # Broken twin: the rate of the batches claimed as an amplification.
    from reticent.accounting.bounds.confidentiality import missed_secret_of

    amplified = missed_secret_of(Repeated(SampledGaussian(8.0, 2 / 5), 6), 1e-5)
    assert amplified.epsilon < 0.6 * marked.epsilon


def test_what_the_policy_misses_has_an_infinite_epsilon():
    for rate in (0.1, None):
        headline = plan(miss_rate=rate).guarantee()
        assert math.isinf(headline.epsilon)
        assert "misses is trained on plainly" in headline.covers
        assert headline.assumes == plan(miss_rate=rate).marked().assumes  # conditions alone, no other statement
    perfect = plan(miss_rate=0.0).guarantee()
    assert perfect.epsilon == plan().marked().epsilon < math.inf
    assert perfect.notion is Notion.CONFIDENTIALITY
    assert perfect.neighbours is Neighbours.REPLACE
    assert "the policy misses no secret" in perfect.assumes
    for word in ("clipped", "cannot predict", "initial model", "hyper-parameters", "1/128"):
        assert any(word in line for line in perfect.assumes), word


def test_noise_is_calibrated_for_marked_tokens():
    chosen = plan().calibrated(4.0)
    assert 3.9 < chosen.marked().epsilon <= 4.0
    assert chosen.noise_multiplier > plan(epochs=1).calibrated(4.0).noise_multiplier
    assert SelectivePlan.from_json(chosen.to_json()) == chosen
    assert chosen.ledger_name("a") != plan().ledger_name("a")


def run(folder, *, stop_at=None):
    chosen = plan()
    path = folder / "ledger.db"
    with new_ledger(folder, chosen) if not path.exists() else SqliteLedger.open(path) as ledger:
        who = learner(lstm())
        source = source_of(who.module, ledger, chosen)
        checkpoints, schedule = Checkpoints(folder / "c"), CheckpointSchedule(seconds=1e9)
        train_learner(
            who, source, checkpoints=checkpoints, schedule=schedule, seed=1, observe=lambda p: p.step != stop_at
        )
        return who, round(ledger.spent()[TRAINING_ACCOUNT])


def test_every_step_is_charged_and_a_resumed_run_is_the_whole_one(tmp_path):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole, spent = run(tmp_path / "whole")
    assert spent == plan().steps == 6
    assert run(tmp_path / "parts", stop_at=2)[1] == 2
    parts, spent = run(tmp_path / "parts")
    assert spent == 6
    assert same_weights(whole, parts)


def test_nothing_noisy_exists_before_its_charge(tmp_path):
    chosen = plan()
    with new_ledger(tmp_path, chosen) as ledger:
        source = source_of(lstm(), ledger, chosen)
        steps = []
        source._starts = lambda texts, randomness: steps.append(ledger.spent()[TRAINING_ACCOUNT]) or 1 / 0
        with suppress(ZeroDivisionError):
            source.next()
        assert steps == [1.0]


def test_other_models_other_corpora_and_other_ledgers_are_refused(tmp_path):
    chosen = plan()
    with new_ledger(tmp_path, chosen) as ledger:
        with pytest.raises(ModelError, match="recurrent model alone"):
            source_of(gpt2(), ledger, chosen)
        with pytest.raises(UsageError, match="another corpus"):
            source_of(lstm(), ledger, chosen, runs("abc"))
        with pytest.raises(UsageError, match="another corpus"):
            source_of(lstm(), ledger, plan(sensitive_runs=1), runs(*TEXTS[:2], "uvw abc xyz", *TEXTS[3:]))
        with pytest.raises(LedgerError, match="does not meter"):
            source_of(lstm(), ledger, plan(epochs=3))
    with pytest.raises(ConfigError, match="something sensitive"):
        plan(sensitive_runs=0)
    with pytest.raises(ConfigError, match="noise multiplier is out of range"):
        plan(noise_multiplier=0.0)
    honest = plan().budget()
    assert SEEDED not in honest.guarantee.assumes
    assert honest.measure == MEASURE
    other = SqliteLedger.create(tmp_path / "honest.db", honest, accounts=[TRAINING_ACCOUNT])
    with other, pytest.raises(UsageError, match="seed protects nothing"):
        source_of(lstm(), other, chosen)
