#!/bin/sh
# A gate: exit code 0 within limits, 1 if a limit was passed or a guarantee refuted, 2 if something must be fixed.
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
    --fail-if "exposure>3" --fail-if "auc>0.6" \
    --out "$out"
