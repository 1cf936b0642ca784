"""The Ray engine on a real cluster of two nodes: equal results, and one node killed half way."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from reticent.core.errors import UsageError
from reticent.engine.work import EngineName, EngineSettings, Piece, gather, open_engine
from reticent.models.huggingface.loading import load_model
from reticent.runs.audit.shards import score_shard
from reticent.runs.ensemble.loading import load_ensemble
from reticent.runs.ensemble.manifest import MEMBER, Manifest
from reticent.runs.settings.file import validate
from reticent.runs.training import run as training_run
from reticent.runs.training.settings import TrainSettings
from tests.engine import work as work
from tests.engine.ray_cluster import Cluster, living_nodes, wait_for_nodes
from tests.models.tiny import tiny_gpt2, tiny_tokenizer

pytestmark = pytest.mark.slow
PARTS = 16


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("ray")  # not before: to import it takes a while, and these tests are rarely asked for
    with tempfile.TemporaryDirectory(prefix="rr", dir="/tmp") as folder:  # sockets have short names
        nodes = Cluster(Path(folder))
        try:
            yield nodes
        finally:
            nodes.close()


@pytest.fixture(scope="module")
def joined(cluster):
    """The cluster's engine, with both nodes there."""
    with open_engine(EngineSettings(name=EngineName.RAY, workers=None, address=cluster.address)) as engine:
        assert engine.workers >= 1
        wait_for_nodes(2)
        yield engine


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, and a corpus of 160 owners."""
    folder = tmp_path_factory.mktemp("tiny")
    tiny_gpt2().save_pretrained(folder / "gpt2")
    tiny_tokenizer().save_pretrained(folder / "gpt2")
    rows = [{"id": f"r{i}", "owner": f"o{i % 160}", "text": f"order {i * 37} is late."} for i in range(640)]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_results_and_progress_equal_those_of_local_processes(joined):
    told = []
    results = gather(work.pieces(7), work.digest, engine=joined, told=told.append)
    assert results == [work.digest(number, lambda _: None) for number in range(7)]
    assert sum(told) == sum(number % 5 for number in range(7))
    sums = gather(work.pieces(2), work.float_sum, engine=joined)
    assert [threads for _, threads in sums] == [1, 1]
    with open_engine(EngineSettings(workers=1)) as local:
        assert gather(work.pieces(2), work.float_sum, engine=local) == sums


def test_errors_keep_their_words_and_foreign_messages_stay(joined, tmp_path):
    with pytest.raises(UsageError, match="no records"):
        gather([Piece("one", str(tmp_path / "tries"))], work.complain, engine=joined)
    with pytest.raises(UsageError) as caught:
        gather([Piece("one", "4711")], work.raise_with_text, engine=joined)
    assert "4711" not in str(caught.value)


def test_audit_shards_equal_the_scores_of_this_process(joined, tiny):
    import torch

    torch.set_num_threads(1)
    model = load_model(tiny / "gpt2")
    rows = [model.encode([f"order {number * 91} is late."])[0] for number in range(96)]
    identity = (str(tiny / "gpt2"), model.fingerprint)
    pieces = [Piece(f"shard-{start}", (identity, rows[start : start + 32])) for start in range(0, 96, 32)]
    spread = [row for shard in gather(pieces, score_shard, engine=joined) for row in shard]
    here = [row for start in range(0, 96, 32) for row in model.token_log_probs(rows[start : start + 32])]
    assert all(np.array_equal(one, other) for one, other in zip(spread, here, strict=True))


def test_a_node_killed_half_way_loses_no_member_and_changes_none(joined, cluster, tiny, tmp_path):
    config = validate(
        TrainSettings,
        {
            "data": {"file": str(tiny / "train.jsonl")},
            "model": {"source": str(tiny / "gpt2"), "lora_rank": 2},
            "training": {"method": "submix", "parts": PARTS, "batch": 8, "epochs": 10},
            "seed": 3,
        },
        where="test",
    )
    training_run.train(config.into(tmp_path / "local").model_copy(update={"workers": 1}), observe=lambda *_: True)
    spread = tmp_path / "spread"
    state = {"killed_after": None}

    def observe(progress, _):
        landed = len(list((spread / "members").glob(f"*/{MEMBER}")))
        if landed >= PARTS // 2 - 1 and state["killed_after"] is None:
            assert living_nodes() == 2
            state["killed_after"] = landed
            cluster.second.kill()
        return True

    ray = {"engine": EngineName.RAY, "ray_address": cluster.address}
    result = training_run.train(config.into(spread).model_copy(update=ray), observe=observe)
    assert result.is_finished
    assert state["killed_after"] < PARTS - 1
    wait_for_nodes(1)
    one, other = Manifest.read(spread), Manifest.read(tmp_path / "local")
    assert [member.name for member in one.members] == [f"part-{part:02d}" for part in range(PARTS)]
    assert one.members == other.members  # digests of weights among them
    assert load_ensemble(spread).fingerprint == load_ensemble(tmp_path / "local").fingerprint
