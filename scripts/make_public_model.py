"""Make the embedded public model: tokenizer and weights, from generated public text alone.

    python scripts/make_public_model.py [--out DIR] [--tokens N] [--seed N]

Text: the public halves of the generators (dialogues, cases, codes), plain templated English, and a few of the
same texts with their values replaced by <MASK>. No outside data, no private half. Tokenizer: byte-level BPE in
which each digit is a token of its own. Model: GPT-2 layout with tied embeddings, float32. One thread and fixed
seeds, so that the same machine gives the same files again. Files are written beside their places and then
renamed.
"""

import argparse
import math
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from reticent.core.corpus import Corpus, Record
from reticent.core.randomness import Randomness
from reticent.data.generators.cases import generate_cases, labelled_cases
from reticent.data.generators.codes import generate_codes
from reticent.data.generators.dialogues import generate_dialogues, labelled_dialogues

OUT = Path(__file__).resolve().parent.parent / "src" / "reticent" / "models" / "embedded"
START, END, PAD, MASK = "<s>", "</s>", "<pad>", "<MASK>"
VOCABULARY, CONTEXT, WIDTH, LAYERS, HEADS = 1024, 512, 128, 4, 4
BATCH_TOKENS, PEAK_RATE, WARM_UP = 2048, 3e-3, 80
IGNORED = -100

PLACES = "garden kitchen station library market harbour school museum office valley village forest"
BEINGS = "woman man child dog neighbour teacher sailor baker doctor bird friend visitor painter farmer"
KINDS = "old young small tall quiet happy tired clever brave kind strange famous"
DEEDS = (
    "walked to the {place}",
    "waited near the {place}",
    "opened the window",
    "read a letter",
    "told a long story",
    "looked for the {kind} {other}",
    "talked with a {other} about the weather",
    "bought some bread",
    "went home early",
    "found a {kind} {other} in the {place}",
    "wrote a note and left the {place}",
    "asked the {other} for help",
)
OPENERS = (
    "In the morning",
    "Later that day",
    "One evening",
    "After the rain",
    "When winter came",
    "At last",
    "Every Sunday",
    "A week later",
    "Before noon",
    "On the way to the {place}",
)
REMARKS = (
    "It was a {kind} place.",
    "Nobody knew why.",
    "The {other} was pleased.",
    "The weather was cold but clear.",
    "There was nothing more to say.",
    '"That is enough," said the {other}.',
    "They all laughed.",
    "It took a long time.",
)


def plain_english(count: int, randomness: Randomness) -> list[str]:
    """Short tales without names or numbers, so that the model has read more than desks and courts."""
    draw = randomness.generator()

    def fill(template: str) -> str:
        words = {
            "place": draw.choice(PLACES.split()),
            "kind": draw.choice(KINDS.split()),
            "other": draw.choice(BEINGS.split()),
        }
        return template.format(**words)

    def sentence() -> str:
        if draw.random() < 0.3:
            return fill(str(draw.choice(REMARKS)))
        subject = f"the {draw.choice(KINDS.split())} {draw.choice(BEINGS.split())}"
        deeds = [fill(str(deed)) for deed in draw.choice(DEEDS, size=2, replace=False)]
        return f"{fill(str(draw.choice(OPENERS)))} {subject} {' and '.join(deeds[: draw.integers(1, 3)])}."

    return [" ".join(sentence() for _ in range(draw.integers(2, 8))) for _ in range(count)]


def masked(record: Record) -> str:
    """The text with every labelled value replaced by the mask."""
    text = record.text
    for span in sorted(record.spans, reverse=True):
        text = text[: span.start] + MASK + text[span.end :]
    return text


def public_texts(count: int, randomness: Randomness) -> list[str]:
    """`count` public texts of all sorts, in random order."""
    parts: list[Corpus] = [
        generate_dialogues(count * 45 // 100, randomness=randomness.child("dialogues"), private=False),
        generate_cases(count * 22 // 100, randomness=randomness.child("cases"), private=False),
        generate_codes(count * 10 // 100, randomness=randomness.child("codes"), private=False, repeated=False),
    ]
    texts = [text for part in parts for text in part.texts]
    hidden = [
        *labelled_dialogues(count * 6 // 100, randomness=randomness.child("masked dialogues"), private=False),
        *labelled_cases(count * 3 // 100, randomness=randomness.child("masked cases"), private=False),
    ]
    texts += [masked(record) for record in hidden]
    texts += plain_english(count - len(texts), randomness.child("english"))
    return [texts[at] for at in randomness.permutation(len(texts)).tolist()]


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE; every digit stands alone, since exposure ranks codes digit by digit."""
    tokenizer = Tokenizer(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 1,
        special_tokens=[START, END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text.replace(MASK, "") for text in texts), trainer)
    # Not "special": decoding keeps it, since a mask is part of a redacted text.
    tokenizer.add_tokens([AddedToken(MASK, special=False, normalized=False)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=START,
        eos_token=END,
        pad_token=PAD,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def sequences_of(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> list[list[int]]:
    """Start + tokens + end of each text, cut to the context."""
    encoded = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [[tokenizer.bos_token_id, *ids, tokenizer.eos_token_id][:CONTEXT] for ids in encoded]


def batches(sequences: list[list[int]], randomness: Randomness) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches of similar length under the token budget, in random order: ids and labels [B, T]."""
    noise = randomness.uniform(len(sequences)) * 12  # neighbours in length, but not the same ones each time
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]) + noise[i])
    groups: list[list[int]] = [[]]
    for index in order:
        longest = max([len(sequences[i]) for i in groups[-1]] + [len(sequences[index])])
        if groups[-1] and longest * (len(groups[-1]) + 1) > BATCH_TOKENS:
            groups.append([])
        groups[-1].append(index)
    for at in randomness.permutation(len(groups)).tolist():
        rows = [torch.tensor(sequences[i]) for i in groups[at]]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=1)
        labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=IGNORED)
        yield ids, labels


