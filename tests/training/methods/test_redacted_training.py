"""Redacted training: two kinds of steps in turn, only one of them charged; what is proved; resuming."""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from bench.known_policies import RandomMiss
from reticent.accounting.bounds.confidentiality import missed_secret_of
from reticent.core.corpus import Corpus, Record
from reticent.core.errors import ConfigError, ModelError
from reticent.core.guarantee import Guarantee, Neighbours, Notion, Unit
from reticent.core.ledger import Budget
from reticent.core.randomness import Randomness
from reticent.data.policies.combined import Dictionary
from reticent.data.policies.shapes.patterns import PatternPolicy
from reticent.data.redaction.masking import MASK
from reticent.ledger.durable import SqliteLedger
from reticent.runs.proofs.certificates import is_about
from reticent.training import batches
from reticent.training.batches import TokenTexts, Units
from reticent.training.checkpoint import Checkpoints
from reticent.training.gradients.engine import PerRecordGradients
from reticent.training.gradients.record_loss import TokenBatch
from reticent.training.gradients.source import TRAINING_ACCOUNT, PlainGradients, PrivateGradients
from reticent.training.loop import CheckpointSchedule, train_learner
from reticent.training.methods.mask_token import has_mask_token, with_mask_token
from reticent.training.methods.public_first import PublicFirstGradients, public_rate_of
from reticent.training.methods.redacted import encode_private
from reticent.training.methods.redaction import MissRates, RedactedCorpus, redact_and_route
from reticent.training.plans.plan import MEASURE, SEEDED, PlainPlan
from reticent.training.plans.redacted import PolicyFacts, RedactedPlan, RedactedSettings, plan_redacted
from reticent.training.update_rules import Phase
from tests.training.small_models import START, gpt2
from tests.training.small_runs import COMPUTATION, learner, private_plan, same_weights, token_texts

MISSES = MissRates(policy=0.1, both=0.0, origin="given")
LOCAL = PolicyFacts(is_local=True, has_conservative=True)
PUBLIC, PRIVATE = 9, 10


def plan(
    *, epochs: float = 2.0, misses: MissRates = MISSES, policies: PolicyFacts = LOCAL, **private
) -> RedactedPlan:
    """Nine public records in batches of 4 and ten private ones in samples of 4."""
    public = PlainPlan(units=PUBLIC, batch=4, epochs=epochs, seed=3)
    steps = math.ceil(epochs * PRIVATE / 4)
    half = private_plan(PRIVATE, 4, steps=steps, neighbours=Neighbours.REPLACE, **private)
    return RedactedPlan(public=public, private=half, misses=misses, policies=policies)


def budget(chosen: RedactedPlan) -> Budget:
    """The plan's budget with a made-up ε: the real one takes seconds and is tested below."""
    guarantee = Guarantee(
        mechanism="a test",
        notion=Notion.CONFIDENTIALITY,
        unit=Unit.SECRET,
        neighbours=Neighbours.MASK,
        epsilon=1.0,
        delta=1e-6,
        covers="a test",
        assumes=(SEEDED,),
    )
    return Budget(MEASURE, float(chosen.private.steps), guarantee)


def texts_of(which: str) -> TokenTexts:
    """Public texts hold tokens below 20, private ones tokens from 20 on: a batch shows where it is from."""
    public = which == "public"
    found = token_texts(PUBLIC if public else PRIVATE, seed=1 if public else 2)
    moved = tuple((text % 18 + (1 if public else 20)).astype(np.int32) for text in found.texts)
    return TokenTexts(moved, found.owners, START, 0)


class Spy:
    """Notes which tokens every batch of every step held."""

    def __init__(self, monkeypatch) -> None:
        self.batches: list[set[int]] = []
        original = batches._batch

        def made(groups, chosen, *more, **named):
            self.batches.append({int(token) for index in chosen for text in groups[index] for token in text})
            return original(groups, chosen, *more, **named)

        monkeypatch.setattr(batches, "_batch", made)


def source_of(module, chosen: RedactedPlan, ledger, **more) -> PublicFirstGradients:
    public = PlainGradients(module, Units(texts_of("public")), chosen.public, computation=COMPUTATION)
    private = PrivateGradients(
        module,
        Units(texts_of("private")),
        chosen.private,
        ledger=ledger,
        randomness=Randomness.seeded(5),
        computation=COMPUTATION,
    )
    return PublicFirstGradients(public, private, public_per_step=chosen.public_per_step, **more)


class Killed(Exception):
    """Stands for kill -9."""


