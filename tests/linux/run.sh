#!/bin/sh
# Builds the programs of this folder and runs them on this machine: what they check is what Linux does.
# usage: tests/linux/run.sh [output folder]
set -eu
cd "$(dirname "$0")"
out=${1:-../../target/linux-tests}
mkdir -p "$out"
failed=0
for source in *.c ../attacks/*.c; do
    name=$(basename "$source" .c)
    gcc -O1 -w -static -pthread -I. -o "$out/$name" "$source" -lrt
    if ! timeout 300 "$out/$name" < /dev/null; then
        echo "FAILED $name"
        failed=1
    fi
done
exit $failed
