#!/bin/sh
# A release gate. Exit code 0: every requirement is met. 1: a limit is exceeded, or the interval does not lie within it
# (undecided: too few targets), or the metric was not measured, or a guarantee is refuted. 2: something must be fixed.
#
#   MODEL=models/candidate PRIVATE=/srv/private examples/audit_gate.sh
#
# Scores are cached by the fingerprints of model and corpora: an unchanged model costs seconds.
set -eu
: "${MODEL:=models/candidate}"
: "${PRIVATE:?folder with train.jsonl, held-out.jsonl and canaries.json}"
out=$(mktemp -d "$PRIVATE/audit-XXXXXX")
exec reticent audit "$MODEL" \
    --train "$PRIVATE/train.jsonl" --holdout "$PRIVATE/held-out.jsonl" --canaries "$PRIVATE/canaries.json" \
    --attacks "${ATTACKS:-exposure,membership}" --records "${RECORDS:-1000}" \
    --require "largest_exposure<=${EXPOSURE:-12}" --require "auc<=${AUC:-0.6}" \
    --out "$out"
