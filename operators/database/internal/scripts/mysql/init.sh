#!/usr/bin/env bash
# Makes the data directory if there is none. It may be ended at any time and begin again: what is not complete has another
# name. Beside the server's own files there is series, the one of the server that the data are for.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$DATADIR.partial
if [ -e "$DATADIR" ]; then
  [ -s "$DATADIR/series" ] || give_up "$DATADIR is there and holds no data of $PRODUCT: nothing is put over it"
  check_series
  exit 0
fi
[ "$MEMBER" = 0 ] || give_up "member $MEMBER cannot be a copy of the primary: there is no replication of MySQL"
check_begun
rm -rf "$partial"
attend install "$partial" || give_up "the data directory cannot be made: the log of the container says why"
series >"$partial/series"
put_in_place "$partial" "$DATADIR"
