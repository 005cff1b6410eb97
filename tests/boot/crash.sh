#!/bin/sh
# A short form of `gyre exp crash`: the running machine stopped at random moments, its disk repaired and compared with what was synced.
# KERNEL names a kernel that is built already.
set -eu
if "${GYRE:-./gyre}" exp crash --count "${CRASHES:-15}" ${KERNEL:+--kernel "$KERNEL"} >&2; then
    echo "ok  crash: everything that was synced is there"
else
    echo "FAILED  crash: everything that was synced is there"
    exit 1
fi
