#!/bin/sh
# Builds the programs of this folder and runs them on this machine's Linux: what they check must be true there first.
# With a directory as argument it only builds them into it, static, to be put into a tenant's root.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$(mktemp -d)}
mkdir -p "$out"
for source in "$here"/*.c; do
    name=$(basename "$source" .c)
    cc -O1 -Wall -Wextra -static -o "$out/$name" "$source"
    [ $# -eq 1 ] || "$out/$name"
done
