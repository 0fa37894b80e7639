#!/usr/bin/env bash
# Runs the server of a member. Its ordinal alone decides whether it is the primary: a replica with writes of its own has
# another history, and is not started.
#
# Before the primary accepts connections, its users get the passwords of CREDENTIALS. So a changed password, or data from
# elsewhere, need a restart only. Replicas replicate the passwords. Root connects over the socket only.
#
# With CLOSED=true, only the user of dumps can log in to the primary over the network, and nothing is written. The variable
# read_only is not sufficient for that: users with READ_ONLY ADMIN, as part of ALL PRIVILEGES, may write nevertheless. So all
# other accounts are locked, in the memory of the server only: a dump has them as they were.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# hash prints the server's hash of the credential $1.
hash() { hash_of "$(credential "$1")"; }

# unlocking prints the statement that undoes those of locking in the table of the users. Without it in memory, see there.
unlocking() {
  cat <<-'SQL'
	UPDATE mysql.global_priv SET Priv = JSON_REMOVE(IF(JSON_VALUE(Priv, '$.closed') = 'locked', Priv,
	  JSON_REMOVE(Priv, '$.account_locked')), '$.closed') WHERE JSON_EXISTS(Priv, '$.closed');
	SQL
}

# locking prints the statements that lock all accounts in the memory of the server, but not in its table. If the server is
# killed between them, the table has what it needs to be corrected at the next start.
locking() {
  cat <<-SQL
	SET SESSION sql_log_bin = 0;
	UPDATE mysql.global_priv SET Priv = JSON_SET(Priv, '\$.closed',
	  IF(JSON_VALUE(Priv, '\$.account_locked') IN ('1', 'true'), 'locked', 'open'), '\$.account_locked', true)
	  WHERE NOT JSON_EXISTS(Priv, '\$.is_role') AND (User, Host) NOT IN (('$dumper', '%'), ('root', 'localhost'));
	FLUSH LOCAL PRIVILEGES;
	$(unlocking)
	SQL
}

# prepare_primary prints the statements that the primary executes before it accepts connections. If one fails, the last one
# is not reached, and probe.sh notices it.
prepare_primary() {
  local owner
  owner="$(literal "$DATABASE_USER")@'%'"
  cat <<-SQL
	SET SESSION sql_log_off = 1, sql_mode = '';
	SET NAMES utf8mb4;
	SET @strict = @@GLOBAL.strict_password_validation;
	SET GLOBAL strict_password_validation = OFF;
	SET SESSION sql_log_bin = 0;
	$(unlocking)
	FLUSH LOCAL PRIVILEGES;
	SET SESSION sql_log_bin = 1;
	DELETE FROM mysql.global_priv WHERE User = 'root' AND Host <> 'localhost';
	FLUSH PRIVILEGES;
	CREATE DATABASE IF NOT EXISTS $(identifier "$DATABASE") CHARACTER SET utf8mb4;
	CREATE USER IF NOT EXISTS $owner IDENTIFIED BY PASSWORD '$(hash password)';
	ALTER USER $owner IDENTIFIED BY PASSWORD '$(hash password)';
	GRANT ALL ON $(granted "$DATABASE").* TO $owner;
	CREATE USER IF NOT EXISTS replication@'%' IDENTIFIED BY PASSWORD '$(hash replication-password)';
	ALTER USER replication@'%' IDENTIFIED BY PASSWORD '$(hash replication-password)';
	GRANT SELECT, RELOAD, PROCESS, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, BINLOG MONITOR, SLAVE MONITOR,
	  SHOW VIEW, EVENT, TRIGGER ON *.* TO replication@'%';
	CREATE OR REPLACE USER $dumper@'%' IDENTIFIED BY PASSWORD '$(hash dump-password)';
	GRANT SELECT, SHOW DATABASES, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES ON *.* TO $dumper@'%';
	SET GLOBAL strict_password_validation = @strict;
	$(if [ "${CLOSED:-}" = true ]; then locking; fi)
	SELECT 1 INTO OUTFILE $(literal "$SOCKETS/prepared");
	SQL
}

# prepare_replica prints the same for a replica, and starts replication.
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

# own_writes succeeds if this member wrote transactions of its own. A server that was shut down leaves a list of the origins
# of its transactions; otherwise the list is at the beginning of the last log, followed by the rest.
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

# upgrade upgrades the data to this series without accepting connections. It may be interrupted at any time.
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

lock_data "$DATADIR"
[ -s "$DATADIR/series" ] || give_up "there are no data in $DATADIR: the member was not initialized"
check_series
check_credentials password dump-password replication-password
rm -f "$socket" "$SOCKETS/prepared" # stale files of a killed container would mislead probe.sh
write_settings
options=(--defaults-file="$SOCKETS/server.cnf" --datadir="$DATADIR" --skip-name-resolve --secure-file-priv="$SOCKETS"
  --server-id="$(<"$DATADIR/server-id")" --log-bin=binlog --log-slave-updates=ON --binlog-format=ROW --gtid-strict-mode=ON
  --log-bin-trust-function-creators=ON --relay-log=relay)
closed=()
if [ "$MEMBER" = 0 ]; then
  [ ! -e "$DATADIR/replica" ] || reject_replica
  if [ "${CLOSED:-}" = true ]; then
    closed=(--read-only=ON --event-scheduler=OFF)
  fi
else
  if [ ! -e "$DATADIR/replica" ] || own_writes; then
    give_up "member $MEMBER has writes of its own and is no copy of the primary any more: save what only it has, then" \
      "delete its claim and pod"
  fi
  options+=(--read-only=ON --skip-slave-start --event-scheduler=OFF)
  # The replication position is in a table and survives a crash. These files could only contradict it.
  rm -f "$DATADIR"/{master.info,multi-master.info,relay-log.info} "$DATADIR"/relay.*
fi
if [ "$(<"$DATADIR/series")" != "$(series)" ]; then
  upgrade
fi
prepare=prepare_primary
if [ "$MEMBER" != 0 ]; then
  prepare=prepare_replica
fi
serve "$SERVER" "${options[@]}" --socket="$socket" --pid-file="$SOCKETS/server.pid" --bind-address="${LISTEN:-*}" \
  --port="${PORT:-$PRIMARY_PORT}" --init-file=<("$prepare") "$@" "${closed[@]}"