def run(folder, *, stop_at=None, kill_at=None, seen=None):
    """Train in the folder, from where it was; the learner, and public and private steps in the end."""
    chosen = plan()
    path = folder / "ledger.db"
    create = not path.exists()
    with (
        SqliteLedger.create(path, budget(chosen), accounts=[TRAINING_ACCOUNT])
        if create
        else SqliteLedger.open(path) as ledger
    ):
        who = learner(gpt2())
        source = source_of(who.module, chosen, ledger)

        def observe(progress):
            if seen is not None:
                seen.append(source.private_position)
            if progress.step == kill_at:
                raise Killed
            return progress.step != stop_at

        checkpoints, schedule = Checkpoints(folder / "c"), CheckpointSchedule(seconds=1e9)
        with suppress(Killed):
            train_learner(who, source, checkpoints=checkpoints, schedule=schedule, seed=1, observe=observe)
        return who, source.position - source.private_position, source.private_position


def test_public_steps_come_first_and_only_private_ones_are_charged(tmp_path):
    seen: list[int] = []
    _, public, private = run(tmp_path, seen=seen)
    assert (public, private) == (6, 5)
    assert seen == [0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5]
    assert plan().steps == len(seen)


class MixedBatches(PlainGradients):
    """Broken twin of detail 6: public and private records shuffled into one stream of batches."""


def test_detail_6_a_batch_is_wholly_public_or_wholly_private(tmp_path, monkeypatch):
    spy = Spy(monkeypatch)
    run(tmp_path)

    def is_mixed(tokens: set[int]) -> bool:
        return min(tokens, default=0) < 20 <= max(tokens, default=0)

    assert any(max(tokens, default=0) >= 20 for tokens in spy.batches)
    assert not any(map(is_mixed, spy.batches))
    spy.batches.clear()
    together = texts_of("public").texts + texts_of("private").texts
    units = Units(TokenTexts(together, tuple(map(str, range(len(together)))), START, 0))
    whole = PlainPlan(units=len(units), batch=6, epochs=1, seed=3)
    MixedBatches(gpt2(), units, whole, computation=COMPUTATION).next()
    assert any(map(is_mixed, spy.batches))


def test_a_public_step_is_an_ordinary_one_and_a_private_one_is_noisy(tmp_path):
    chosen = plan()
    module = gpt2()
    with SqliteLedger.create(tmp_path / "l.db", budget(chosen), accounts=[TRAINING_ACCOUNT]) as ledger:
        with source_of(module, chosen, ledger) as source:
            public = [source.next() for _ in range(6)]
            private = source.next()
            assert ledger.spent()[TRAINING_ACCOUNT] == 1.0
        assert all(parameter.requires_grad for parameter in module.parameters())
    alone = PlainGradients(module, Units(texts_of("public")), chosen.public, computation=COMPUTATION)
    for found in public:
        expected = alone.next()
        assert all(torch.equal(found.values[name], expected.values[name]) for name in expected.values)
    assert chosen.public_per_step == 4  # of nine, as 4 of ten private ones are expected
    deviation = chosen.private.noise_deviation / (chosen.private.normaliser + 4)
    noise = private.values["transformer.wpe.weight"][16:]  # positions that no text reaches
    assert float(noise.std()) == pytest.approx(deviation, rel=0.2)
    assert float(public[0].values["transformer.wpe.weight"][16:].abs().max()) == 0.0


def private_step(folder, **more):
    """The first private step of a source in the folder, and the source's plan."""
    chosen = plan(**more)
    folder.mkdir()
    with SqliteLedger.create(folder / "l.db", budget(chosen), accounts=[TRAINING_ACCOUNT]) as ledger:
        source = source_of(gpt2(), chosen, ledger)
        source.restore(
            {"public": {"position": chosen.public.steps}, "private": {"receipt": None}, "has_noise": False}
        )
        with source:
            return source.next(), chosen


