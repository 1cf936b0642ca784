"""stories15m fine-tuned on newsgroup sentences that stand there 1, 4 and 12 times: the risk map of that world."""

import json
import random
import re
from functools import cache
from pathlib import Path

from reticent.auditing.attacks.lazy.risk_map import HELD_OUT, TRAINING, RiskMap, draw_risk_map
from reticent.core.corpus import Record
from reticent.models.huggingface.loading import load_model

ONCE, FOUR, TWELVE = 200, 10, 10  # distinct texts that stand 1, 4 and 12 times
WARM_UP = 10  # steps, of 46


def newsgroup_sentences(shared: Path, *, seed: int, count: int) -> list[str]:
    """Distinct sentences of 8 to 30 words, one of a message at most, in random order."""
    chosen = {}
    with (shared / "data" / "newsgroups.jsonl").open(encoding="utf8") as lines:
        for line in lines:
            text = re.sub(r"\s+", " ", json.loads(line)["text"])
            for sentence in re.findall(r"[A-Z][a-z][^.!?>|@]{20,200}[.!?]", text):
                if 8 <= len(sentence.split()) <= 30:
                    chosen.setdefault(sentence, None)
                    break
    sentences = sorted(chosen)
    random.Random(seed).shuffle(sentences)
    assert len(sentences) >= count
    return sentences[:count]


@cache
def copies_map(shared: Path, seed: int) -> RiskMap:
    """The map after two epochs; ids of training records say how often their text stands there."""
    import torch

    sentences = newsgroup_sentences(shared, seed=seed, count=2 * ONCE + FOUR + TWELVE)
    once, four, twelve = sentences[:ONCE], sentences[ONCE:][:FOUR], sentences[ONCE + FOUR :][:TWELVE]
    strangers = sentences[ONCE + FOUR + TWELVE :]
    copies = [(text, 1) for text in once] + [(text, 4) for text in four * 4] + [(text, 12) for text in twelve * 12]
    training = [Record(f"x{times}-{place}", text) for place, (text, times) in enumerate(copies)]
    held_out = [Record(f"held-{place}", text) for place, text in enumerate(strangers)]
    folder = shared / "models" / "stories15m"
    target, base = load_model(folder, device="cpu"), load_model(folder, device="cpu")
    torch.manual_seed(seed)
    order = random.Random(seed + 1)
    parameters = list(target.module.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=5e-4)
    # Without warm-up and clipping one seed of three lost what the model knew in the first steps.
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1 / WARM_UP, total_iters=WARM_UP - 1)
    for _ in range(2):
        order.shuffle(training)
        for start in range(0, len(training), 16):
            texts = target.encode([record.text for record in training[start : start + 16]])
            rows = [[target.start_token, *tokens] for tokens in texts]
            longest = max(map(len, rows))
            inputs = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
            labels = torch.tensor([row + [-100] * (longest - len(row)) for row in rows])
            target.module(input_ids=inputs, labels=labels).loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            warm_up.step()
            optimizer.zero_grad()
    return draw_risk_map(target, base, groups={TRAINING: training, HELD_OUT: held_out})
