#!/usr/bin/env bash
# Runs the server. Before it accepts connections, its users get the passwords of CREDENTIALS. So a changed password, or data
# from elsewhere, need a restart only. The server keeps passwords out of its logs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# prepare prints the statements that the server executes before it accepts connections. If one fails, the last one is not
# reached, and probe.sh notices it.
prepare() {
  local owner
  owner="$(literal "$DATABASE_USER")@'%'"
  cat <<-SQL
	SET SESSION sql_mode = '';
	SET NAMES utf8mb4;
	DROP USER IF EXISTS root@'%';
	CREATE DATABASE IF NOT EXISTS $(identifier "$DATABASE") CHARACTER SET utf8mb4;
	CREATE USER IF NOT EXISTS $owner IDENTIFIED BY $(literal "$(credential password)");
	ALTER USER $owner IDENTIFIED BY $(literal "$(credential password)");
	GRANT ALL ON $(granted "$DATABASE").* TO $owner;
	DROP USER IF EXISTS $dumper@'%';
	CREATE USER $dumper@'%' IDENTIFIED BY $(literal "$(credential dump-password)");
	GRANT SELECT, SHOW DATABASES, SHOW VIEW, TRIGGER, EVENT, LOCK TABLES, RELOAD ON *.* TO $dumper@'%';
	$(if [ "${CLOSED:-}" = true ]; then printf 'SET GLOBAL super_read_only = ON;'; fi)
	SELECT 1 INTO OUTFILE $(literal "$SOCKETS/prepared");
	SQL
}

lock_data "$DATADIR"
[ -s "$DATADIR/series" ] || give_up "there are no data in $DATADIR: the member was not initialized"
[ "$MEMBER" = 0 ] || give_up "member $MEMBER cannot be a copy of the primary: there is no replication of MySQL"
check_series
check_credentials password dump-password
rm -f "$socket" "$SOCKETS/prepared" # stale files of a killed container would mislead probe.sh
write_settings
closed=()
if [ "${CLOSED:-}" = true ]; then
  closed=(--event-scheduler=OFF)
fi
if later "$(series)" "$(<"$DATADIR/series")"; then
  series >"$DATADIR/series" # the server upgrades the data at its start, and cannot downgrade them
fi
serve "$SERVER" --defaults-file="$SOCKETS/server.cnf" --datadir="$DATADIR" --skip-name-resolve --secure-file-priv="$SOCKETS" \
  --skip-log-bin --loose-mysqlx=OFF --socket="$socket" --pid-file="$SOCKETS/server.pid" --bind-address="${LISTEN:-*}" \
  --port="${PORT:-$PRIMARY_PORT}" --init-file=<(prepare) "$@" "${closed[@]}"
