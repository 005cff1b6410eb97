#!/usr/bin/env bash
# Zones end to end. The attacks (attacks) and the rates of links (rate) take longer and are run by hand.
# wanted on consoles: "kernel panicked", "the failure cannot be contained"
set -u
# Enough to see that nothing is lost; 20 and more for figures.
export ROUNDS=${ROUNDS:-4}
folder=$(dirname "$0")/zones
parts="whole cores memory walled crash link split comers"
# A second try is for the parts that failed.
failed=${GYRE_SUITE:+$GYRE_SUITE/../failed-parts}
if [ "${GYRE_TRY:-1}" = 2 ] && [ -s "$failed" ]; then
    parts=$(cat "$failed")
    rm "$failed"
fi
code=0
for test in $parts; do
    "$folder/$test" "$@" && continue
    code=1
    [ -z "$failed" ] || echo "$test" >>"$failed"
done
exit $code
