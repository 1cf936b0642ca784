"""`reticent synthesize`: a private corpus to keep, from a private model or an ensemble, with its datasheet."""

from reticent.cli.console import Output
from reticent.cli.flags import verb
from reticent.core.printing.numbers import counted
from reticent.runs.synthesis.settings import SynthesizeSettings

_EXHAUSTED = 3


@verb(SynthesizeSettings)
def synthesize(settings: SynthesizeSettings, output: Output) -> int:
    """Write a corpus of new texts, sampled from a private model or an ensemble, and its datasheet.

    Tokens come from the system's random generator, so there is no --seed. The same call goes on where a killed one
    stopped.
    """
    from reticent.runs.synthesis.datasheet import promise
    from reticent.runs.synthesis.synthesize import synthesize as written

    done = written(settings, track=output.track)
    output.document(done)
    made = f"{counted(done.figures.records, 'text')} ({counted(done.figures.tokens, 'token')})"
    cost = "The texts cost nothing more." if done.is_free else "It covers all answers of this ensemble together."
    output.show(
        f"Wrote {made} to {done.path}.",
        f"Its guarantee: {promise(done.guarantee)} {cost}",
        f"Datasheet: {done.datasheet}, and {done.datasheet.with_suffix('.md').name} to read.",
    )
    if done.closeness is not None:
        near = done.closeness
        output.show(
            f"Beside {settings.holdout}: {near.phrases_found:.1%} of the synthetic phrases of four words stand "
            f"there too, {near.phrases_covered:.1%} of its phrases are synthetic too, and "
            f"{counted(near.equal_texts, 'text')} are word for word the same. The guarantee does not cover these "
            "three numbers, so they are not in the datasheet."
        )
    if done.is_complete:
        return 0
    output.show(f"The budget is spent: {done.figures.records:,} of {done.asked:,} texts.")
    return _EXHAUSTED
