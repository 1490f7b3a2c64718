#!/usr/bin/env bash
# Puts the training frameworks of the tests in this folder into a virtual environment of their own, from PyPI, each at the
# version that requirements.txt names, and nothing else anywhere. A second call does nothing.
#
#   install.sh             install; about 4 GB on the disk, most of it what PyPI's build of PyTorch is linked with
#   install.sh --where     print the directory: $SPOTFERRY_FRAMEWORKS, or spotferry-frameworks in the user's cache
#   install.sh --licences  print the licence of each package that is installed
#
# What is installed is used by the tests alone; nothing of it is part of Spotferry or shipped with it. PyTorch is under
# BSD-3-Clause, with parts under Apache-2.0, BSD-2-Clause and others; Transformers, PEFT, Accelerate, Safetensors, Tokenizers,
# Lightning and DeepSpeed are under Apache-2.0. The nvidia-* packages are proprietary, under NVIDIA's own terms: PyTorch's build
# on PyPI is linked with them and does not load without; no GPU is used.
set -euo pipefail
cd "$(dirname "$0")"

home=${SPOTFERRY_FRAMEWORKS:-${XDG_CACHE_HOME:-$HOME/.cache}/spotferry-frameworks}

licences() {
  "$home/env/bin/python" - <<'PYTHON'
from importlib import metadata
for d in sorted(metadata.distributions(), key=lambda d: d.name.lower()):
    of = d.metadata
    words = of.get("License-Expression") or "; ".join(c.split(" :: ")[-1] for c in of.get_all("Classifier", []) if c.startswith("License")) or (of.get("License") or "not said").splitlines()[0]
    print(f"{d.name}\t{d.version}\t{words}")
PYTHON
}

case ${1:-} in
--where) echo "$home" && exit ;;
--licences) licences && exit ;;
esac

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON to one" >&2; exit 1; }
mkdir -p "$home"
exec 9>"$home/lock"
flock 9 # two installations at once would be neither
want=$({ cat requirements.txt; "$python" -VV; } | sha256sum | cut -d' ' -f1)
if [ "$(cat "$home/complete" 2>/dev/null)" = "$want" ]; then
  exit
fi
rm -f "$home/complete"
"$python" -m venv --clear "$home/env" || { echo "Python's venv is needed: apt install python3-venv" >&2; exit 1; }
# Without dependencies: requirements.txt has them all, but for compilers of GPU code, which nothing here calls.
"$home/env/bin/pip" install --quiet --no-cache-dir --no-deps --disable-pip-version-check -r requirements.txt
"$home/env/bin/python" -c 'import torch, transformers, peft, pytorch_lightning, deepspeed' >/dev/null
echo "$want" >"$home/complete"
