#!/bin/sh
# Makes vectors/sentencepiece.*: a small model and what its own program makes of some lines.
# Needs Debian's package sentencepiece.
set -eu
cd "$(dirname "$0")/vectors"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
i=0
while [ $i -lt 40 ]; do
  cat sentencepiece.text
  i=$((i + 1))
done > "$work/text"
spm_train --input="$work/text" --model_prefix="$work/model" --vocab_size=320 --model_type=bpe \
  --byte_fallback=true --normalization_rule_name=identity --remove_extra_whitespaces=false \
  --minloglevel=2
cp "$work/model.model" sentencepiece.model
spm_encode --model=sentencepiece.model --output_format=id \
  < sentencepiece.text > sentencepiece.vectors