def test_what_stands_beside_private_records_is_a_function_of_public_text_and_the_seed(tmp_path):
    """So adding it is post-processing: the step less the noisy private mean is the same whatever the noise is."""
    rest = []
    for name, noise in (("a", 1.0), ("b", 2.0)):
        found, chosen = private_step(tmp_path / name, noise=noise)
        half = chosen.private
        with SqliteLedger.create(tmp_path / f"{name}.db", budget(chosen), accounts=[TRAINING_ACCOUNT]) as ledger:
            alone = PrivateGradients(
                gpt2(),
                Units(texts_of("private")),
                half,
                ledger=ledger,
                randomness=Randomness.seeded(5),
                computation=COMPUTATION,
            )
            with alone:
                noisy = alone.next().values
        total = half.normaliser + chosen.public_per_step
        rest.append({key: total * value - half.normaliser * noisy[key] for key, value in found.values.items()})
    first, second = rest
    length = math.sqrt(sum(float((value**2).sum()) for value in first.values()))
    assert 0.1 < length <= chosen.public_per_step * half.clip_norm  # clipped like private records, and something
    assert all(torch.allclose(first[key], second[key], atol=1e-5) for key in first)


def test_the_optimiser_starts_anew_with_noise_and_only_then(tmp_path):
    chosen = plan()
    with SqliteLedger.create(tmp_path / "l.db", budget(chosen), accounts=[TRAINING_ACCOUNT]) as ledger:
        with source_of(gpt2(), chosen, ledger, public_rate=0.25) as source:
            phases = [source.next().phase for _ in range(8)]
            state = source.state()
        assert [phase.is_new for phase in phases] == [False] * 6 + [True, False]
        assert [(phase.step, phase.steps) for phase in phases[5:]] == [(5, 6), (0, 5), (1, 5)]
        assert [phase.learning_rate for phase in phases[5:7]] == [0.25, None]
        # A checkpoint before the first private step, which was charged and lost: the next one is the first seen.
        again = source_of(gpt2(), chosen, ledger)
        again.restore(state | {"has_noise": False})
        with again:
            assert (again.private_position, again.next().phase.is_new) == (2, True)


def test_a_new_phase_forgets_the_optimisers_state_and_has_a_rate_of_its_own():
    who, twin = learner(gpt2(), learning_rate=1e-2, tail=1.0), learner(gpt2(), learning_rate=1e-2, tail=1.0)
    gradient = {name: torch.ones_like(value) for name, value in who.parameters.items()}
    who.apply({name: 100 * value for name, value in gradient.items()}, Phase(step=0, steps=2, learning_rate=1e-9))
    who.apply(gradient, Phase(step=0, steps=2, is_new=True))
    twin.apply(gradient, Phase(step=0, steps=2))
    for each in (who, twin):
        each.settle()
    mine, other = who.weights(), twin.weights()
    assert all(torch.allclose(mine[name], other[name], atol=1e-6) for name in mine)
    # The twin that keeps its moments has moved a tenth as far.
    late = learner(gpt2(), learning_rate=1e-2)
    late.apply({name: 100 * value for name, value in gradient.items()}, Phase(step=0, steps=2, learning_rate=1e-9))
    late.apply(gradient, Phase(step=1, steps=2))
    assert not any(torch.allclose(late.weights()[name], other[name], atol=1e-4) for name in other)


def test_a_resumed_run_repeats_public_steps_and_never_a_charged_one(tmp_path):
    for name in ("whole", "parts", "lost"):
        (tmp_path / name).mkdir()
    whole, _, _ = run(tmp_path / "whole")
    for stop in (2, 5, 8):
        run(tmp_path / "parts", stop_at=stop)
    parts, public, private = run(tmp_path / "parts")
    assert (public, private) == (6, 5)
    assert same_weights(whole, parts)
    lost = tmp_path / "lost"
    run(lost, stop_at=4)  # public steps, saved
    run(lost, kill_at=8)  # two more public steps and two private ones, lost
    _, public, private = run(lost, stop_at=7)
    assert (public, private) == (5, 2)  # the charges stay; the first lost public step is taken again
    _, public, private = run(lost)
    assert (public, private) == (6, 5)


def test_what_is_nothing_but_a_mask_keeps_its_place_and_adds_nothing():
    class Letters:
        start_token, end_token, context_length = START, 1, None

        def encode(self, texts):
            return [[3 + ord(letter) % 30 for letter in text] for text in texts]

    records = [Record("a", "hello"), Record("b", MASK), Record("c", "you <MASK>")]
    texts = encode_private(Letters(), RedactedCorpus(Corpus([]), Corpus(records), ((), (), ("",)), counts=None))
    assert [len(text) for text in texts.texts] == [6, 0, 11]
    with PerRecordGradients(gpt2(), 1.0) as engine:
        units = Units(texts)
        groups = units.gather([0, 1], Randomness.seeded(0))
        norms = engine.accumulate(TokenBatch.of_groups(groups, START))
        both = engine.take().gradients
        engine.accumulate(TokenBatch.of_groups(groups[:1], START))
        one = engine.take().gradients
    assert float(norms[1]) == 0.0
    assert all(torch.allclose(both[name], one[name], atol=1e-7) for name in one)


