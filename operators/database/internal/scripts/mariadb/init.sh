#!/usr/bin/env bash
# Creates the data directory of a member if it is missing: a new one for the first member, a copy of the primary for the
# others. It may be interrupted at any time: an incomplete directory has another name.
#
# Beside the server's own files there are: series, the release series of the data; server-id, a random ID of this directory,
# so that histories are not confused; and replica, if the data are those of a replica.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$DATADIR.partial

# copy copies all databases of the primary, including the users and the replication position, into the private server.
copy() {
  "$DUMP" --defaults-file=<(client_file replication replication-password "$PRIMARY_HOST" "$PRIMARY_PORT") --all-databases \
    --single-transaction --master-data=1 --gtid --routines --triggers --events --hex-blob --default-character-set=utf8mb4 \
    --max-allowed-packet=1G --ignore-table=mysql.gtid_slave_pos |
    "$CLIENT" --no-defaults "${local_options[@]}" --socket="$private" --user=root --binary-mode --max-allowed-packet=1G
}

# seed creates a copy of the primary, if the primary is reachable and of no later series.
seed() {
  local of status=0
  of=$("$CLIENT" --defaults-file=<(client_file replication replication-password "$PRIMARY_HOST" "$PRIMARY_PORT") --batch \
    --skip-column-names --connect-timeout=10 --execute='SELECT VERSION()' | sed -E 's/^([0-9]+\.[0-9]+).*/\1/') || return
  if later "$of" "$(series)"; then
    say "the primary is of $PRODUCT $of, which is later than this image"
    return 1
  fi
  install "$partial" && start_private "$partial" --no-defaults --skip-log-bin --relay-log=relay \
    --max-allowed-packet=1G --innodb-flush-log-at-trx-commit=0 || return
  attend copy && [ -n "$(as_root "$private" <<<'SELECT @@GLOBAL.gtid_slave_pos')" ] || status=$?
  stop_private || status=$?
  printf '%s\n' "$of" >"$partial/series"
  : >"$partial/replica"
  return "$status"
}

lock_data "$DATADIR"
if [ -e "$DATADIR" ]; then
  [ -s "$DATADIR/series" ] || give_up "$DATADIR is there and holds no data of $PRODUCT: nothing is put over it"
  check_series
  exit 0
fi
rm -rf "$partial" "$DATADIR.followed"
if [ "$MEMBER" = 0 ]; then
  check_begun
  attend install "$partial" || give_up "the data directory cannot be made: the log of the container says why"
  describe "$partial"
else
  check_credentials replication-password
  until seed; do
    say "the primary cannot be copied yet; trying again in 5 s"
    rm -rf "$partial"
    pause 5
  done
  number "$partial"
fi
put_in_place "$partial" "$DATADIR"
