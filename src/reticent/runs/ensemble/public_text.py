"""Calibrating an ensemble's public model on public text, which the parts must not have seen.

The text is compared with what the ensemble was trained on by the keyed hashes that its training kept
(`runs.proofs.ancestry`): a shared text or owner is refused, and so is an ensemble that kept none, since nothing
could be compared. Near copies are not seen; the guarantee says so in its assumptions.
"""

from pathlib import Path

from reticent.core.corpus import Corpus
from reticent.core.errors import ConfigError
from reticent.data.reading.corpus_file import open_corpus
from reticent.prediction.calibration import Calibration, fit
from reticent.runs.ensemble.manifest import Manifest
from reticent.runs.proofs.ancestry import seen_in_training


def calibrate(run: Path, path: Path, *, stored: Calibration | None = None) -> Calibration:
    """The calibration of a run's public model on a public corpus; the stored one where it was fitted on that.

    Guarantee: what is returned depends on the public model and on that corpus alone, and the corpus shares no equal
    text and no named owner with the ensemble's training text.
    """
    corpus = open_corpus(path).load()
    if stored is not None and stored.corpus == corpus.fingerprint:
        return stored
    require_unseen(run, corpus, where=path)
    from reticent.models.huggingface.loading import load_model  # torch, only where something is computed

    manifest = Manifest.read(run)
    public = load_model(manifest.base, device=manifest.device, dtype="float32", name=manifest.base)
    if public.fingerprint != manifest.base_fingerprint:
        raise ConfigError(f"{manifest.base}: not the model that this ensemble started from")
    room = None if public.context_length is None else public.context_length - 1
    texts = (tokens[:room] for tokens in public.encode(corpus.texts))
    return fit(public.position_log_probs, texts, corpus=corpus.fingerprint)


def require_unseen(run: Path, corpus: Corpus, *, where: Path) -> None:
    """Refuse text of which the ensemble's training, or one before it, has seen any."""
    shared = seen_in_training(run, corpus, where=where, flag="--public")
    if shared is not None:
        raise ConfigError(
            f"{where}: the public model cannot be calibrated on text that the ensemble was trained on",
            found=f"{shared.in_words()} in common",
            hint="calibrate on public text: a fit to private text leaks it",
        )


def require_same_text(calibration: Calibration | None, path: Path) -> None:
    """Refuse other public text than that of the first use, which fixed the calibration."""
    if calibration is None or open_corpus(path).load().fingerprint != calibration.corpus:
        raise ConfigError(
            "the calibration of the public model was fixed by the first use of this ensemble",
            found=f"--public {path}",
            expected="no calibration" if calibration is None else "the corpus of the first use",
            hint="leave the option out",
        )
