#!/usr/bin/env bash
# Creates the data directory of a member if it is missing: a new one for the first member, a copy of the primary for the
# others. If the user asks for it, the first member becomes a copy of a replica. It may be interrupted at any time: an
# incomplete directory has another name.
#
# Beside the server's own files there are: series, the release series of the data; server-id, a random ID of this directory,
# so that histories are not confused; and replica, if the data are those of a replica.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

partial=$DATADIR.partial

# remote prints the options of a program that connects to the server on the host $1.
remote() { client_file replication replication-password "$1" "$PRIMARY_PORT"; }

# ask runs SQL on the server on the host $1.
ask() { "$CLIENT" --defaults-file=<(remote "$1") --batch --skip-column-names --connect-timeout=10 --execute="$2" "${@:3}"; }

# copy copies all databases of the host $1, including the users and the replication position, into the private server.
copy() {
  "$DUMP" --defaults-file=<(remote "$1") --all-databases \
    --single-transaction --master-data=1 --gtid --routines --triggers --events --hex-blob --default-character-set=utf8mb4 \
    --max-allowed-packet=1G --ignore-table=mysql.gtid_slave_pos |
    "$CLIENT" --no-defaults "${local_options[@]}" --socket="$private" --user=root --binary-mode --max-allowed-packet=1G \
      --init-command='SET SESSION sql_log_bin = 0'
}

# seed creates a copy of the server on the host $1, if it is reachable and of no later series. The function $2 completes it.
seed() {
  local of status=0
  of=$(ask "$1" 'SELECT VERSION()' | sed -E 's/^([0-9]+\.[0-9]+).*/\1/') || return
  if later "$of" "$(series)"; then
    say "the server to copy is of $PRODUCT $of, which is later than this image"
    return 1
  fi
  install "$partial" && start_private "$partial" --no-defaults --log-bin=binlog --relay-log=relay --server-id="$id" \
    --max-allowed-packet=1G --innodb-flush-log-at-trx-commit=0 || return
  attend copy "$1" && "$2" || status=$?
  stop_private || status=$?
  printf '%s\n' "$of" >"$partial/series"
  return "$status"
}

# continue_log lets the empty log of the private server begin at the position $1.
continue_log() { as_root "$private" <<<"RESET MASTER; SET GLOBAL gtid_binlog_state = $(literal "$1")"; }

# become_replica lets the log of a replica continue that of the primary, for replicas that follow it after a recovery.
become_replica() {
  local position
  position=$(as_root "$private" <<<'SELECT @@GLOBAL.gtid_slave_pos') && [ -n "$position" ] && continue_log "$position" &&
    : >"$partial/replica"
}

# become_primary removes the position of a replica, and enables the events that replication had disabled.
become_primary() {
  as_root "$private" <<-SQL
	SET SESSION sql_log_bin = 0;
	SET GLOBAL gtid_slave_pos = '';
	UPDATE mysql.event SET status = 'ENABLED' WHERE status = 'SLAVESIDE_DISABLED';
	SQL
}

# examine sets position to that of the replica on the host $1. It fails unless the replica has applied all that it received.
examine() {
  local status received own
  status=$(ask "$1" 'SHOW SLAVE STATUS' --vertical --column-names) || return
  [ -n "$status" ] ||
    give_up "$1 is no replica: annotate the Database with techoral.com/recover-from-member=<number of a replica>"
  own=$(ask "$1" "SELECT CONCAT(',', @@GLOBAL.gtid_binlog_state, ',') LIKE CONCAT('%-', @@GLOBAL.server_id, '-%')") || return
  [ "$own" = 0 ] || give_up "$1 has writes of its own: name another replica in techoral.com/recover-from-member"
  position=$(ask "$1" 'SELECT @@GLOBAL.gtid_slave_pos') || return
  received=$(sed -n 's/^ *Gtid_IO_Pos: *//p' <<<"$status")
  if [ -n "$received" ] && [ "$(ordered "$received")" != "$(ordered "$position")" ]; then
    say "$1 has received $received, and applied $position only: $(sed -n 's/^ *Last_SQL_Error: *//p' <<<"$status")"
    return 1
  fi
}

# ordered prints the GTIDs of $1 in order.
ordered() { tr -s ', \n' '\n' <<<"$1" | sort; }

# fetch_logs copies the binary logs of the host $1, so that replicas with less follow the new primary.
fetch_logs() {
  local names
  names=$(ask "$1" 'SHOW BINARY LOGS' | sed -E 's/\t.*//') || return
  rm -f "$partial"/binlog.*
  mariadb-binlog --defaults-file=<(remote "$1") --read-from-remote-server --raw --to-last-log --result-file="$partial/" \
    "${names%%$'\n'*}" && printf './%s\n' "${names//$'\n'/$'\n./'}" >"$partial/binlog.index"
}

# recover makes the data of the replica on the host $1 those of the primary. The log continues at the position of the replica.
# If it does not, it begins there.
recover() {
  local position before status=0
  examine "$1" || return
  before=$position
  seed "$1" become_primary && attend fetch_logs "$1" && examine "$1" || return
  if [ "$position" != "$before" ]; then
    say "$1 has changed meanwhile"
    return 1
  fi
  start_private "$partial" --no-defaults --log-bin=binlog --relay-log=relay --server-id="$id" || return
  if [ "$(ordered "$(as_root "$private" <<<'SELECT @@GLOBAL.gtid_binlog_pos')")" != "$(ordered "$position")" ]; then
    continue_log "$position" || status=$?
  fi
  stop_private && return "$status"
}

lock_data "$DATADIR"
if [ -e "$DATADIR" ]; then
  [ -s "$DATADIR/series" ] || give_up "$DATADIR is there and holds no data of $PRODUCT: nothing is put over it"
  check_series
  exit 0
fi
rm -rf "$partial" "$DATADIR.followed"
id=$(($(od -An -N4 -tu4 /dev/urandom) % 4294967294 + 1))
check_credentials replication-password
if [ "$MEMBER" != 0 ]; then
  repeat_copy "$partial" seed "$PRIMARY_HOST" become_replica
elif ! recovered "$partial"; then
  check_begun
  attend install "$partial" || give_up "the data directory cannot be made: the log of the container says why"
  series >"$partial/series"
fi
printf '%d\n' "$id" >"$partial/server-id"
put_in_place "$partial" "$DATADIR"
