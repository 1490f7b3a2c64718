#!/usr/bin/env bash
# Trains on the text that setup put together, as the job file's envs say.
set -eu

echo "training on $(wc -c <corpus.txt | tr -d ' ') characters with seed $SEED"
exec spotferry trainer --text corpus.txt --steps "$STEPS" --save-every 50 --save-total-limit 3 \
  --seed "$SEED" --hidden "$HIDDEN" --step-interval "$PACE"
