#!/usr/bin/env bash
# Creates the data directory of a member if it is missing: by initdb for the first member, as a copy of the primary for the
# others. If the user asks for it, the first member becomes a promoted copy of a replica. It may be interrupted at any time: an
# incomplete directory has another name.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$PGDATA.partial

# copy copies the data of the server on the host $1.
copy() {
  write_passfile replication-password "$(follow_with)" && PGPASSFILE=$(follow_with) attend pg_basebackup \
    --host="$1" --port="$PRIMARY_PORT" --username=replication --no-password --pgdata="$partial" --wal-method=stream \
    --checkpoint=fast && touch "$partial/standby.signal"
}

# received prints t if the private server has received all that the server on the host $1 has, which may be more than a copy
# has. It fails if one of them does not answer.
received() {
  local all
  all=$(run "$(connection "$1") replication=true connect_timeout=10" --command=IDENTIFY_SYSTEM) || return
  all=${all#*|*|}
  run "${private[@]}" --username=postgres --dbname=template1 --command="SELECT
    GREATEST(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn()) >= $(literal "${all%%|*}")"
}

# promote makes the private server a primary with a history of its own, after it has received everything from the host $1.
promote() {
  local answer
  until answer=$(received "$1") || return; [ "$answer" = t ]; do
    pause 0.2
  done
  attend run "${private[@]}" --username=postgres --dbname=template1 --command="SELECT pg_catalog.pg_promote(true, 86400)" \
    >"$SOCKETS/promoted" && [ "$(<"$SOCKETS/promoted")" = t ]
}

recover() {
  local options room=() status=0
  copy "$1" || return
  [[ $(<"$partial/backup_label") == *'BACKUP FROM: standby'* ]] ||
    give_up "$1 is no replica: annotate the Database with techoral.com/recover-from-member=<number of a replica>"
  options=(-c "primary_conninfo=$(connection "$1")" -c hot_standby=on -c recovery_min_apply_delay=0)
  leave_room "$partial" "${options[@]}"
  start_private "$partial" "$SOCKETS/private" "${options[@]}" "${room[@]}" || return
  promote "$1" || status=$?
  stop_private && return "$status"
}

# run.sh creates the roles and the database before each start.
make_primary() {
  if ! recovered "$partial"; then
    check_begun
    attend new_cluster "$partial" || give_up "the data directory cannot be made: the log of the container says why"
  fi
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
  repeat_copy "$partial" copy "$PRIMARY_HOST"
fi
put_in_place "$partial" "$PGDATA"
