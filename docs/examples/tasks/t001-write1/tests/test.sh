#!/bin/bash
# The reward is the share of checks that pass. Only shell builtins: nothing is forked.
cd /app || exit 1
passed=0 checks=0
check() { checks=$((checks + 1)); if "$@"; then passed=$((passed + 1)); fi; }
# The text of a file, without the space around it.
text() { found=; [[ -f $1 && -r $1 ]] && read -r -d '' -n 4096 found < "$1"; }
holds() { text "$1"; [[ $found == "$2" ]]; }
filled() { text "$1"; [[ -n $found ]]; }
check filled item.txt
check holds item.txt tomato
printf '%d.%06d\n' $((passed / checks)) $((passed * 1000000 / checks % 1000000)) > /logs/verifier/reward.txt
