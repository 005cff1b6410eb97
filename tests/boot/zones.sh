#!/usr/bin/env bash
# Zones end to end. The attacks (attacks) and the rates of links (rate) take longer and are run by hand.
set -u
# Enough to see that nothing is lost; 20 and more for figures.
export ROUNDS=${ROUNDS:-4}
folder=$(dirname "$0")/zones
code=0
for test in whole cores memory walled crash link split; do
    "$folder/$test" "$@" || code=1
done
exit $code