def routed(public: int, private: int) -> RedactedCorpus:
    texts = [f"it rains {i}" for i in range(public)] + [f"code 7{i}" for i in range(private)]
    codes = Dictionary({f"7{i}": "CODE" for i in range(private)})
    corpus = Corpus(Record(str(i), text) for i, text in enumerate(texts))
    return redact_and_route(corpus, RandomMiss(codes, 1.0, key=b"k"), conservative=codes)


def settings(**more) -> RedactedSettings:
    return RedactedSettings(**({"epochs": 2.0, "batch": 8, "delta": 1e-5, "seed": 0, "target_epsilon": 4.0} | more))


def test_noise_is_calibrated_for_replacing_a_record_and_all_four_statements_follow():
    chosen = plan_redacted(settings(), routed(20, 40), misses=MISSES, policies=LOCAL)
    proved = chosen.confidentiality()
    assert 3.9 < proved.missed.epsilon <= 4.0
    assert proved.missed.neighbours is Neighbours.MASK
    assert proved.worst_case.epsilon == proved.missed.epsilon == chosen.guarantee().epsilon
    assert proved.bayesian.epsilon == pytest.approx(math.log1p(0.1 * math.expm1(proved.missed.epsilon)))
    assert proved.missed.epsilon < proved.group.epsilon <= 10 * proved.missed.epsilon * (1 + 1e-9)
    assert "wherever it stands" in proved.missed.covers
    assert {"given"} <= set(proved.worst_case.assumes)
    # Broken twin: the same target under add-remove needs less noise, and would promise a masked secret too much.
    half = chosen.private
    lesser = type(half).for_target(
        epsilon=4.0, delta=1e-5, units=half.sampler.units, batch=half.sampler.batch, epochs=2.0
    )
    assert lesser.noise_multiplier < half.noise_multiplier
    assert missed_secret_of(lesser.event, 1e-5).epsilon > 5.0
    with pytest.raises(ConfigError, match="replaces part of a record"):
        RedactedPlan(public=None, private=lesser, misses=MISSES, policies=LOCAL)


def test_the_headline_is_infinite_as_soon_as_both_policies_may_miss_a_secret():
    leaky = plan(misses=MissRates(policy=0.1, both=0.001, origin="measured"))
    proved = leaky.confidentiality()
    assert math.isinf(leaky.guarantee().epsilon)
    assert "trained on plainly" in leaky.guarantee().covers
    assert math.isfinite(proved.missed.epsilon)
    assert proved.bayesian.delta == pytest.approx(0.001 + 0.1 * 1e-6)


def test_policies_that_read_the_context_are_confessed():
    listed = Dictionary({"7": "CODE", "ID": "WORD"})
    facts = PolicyFacts.of(RandomMiss(listed, 0.0, key=b"k", unit="mention"), listed)
    assert not facts.is_local
    assert any("reads what stands around" in line for line in plan(policies=facts).guarantee().assumes)
    assert not any("reads what stands around" in line for line in plan().guarantee().assumes)
    # Local each, and not together: masking "ID" hides the code from the patterns.
    assert PatternPolicy().is_local
    assert not PolicyFacts.of(PatternPolicy(), listed).is_local
    assert PolicyFacts.of(PatternPolicy(), None).is_local
    assert PolicyFacts.of(listed, listed).is_local


def test_what_it_means_to_catch_a_secret_stands_in_every_statement():
    proved = plan().confidentiality()
    for each in (proved.missed, proved.worst_case, proved.group, proved.bayesian):
        assert any("in part, or with more around it" in line for line in each.assumes)
    half = plan().private
    alone = PolicyFacts(is_local=True, has_conservative=False)
    without = RedactedPlan(public=None, private=half, misses=MISSES, policies=alone).confidentiality()
    assert not any("in part, or with more around it" in line for line in without.missed.assumes)


def test_every_statement_lists_what_its_noisy_half_rests_on():
    proved = plan().confidentiality()
    for each in (proved.missed, proved.worst_case, proved.group, proved.bayesian):
        said = " ".join(each.assumes)
        for word in ("Poisson sampling", "clipped", "cannot predict", "initial model", "hyper-parameters", "1/128"):
            assert word in said, word


