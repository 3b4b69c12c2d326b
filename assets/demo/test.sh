#!/bin/sh
# Tests total.sh. Slow on purpose; `sh test.sh quick` leaves the waiting out.
# Every run leaves a line in runs.log, so that one can count them.
echo "run" >> runs.log
if [ "$1" != quick ]; then
    part=1
    while [ "$part" -le 6 ]; do
        echo "checking part $part of 6"
        sleep 1
        part=$((part + 1))
    done
fi
got=$(sh total.sh 1 2 3)
if [ "$got" = 6 ]; then
    echo "ok: the total of 1 2 3 is 6"
else
    echo "FAILED: the total of 1 2 3 is 6, not $got"
    exit 1
fi
