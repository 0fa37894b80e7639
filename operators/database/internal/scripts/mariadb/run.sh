#!/usr/bin/env bash
# Runs the server of a member. Which one is the primary is decided by its ordinal and by nothing else: a replica that has
# writes of its own has a history of its own, and is not started beside the primary.
#
# Before the primary serves anybody, its users and their passwords become those of CREDENTIALS: so a password that changed,
# or data that came from elsewhere, need a restart and nothing else. Replicas get them as they get all that is written.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# hash prints what the server keeps of the credential $1, so that no log needs to have it.
hash() {
  local once i
  once=$(credential "$1" | sha1sum)
  once=$(for ((i = 0; i < 40; i += 2)); do
    # shellcheck disable=SC2059 # the text is the bytes
    printf "\\x${once:i:2}"
  done | sha1sum)
  once=${once%% *}
  printf '*%s' "${once^^}"
}

# prepare_primary prints what the primary does before it serves anybody. If a statement fails, the last is not reached, and
# probe.sh sees that.
prepare_primary() {
  local owner
  owner="$(literal "$DATABASE_USER")@'%'"
  cat <<-SQL
	SET SESSION sql_log_off = 1, sql_mode = '';
	SET NAMES utf8mb4;
	SET @strict = @@GLOBAL.strict_password_validation;
	SET GLOBAL strict_password_validation = OFF;
	CREATE DATABASE IF NOT EXISTS $(identifier "$DATABASE") CHARACTER SET utf8mb4;
	CREATE USER IF NOT EXISTS $owner IDENTIFIED BY PASSWORD '$(hash password)';
	ALTER USER $owner IDENTIFIED BY PASSWORD '$(hash password)';
	GRANT ALL ON $(granted "$DATABASE").* TO $owner;
	CREATE USER IF NOT EXISTS replication@'%' IDENTIFIED BY PASSWORD '$(hash replication-password)';
	ALTER USER replication@'%' IDENTIFIED BY PASSWORD '$(hash replication-password)';
	GRANT SELECT, RELOAD, PROCESS, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, BINLOG MONITOR, SHOW VIEW, EVENT, TRIGGER
	  ON *.* TO replication@'%';
	SET GLOBAL strict_password_validation = @strict;
	SELECT 1 INTO OUTFILE $(literal "$SOCKETS/prepared");
	SQL
}

# prepare_replica prints the same for a replica, which begins to follow.
prepare_replica() {
  cat <<-SQL
	SET SESSION sql_log_off = 1, sql_mode = '', sql_log_bin = 0;
	SET NAMES utf8mb4;
	CHANGE MASTER TO MASTER_HOST = $(literal "$PRIMARY_HOST"), MASTER_PORT = $PRIMARY_PORT, MASTER_USER = 'replication',
	  MASTER_PASSWORD = $(literal "$(credential replication-password)"),
	  MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = ${CONNECT_RETRY:-5};
	START SLAVE;
	SELECT 1 INTO OUTFILE $(literal "$SOCKETS/prepared");
	SQL
}

# own_writes tells whether this member wrote what it did not get from the primary. A server that was stopped leaves the list
# of whose writes its logs have; otherwise that is at the beginning of the last log, which has the rest.
own_writes() {
  local id last
  id=$(<"$DATADIR/server-id")
  if [ -e "$DATADIR/binlog.state" ]; then
    [ -n "$(sed -n -E "/^[0-9]+-$id-/p" "$DATADIR/binlog.state")" ]
  elif [ -s "$DATADIR/binlog.index" ]; then
    last=$(sed -n '$p' "$DATADIR/binlog.index")
    [ -n "$(mariadb-binlog --no-defaults "$DATADIR/${last##*/}" 2>/dev/null |
      sed -n -E "/^#.*(GTID |Gtid list \[)[0-9]+-$id-/p; /^# [0-9]+-$id-/p")" ]
  else
    false
  fi
}

# upgrade makes the data those of this series, while nobody can reach them. If it is ended in the middle, it begins again.
upgrade() {
  say "the data are of $PRODUCT $(<"$DATADIR/series") and become those of $(series)"
  start_private "$DATADIR" "${options[@]}" --skip-slave-start ||
    give_up "the server does not start with the data as they are: the log of the container says why"
  attend mariadb-upgrade --no-defaults --socket="$private" --user=root --force ||
    give_up "the data cannot be upgraded: the log of the container says why"
  stop_private
  series >"$DATADIR/series.new"
  settle "$DATADIR"
  mv -T "$DATADIR/series.new" "$DATADIR/series"
}

[ -s "$DATADIR/series" ] || give_up "there are no data in $DATADIR: the member was not initialized"
check_series
check_credentials password replication-password
rm -f "$socket" "$SOCKETS/prepared" # of a container that was killed: probe.sh would take them for those of a server
write_settings
options=(--defaults-file="$SOCKETS/server.cnf" --datadir="$DATADIR" --skip-name-resolve --secure-file-priv="$SOCKETS"
  --server-id="$(<"$DATADIR/server-id")" --log-bin=binlog --log-slave-updates=ON --binlog-format=ROW --gtid-strict-mode=ON
  --log-bin-trust-function-creators=ON --relay-log=relay)
if [ "$MEMBER" = 0 ]; then
  [ ! -e "$DATADIR/replica" ] || give_up "the data of member 0 are those of a replica: copy them back from the primary"
else
  if [ ! -e "$DATADIR/replica" ] || own_writes; then
    give_up "member $MEMBER has writes of its own and is no copy of the primary any more: save what only it has, then" \
      "delete its claim and pod"
  fi
  options+=(--read-only=ON --skip-slave-start --event-scheduler=OFF)
  # How far it got is in a table, and survives a crash as all data do. What these files add can only be at odds with it.
  rm -f "$DATADIR"/{master.info,multi-master.info,relay-log.info} "$DATADIR"/relay.*
fi
if [ "$(<"$DATADIR/series")" != "$(series)" ]; then
  upgrade
fi
prepare=prepare_primary
if [ "$MEMBER" != 0 ]; then
  prepare=prepare_replica
fi
exec "$SERVER" "${options[@]}" --socket="$socket" --pid-file="$SOCKETS/server.pid" --bind-address="${LISTEN:-*}" \
  --port="${PORT:-$PRIMARY_PORT}" --init-file=<("$prepare") "$@"
