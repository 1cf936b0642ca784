"""An audit of a served model that is cut off goes on where it was, and ends with the local model's scores."""

import stat

import numpy as np
import pytest

from reticent.core.errors import ModelError
from reticent.core.model import Access
from reticent.models.remote.journal import JournalledModel
from tests.models.remote.test_remote import ORACLE, remote, serving

TEXTS = [f"hello {word} {other}" for word in ("world", "there", "low") for other in ("held", "the", "wor", "hell")]


def test_a_scoring_that_was_cut_off_asks_the_server_for_the_rest_alone(tmp_path):
    sequences = ORACLE.encode(TEXTS)
    truth = ORACLE.token_log_probs(sequences)
    with serving() as (url, server):
        model = JournalledModel(remote(url), tmp_path / "scores.db", block=4)
        assert model.access is Access.LOGPROBS
        assert model.encode(TEXTS) == sequences
        asked = server.count()
        # The first block is answered; in the second one the server refuses for good.
        server.faults = [None] * 4 + [(403, ())] * 8
        with pytest.raises(ModelError):
            model.token_log_probs(sequences)
        assert (model.asked, model.known) == (4, 0)
        model.close()
        server.faults = []
        before = server.count()
        assert before > asked + 4
        again = JournalledModel(remote(url), tmp_path / "scores.db", block=4)
        again.access  # noqa: B018 - probes the server, so that only scores are counted from here
        probed = server.count()
        found = again.token_log_probs([*sequences, sequences[0]])
        assert server.count() - probed == len(TEXTS) - 4
        assert (again.asked, again.known) == (len(TEXTS) - 4, 5)
        assert again.token_log_probs(sequences)[3].tolist() == found[3].tolist()
        assert server.count() - probed == len(TEXTS) - 4
    for mine, true in zip(found, [*truth, truth[0]], strict=True):
        np.testing.assert_allclose(mine, true, rtol=0, atol=1e-12)


def test_another_model_gets_none_of_the_scores_and_nobody_else_reads_the_file(tmp_path):
    class Other:
        name, fingerprint = "other", "another"

        def token_log_probs(self, sequences):
            return [np.full(len(sequence), -7.0) for sequence in sequences]

    path = tmp_path / "scores.db"
    sequences = ORACLE.encode(["hello world"])
    first = JournalledModel(ORACLE, path).token_log_probs(sequences)
    other = JournalledModel(Other(), path)
    assert other.token_log_probs(sequences)[0].tolist() == [-7.0] * len(sequences[0])
    assert JournalledModel(ORACLE, path).token_log_probs(sequences)[0].tolist() == first[0].tolist()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"hello" not in path.read_bytes()
    with pytest.raises(ModelError, match="cannot store scores"):
        JournalledModel(ORACLE, tmp_path / "missing" / "scores.db")
