"""Private synthetic corpora: text to keep, sampled from what was proved private, with its datasheet."""
