#!/usr/bin/env bash
# Creates the data directory of a member if it is missing: by initdb for the first member, as a copy of the primary for the
# others. It may be interrupted at any time: an incomplete directory has another name.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$PGDATA.partial

# run.sh creates the roles and the database before each start.
make_primary() {
  check_begun
  attend new_cluster "$partial" || give_up "the data directory cannot be made: the log of the container says why"
}

make_replica() {
  until write_passfile replication-password "$(follow_with)" && PGPASSFILE=$(follow_with) attend pg_basebackup \
    --host="$PRIMARY_HOST" --port="$PRIMARY_PORT" --username=replication --no-password --pgdata="$partial" \
    --wal-method=stream --checkpoint=fast; do
    say "the primary cannot be copied yet; trying again in 5 s"
    rm -rf "$partial"
    pause 5
  done
  touch "$partial/standby.signal"
}

lock_data "$PGDATA"
if [ -e "$PGDATA" ]; then
  [ -s "$PGDATA/PG_VERSION" ] || give_up "$PGDATA is there and holds no data of PostgreSQL: nothing is put over it"
  check_major
  exit 0
fi
rm -rf "$partial" "$PGDATA.followed"
if [ "$MEMBER" = 0 ]; then
  make_primary
else
  make_replica
fi
put_in_place "$partial" "$PGDATA"