def loss_sum(model: GPT2LMHeadModel, ids: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, int, int]:
    """Summed loss in nats, number of scored tokens, and how many of them the model ranks first.

    Right padding needs no attention mask: a causal model never looks to the right, and padding is not scored.
    """
    logits = model(input_ids=ids).logits[:, :-1]  # [B, T-1, V]
    targets = labels[:, 1:]
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="sum"
    )
    hits = (logits.argmax(-1) == targets).sum()
    return loss, int((targets != IGNORED).sum()), int(hits)


@torch.no_grad()
def evaluate(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> tuple[float, float]:
    """Perplexity per token and top-1 accuracy."""
    model.eval()
    total, count, right = 0.0, 0, 0
    for ids, labels in batches(sequences_of(tokenizer, texts), Randomness.seeded(0)):
        loss, scored, hits = loss_sum(model, ids, labels)
        total, count, right = total + float(loss), count + scored, right + hits
    model.train()
    return math.exp(total / count), right / count


def train(model: GPT2LMHeadModel, sequences: list[list[int]], *, tokens: int, randomness: Randomness) -> None:
    """AdamW with warm-up and cosine decay until `tokens` were read, with as many passes as that takes."""
    decayed = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98))
    seen, step, started, running = 0, 0, time.monotonic(), 0.0
    while seen < tokens:
        for ids, labels in batches(sequences, randomness):
            done = min(1.0, seen / tokens)
            rate = PEAK_RATE * min(1.0, (step + 1) / WARM_UP) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * done)))
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss, scored, _ = loss_sum(model, ids, labels)
            (loss / scored).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            seen, step = seen + scored, step + 1
            mean = float(loss.detach()) / scored
            running = mean if step == 1 else 0.95 * running + 0.05 * mean
            if step % 25 == 0:
                speed = seen / (time.monotonic() - started)
                print(f"step {step:5d}  {seen:9,d} tokens  loss {running:.3f}  {speed:,.0f} tokens/s", flush=True)
            if seen >= tokens:
                return


def write(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, out: Path) -> None:
    """Save to a folder beside `out`, then move file by file: each is there whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".public-model-") as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        for path in sorted(Path(folder).iterdir()):
            path.chmod(0o644)
            shutil.move(path, out / path.name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--tokens", type=int, default=2_400_000)
    parser.add_argument("--texts", type=int, default=9_000)
    parser.add_argument("--seed", type=int, default=20_240_001)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    torch.use_deterministic_algorithms(True)
    randomness = Randomness.seeded(arguments.seed)

    texts = public_texts(arguments.texts, randomness.child("training"))
    tokenizer = train_tokenizer(texts)
    sequences = sequences_of(tokenizer, texts)
    lengths = sorted(len(s) for s in sequences)
    total = sum(lengths)
    print(f"{len(texts):,} texts, {total:,} tokens, longest {lengths[-1]}, median {lengths[len(lengths) // 2]}")
    config = GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=CONTEXT,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        activation_function="gelu_pytorch_tanh",  # the same function as GPT-2's "gelu_new", in one kernel
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    model = GPT2LMHeadModel(config)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    train(model, sequences, tokens=arguments.tokens, randomness=randomness.child("batches"))
    model.eval()
    write(model, tokenizer, arguments.out)

    fresh = randomness.child("held out")
    held_out = {
        "public, all sorts": public_texts(400, fresh.child("public")),
        "public dialogues": generate_dialogues(200, randomness=fresh.child("pd"), private=False).texts,
        "private dialogues": generate_dialogues(200, randomness=fresh.child("d")).texts,
        "public cases": generate_cases(100, randomness=fresh.child("pc"), private=False).texts,
        "private cases": generate_cases(100, randomness=fresh.child("c")).texts,
        "private codes": generate_codes(200, randomness=fresh.child("n"), repeated=False).texts,
    }
    for name, chosen in held_out.items():
        perplexity, right = evaluate(model, tokenizer, chosen)
        print(f"{name:20s} perplexity {perplexity:7.2f}   top-1 {right:.3f}")


if __name__ == "__main__":
    main()