def test_without_a_conservative_policy_no_statement_speaks_of_one():
    alone = PolicyFacts(is_local=True, has_conservative=False)
    without = RedactedPlan(public=None, private=plan().private, misses=MISSES, policies=alone).confidentiality()
    for each in (without.missed, without.worst_case, without.group, without.bayesian):
        said = [line for line in (each.covers, *each.assumes) if "conservative" in line or "both policies" in line]
        assert said in ([], ["every record is trained with noise, as there is no conservative policy"])
    assert without.worst_case.epsilon == without.missed.epsilon
    # The twin: with a conservative policy the headline rests on it, and says so.
    assert any("catches every secret" in line for line in plan().confidentiality().worst_case.assumes)


def test_with_a_conservative_policy_every_statement_is_about_all_copies_of_a_secret():
    told = plan().confidentiality()
    alone = PolicyFacts(is_local=True, has_conservative=False)
    without = RedactedPlan(public=None, private=plan().private, misses=MISSES, policies=alone).confidentiality()
    for each in (told.missed, told.worst_case, told.group, told.bayesian):
        assert each.basis.keeps_one_copy
        assert "one copy" in each.assumes[0]
        assert not any("in several it is a group" in line for line in each.assumes)
    for each in (without.missed, without.worst_case, without.group, without.bayesian):
        assert not each.basis.keeps_one_copy
        assert "in several it is a group" in each.assumes[0]
    # A statement that claims it beside a headline that does not is not about the same training.
    forged = replace(without.missed, basis=replace(without.missed.basis, keeps_one_copy=True))
    assert is_about("missed", without.missed, without.worst_case)
    assert not is_about("missed", forged, without.worst_case)


def test_the_group_that_is_asked_for_is_the_one_that_is_stated():
    made = plan_redacted(settings(), routed(20, 30), misses=MISSES, policies=LOCAL, group=3)
    assert RedactedPlan.from_json(made.to_json()).group == 3
    assert made.confidentiality().group.basis.group == 3
    assert made.confidentiality().group.covers.startswith("3 secrets")


def test_without_a_conservative_policy_nothing_may_be_public():
    alone = PolicyFacts(is_local=True, has_conservative=False)
    with pytest.raises(ConfigError, match="without a conservative policy"):
        plan(policies=alone)
    half = plan().private
    chosen = RedactedPlan(public=None, private=half, misses=MISSES, policies=alone)
    assert chosen.steps == half.steps
    assert chosen.public_per_step == 0
    assert "one secret in one record" in chosen.confidentiality().missed.covers


def test_a_corpus_in_which_nothing_is_private_is_refused_and_a_seed_is_confessed():
    with pytest.raises(ConfigError, match="no record is private"):
        plan_redacted(settings(), routed(20, 0), misses=MISSES, policies=LOCAL)
    assert SEEDED in plan().budget(is_seeded=True).guarantee.assumes
    assert SEEDED not in plan().guarantee().assumes
    with pytest.raises(ConfigError, match="either a target"):
        settings(noise_multiplier=1.0)


def test_a_plan_survives_its_file_and_names_its_ledger():
    chosen = plan()
    assert RedactedPlan.from_json(chosen.to_json()) == chosen
    assert chosen.ledger_name("a") != chosen.ledger_name("b")
    assert chosen.ledger_name("a") != plan(noise=2.0).ledger_name("a")
    with pytest.raises(ConfigError, match="not a plan of redacted training"):
        RedactedPlan.from_json(chosen.to_json() | {"kind": "selective"})


def test_a_model_without_the_mask_gets_it_as_one_token_and_the_same_every_time(shared):
    from reticent.models.huggingface.loading import load_model

    def load():
        return load_model(shared / "models" / "stories260k", device="cpu", dtype="float32")

    before = load()
    assert not has_mask_token(before)
    changed = with_mask_token(before)
    assert has_mask_token(changed)
    assert changed.encode([f"a {MASK}."])[0].count(changed.encode([MASK])[0][0]) == 1
    assert with_mask_token(load()).fingerprint == changed.fingerprint
    assert with_mask_token(changed) is changed
    frozen = load()
    frozen.module.get_input_embeddings().requires_grad_(False)
    with pytest.raises(ModelError, match="frozen embeddings"):
        with_mask_token(frozen)


def test_the_rate_of_public_steps_follows_the_size_of_the_model():
    from torch import nn

    small, large = nn.Linear(1000, 100), nn.Linear(10_000, 1001)
    large.requires_grad_(False)  # adapters of a large model are few weights, and move it all the same
    assert (public_rate_of(small), public_rate_of(large)) == (1e-3, 3e-4)
