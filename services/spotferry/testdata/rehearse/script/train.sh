#!/usr/bin/env bash
# A trainer that needs nothing but a shell: it counts, tells its steps, and saves
# every 20th, or every SAVE-th. LOSS says what it tells: step (a function of the step alone),
# reshuffled (of the epoch as well) or none.
set -eu
trap : USR1

step=0
if [ -n "${SPOTFERRY_RESUME_FROM:-}" ]; then
  step=$(cat "$SPOTFERRY_RESUME_FROM/step")
fi
while [ "$step" -lt 5000 ]; do
  sleep 0.04 || true
  step=$((step + 1))
  case "${LOSS:-step}" in
    step) told="{\"step\": $step, \"loss\": 2.$((900000 - step * 13))}" ;;
    reshuffled) told="{\"step\": $step, \"loss\": 2.$((900000 - step * 13 - SPOTFERRY_EPOCH * 7000))}" ;;
    none) told="{\"step\": $step}" ;;
  esac
  if [ "$SPOTFERRY_PROGRESS_FILE" != /dev/null ]; then
    echo "$told" >"$SPOTFERRY_PROGRESS_FILE.new"
    mv "$SPOTFERRY_PROGRESS_FILE.new" "$SPOTFERRY_PROGRESS_FILE"
  fi
  if [ $((step % ${SAVE:-20})) -eq 0 ]; then
    dir="$SPOTFERRY_CHECKPOINT_DIR/checkpoint-$step"
    mkdir -p "$dir"
    echo "$step" >"$dir/step"
    touch "$dir/DONE"
  fi
done
