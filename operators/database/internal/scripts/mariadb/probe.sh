#!/usr/bin/env bash
# Implements the probes of a member. It takes at most 5 s, and prints nothing on success.
#   startup, live  the server answers, even with a rejection: if it has too many connections or cannot follow the primary, a
#                  restart would make things worse. Before the socket exists, as during recovery, the probe succeeds.
#   ready          it accepts connections, and a replica follows the primary or did so in the last GRACE seconds. On the
#                  primary, a change of CREDENTIALS sets the passwords of the users, so that no restart is necessary.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

answers() {
  ping "$socket" || {
    say "the server does not answer"
    return 1
  }
}

# following prints yes if this replica is connected to the primary and applies its events. If the password was rejected, it
# sets the current one, so that no restart is necessary. If the primary does not have the position of this replica, it prints
# why.
following() {
  local status
  status=$(as_root "$socket" --column-names 2>/dev/null <<<'SHOW SLAVE STATUS\G') || return 0
  case $status in
  *'Slave_IO_Running: Yes'*'Slave_SQL_Running: Yes'*) printf yes ;;
  *'Last_IO_Errno: 1236'*'purged'* | *'Last_IO_Errno: 1236'*'is missing the GTID'*)
    printf 'the primary does not have the log any more that it needs: delete its claim and pod'
    ;;
  *'Last_IO_Errno: 1236'*"not in the master's binlog"*)
    printf 'it has transactions that the primary does not have: save what only it has, then delete its claim and pod'
    ;;
  *'Last_IO_Errno: 1045'*)
    as_root "$socket" <<-SQL 2>/dev/null || true
	SET SESSION sql_log_off = 1, sql_mode = '';
	SET NAMES utf8mb4;
	STOP SLAVE;
	CHANGE MASTER TO MASTER_PASSWORD = $(literal "$(credential replication-password)");
	START SLAVE;
	SQL
    ;;
  esac
}

# set_password prints the statement that gives the user $1 the password $2, as a hash or, with plain in $how, as it is. It
# prints nothing for an empty password.
set_password() {
  local user
  user="$(literal "$1")@'%'"
  case $2,$how in
  ,*) ;;
  *,hash) printf "ALTER USER IF EXISTS %s IDENTIFIED BY PASSWORD '%s';\n" "$user" "$(hash_of "$2")" ;;
  *) printf 'ALTER USER IF EXISTS %s IDENTIFIED BY %s;\n' "$user" "$(literal "$2")" ;;
  esac
}

# update_passwords sets the passwords of the users once for each start of the server and each change of CREDENTIALS, which it
# knows by a digest. After a failure the next probe tries again.
update_passwords() {
  local owner='' replication='' dump='' start digest applied=$SOCKETS/.applied new how
  read_credential password owner
  read_credential replication-password replication
  read_credential dump-password dump
  # The server writes the file prepared at each start.
  start=$(stat -c '%i %Z' "$SOCKETS/prepared")
  digest=$(sha256sum <<<"$start"$'\n'"$owner"$'\n'"$replication"$'\n'"$dump")
  if [ -r "$applied" ] && [ "$(<"$applied")" = "$digest" ]; then
    return
  fi
  # MySQL has no such hashes. MariaDB rejects them if it has rules for passwords, and applies the rules to the password.
  for how in hash plain; do
    if [ "$PRODUCT,$how" != MySQL,hash ] && as_root "$socket" --connect-timeout=4 >/dev/null 2>&1 <<-SQL; then
	SET SESSION sql_log_off = 1, long_query_time = 1000000, lock_wait_timeout = 2, sql_mode = '';
	SET NAMES utf8mb4;
	$(set_password "$DATABASE_USER" "$owner")
	$(set_password replication "$replication")
	$(set_password database_dump "$dump")
	SQL
      new=$(mktemp "$applied.XXXXXX") && printf '%s' "$digest" >"$new" && mv -f "$new" "$applied"
      return
    fi
  done
}

case ${1:-} in
startup | live)
  if [ -S "$socket" ]; then
    answers
  fi
  ;;
ready)
  answers
  if [ ! -e "$SOCKETS/prepared" ]; then
    say "the server is not prepared; if that does not end, its log says why"
    exit 1
  fi
  if [ "$MEMBER" = 0 ]; then
    update_passwords || true
  else
    following=$(following)
    if [ -n "$following" ] && [ "$following" != yes ]; then
      say "$following"
      exit 1
    fi
    follows "$DATADIR.followed" "$following"
  fi
  ;;
*) give_up "probe.sh is told startup, live or ready" ;;
esac
