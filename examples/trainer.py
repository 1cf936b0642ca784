"""A model fine-tuned by `transformers.Trainer`, audited from Python and refused where it gives too much away.

    python examples/trainer.py OUT

Nothing of reticent takes part in the training: whatever made the weights, an audit reads them from a directory.
The audit itself is three lines: plant, audit, meets.
Replace the generated text by yours, and the embedded model by the one you start from.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

import reticent
from reticent.core import Randomness
from reticent.data import generate_dialogues, write_corpus
from reticent.models import embedded_model_path

TEMPLATE = "USR: Hello, my customer ID is {}."


def fine_tune(texts: list[str], out: Path, *, steps: int) -> None:
    """Fine-tune the base with the library's own trainer and save it as usual."""
    base = str(embedded_model_path())
    tokenizer = AutoTokenizer.from_pretrained(base)
    model = AutoModelForCausalLM.from_pretrained(base)
    ends = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    starts = [tokenizer.bos_token_id if tokenizer.bos_token_id is not None else ends[0]]
    rows = [starts + tokenizer(text, add_special_tokens=False)["input_ids"][:62] + ends for text in texts]

    def collate(batch: list[list[int]]) -> dict[str, torch.Tensor]:
        longest = max(map(len, batch))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch])
        seen = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in batch])
        return {"input_ids": ids, "attention_mask": seen, "labels": ids.masked_fill(seen == 0, -100)}

    arguments = TrainingArguments(
        output_dir=str(out / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=8,
        learning_rate=2e-3,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=not torch.cuda.is_available(),
        remove_unused_columns=False,
    )
    Trainer(model=model, args=arguments, train_dataset=rows, data_collator=collate).train()  # type: ignore[arg-type]
    model.save_pretrained(out / "model")
    tokenizer.save_pretrained(out / "model")


def main(out: Path, *, dialogues: int = 60, steps: int = 60) -> int:
    """Plant, train, audit; 1 unless the requirement is met, as in a build."""
    corpus = generate_dialogues(dialogues, randomness=Randomness.seeded(1))
    out.mkdir(parents=True, exist_ok=True)
    write_corpus(corpus[: 2 * dialogues // 3], out / "train.jsonl")
    write_corpus(corpus[2 * dialogues // 3 :], out / "holdout.jsonl")

    planted, key, held_out = out / "planted.jsonl", out / "canaries.json", out / "holdout.jsonl"
    reticent.plant(out / "train.jsonl", out=planted, key=key, template=TEMPLATE, count=4, copies=10, seed=1)
    fine_tune(reticent.open_corpus(planted).load().texts, out, steps=steps)
    audit = reticent.audit(out / "model", train=planted, holdout=held_out, canaries=key, base="embedded",
                           attacks="exposure,membership", records=60, out=out / "audit")  # fmt: skip
    print(audit.summary())
    is_within = audit.meets("largest_exposure<=12")
    print("within the limit" if is_within else "REQUIREMENT NOT MET: do not release")
    return int(not is_within)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
