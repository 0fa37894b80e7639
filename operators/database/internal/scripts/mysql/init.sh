#!/usr/bin/env bash
# Creates the data directory if it is missing. It may be interrupted at any time: an incomplete directory has another name.
# Beside the server's own files there is series, the release series of the data.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$DATADIR.partial
lock_data "$DATADIR"
if [ -e "$DATADIR" ]; then
  [ -s "$DATADIR/series" ] || give_up "$DATADIR is there and holds no data of $PRODUCT: nothing is put over it"
  check_series
  exit 0
fi
[ "$MEMBER" = 0 ] || give_up "member $MEMBER cannot be a copy of the primary: there is no replication of MySQL"
check_begun
rm -rf "$partial"
attend install "$partial" || give_up "the data directory cannot be made: the log of the container says why"
describe "$partial"
put_in_place "$partial" "$DATADIR"
