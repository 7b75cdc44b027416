#!/usr/bin/env bash
# Train the paper's competitors on CIFAR-100, each at 1 and at 5 shots, and the same network by batches, for docs/episodic.md.
# Repeat the command after a break: every run goes on from its last checkpoint (one after each epoch).
#   KSHOT_DATA=DIR scripts/train_episodic.sh RUNS [METHOD...]
# KSHOT overrides the command, PRECISION the arithmetic (auto, bf16 or float32).
set -euo pipefail
runs=$1
shift
read -r -a kshot <<<"${KSHOT:-kshot}"
methods=("$@")
((${#methods[@]})) || methods=(protonet matching matching-fce meta-lstm)
for method in "${methods[@]}"; do
  for shots in 1 5; do
    ways=20
    [[ $method == meta-lstm ]] && ways=5
    "${kshot[@]}" train --method "$method" --ways "$ways" --shots "$shots" --data cifar100 \
      --out "$runs/episodic-$method-${shots}shot" --precision "${PRECISION:-auto}" --resume
  done
done
"${kshot[@]}" train --recipe conv4-cifar100 --data cifar100 --out "$runs/episodic-conv4-batch" \
  --precision "${PRECISION:-auto}" --resume
