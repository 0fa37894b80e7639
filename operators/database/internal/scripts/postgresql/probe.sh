#!/usr/bin/env bash
# Implements the probes of a member. It takes at most 5 s, and prints nothing on success.
#   startup, live  the server answers, even with a rejection: if it recovers from a crash, has too many connections or cannot
#                  follow the primary, a restart would make things worse. Before the socket exists, the probe succeeds.
#   ready          it accepts connections, and a replica follows the primary or did so in the last GRACE seconds. On the
#                  primary, a change of CREDENTIALS sets the passwords of the roles, so that no restart is necessary.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

# isready succeeds if connections are accepted. It returns 1 if they are rejected and 2 if there is no answer.
isready() { pg_isready --quiet --host="$SOCKETS" --port="$(port)" --username=postgres --dbname=postgres --timeout=4; }

# streaming prints yes if this replica is connected to the primary and replays its log. Otherwise it writes the current
# password, so that no restart is necessary after a change.
streaming() {
  local sql="SELECT 'yes' FROM pg_catalog.pg_stat_wal_receiver WHERE status = 'streaming'
    AND NOT pg_catalog.pg_is_wal_replay_paused()" answer
  answer=$(PGCONNECT_TIMEOUT=4 psql --host="$SOCKETS" --port="$(port)" --username=postgres --dbname=postgres --no-psqlrc \
    --quiet --tuples-only --no-align --command="$sql" 2>/dev/null) || return 0
  [ "$answer" = yes ] || write_passfile replication-password "$(follow_with)" || true
  printf '%s' "$answer"
}

# here runs a command of psql on this server, there on the primary. Both print nothing if the server does not answer.
here() { PGCONNECT_TIMEOUT=2 run --host="$SOCKETS" --port="$(port)" --username=postgres "$@" 2>/dev/null || true; }
there() { PGCONNECT_TIMEOUT=2 run "$(connection "$PRIMARY_HOST") dbname=postgres replication=database" "$@" 2>/dev/null || true; }

# stuck prints why this replica can never follow the primary. It has replayed all that it has, has no connection, and is at a
# position in its history that the primary does not have, or from which the primary does not have the log any more.
stuck() {
  local at own it its fork
  at=$(here --dbname=postgres --command="SELECT pg_catalog.pg_last_wal_replay_lsn() FROM pg_catalog.pg_stat_activity
    WHERE backend_type = 'startup' AND wait_event = 'RecoveryRetrieveRetryInterval'")
  [ -n "$at" ] || return 0
  own=$(here "replication=true" --command=IDENTIFY_SYSTEM)
  it=$(there --command=IDENTIFY_SYSTEM)
  [ -n "$own" ] && [ -n "$it" ] || return 0
  IFS='|' read -r _ own _ <<<"$own"
  IFS='|' read -r _ its fork _ <<<"$it"
  if [ "$its" != "$own" ]; then
    fork=$(there --command="TIMELINE_HISTORY $its" | sed -n -E "s/^(.*\|)?$own\t([0-9A-F]+\/[0-9A-F]+)\t.*/\2/p")
    fork=${fork:-0/0}
  fi
  if [ "$(here --dbname=postgres --command="SELECT '$at'::pg_catalog.pg_lsn > '$fork'")" = t ]; then
    printf 'it has transactions that the primary does not have: save what only it has, then delete its claim and pod'
  elif [ "$(there --command="SELECT pg_catalog.min(pg_catalog.right(name, 16)) >
    pg_catalog.right(pg_catalog.pg_walfile_name('$at'::pg_catalog.pg_lsn + 1), 16) FROM pg_catalog.pg_ls_waldir()
    WHERE name ~ '^[0-9A-F]{24}\$'")" = t ]; then
    printf 'the primary does not have the log any more that it needs: delete its claim and pod'
  fi
}

# set_password prints the statement that gives the role $1 the password $2, if the role has a password already: a role
# without one cannot connect over the network, and stays so. It prints nothing for an empty password.
set_password() {
  local block
  [ -n "$2" ] || return 0
  block="BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_authid WHERE rolname = $(literal "$1") AND rolpassword IS NOT NULL) THEN"
  block+=" ALTER ROLE $(identifier "$1") PASSWORD $(literal "$2"); END IF; END"
  printf 'DO %s;\n' "$(literal "$block")"
}

# unlogged prints the statement that keeps the following ones out of all logs and statistics. It sets only what this version
# of the server has.
unlogged() {
  cat <<-SQL
	SELECT pg_catalog.set_config(s.name, v.value, false) FROM (VALUES ('log_statement', 'none'),
	  ('log_min_duration_statement', '-1'), ('log_min_duration_sample', '-1'), ('log_transaction_sample_rate', '0'),
	  ('log_min_error_statement', 'panic'), ('log_error_verbosity', 'terse'), ('pgaudit.log', 'none'),
	  ('pg_stat_statements.track_utility', 'off'), ('debug_print_parse', 'off'), ('debug_print_rewritten', 'off'),
	  ('track_activities', 'off')) AS v (name, value) JOIN pg_catalog.pg_settings AS s ON s.name = v.name;
	SQL
}

# update_passwords sets the passwords of the roles once for each start of the server and each change of CREDENTIALS, which it
# knows by a digest. After a failure, the server's log has the error, and the next probe tries again.
update_passwords() {
  local owner='' replication='' dump='' start digest applied=$SOCKETS/.applied new
  read_credential password owner
  read_credential replication-password replication
  read_credential dump-password dump
  # The first three lines are the process, the directory and the time of the start.
  mapfile -t -n 3 start 2>/dev/null <"$PGDATA/postmaster.pid"
  digest=$(sha256sum <<<"${start[2]:-}"$'\n'"$owner"$'\n'"$replication"$'\n'"$dump")
  if [ -r "$applied" ] && [ "$(<"$applied")" = "$digest" ]; then
    return
  fi
  PGOPTIONS="-c default_transaction_read_only=off -c synchronous_commit=local -c password_encryption=scram-sha-256"
  PGOPTIONS+=" -c statement_timeout=3s"
  export PGOPTIONS PGCONNECT_TIMEOUT=4 PGCLIENTENCODING=UTF8
  psql --host="$SOCKETS" --port="$(port)" --username=postgres --dbname=postgres --no-psqlrc --quiet --single-transaction \
    --set=ON_ERROR_STOP=1 >/dev/null 2>&1 <<-SQL || return 0
	$(unlogged)
	$(set_password "$DATABASE_USER" "$owner")
	$(set_password replication "$replication")
	$(set_password database_dump "$dump")
	SQL
  new=$(mktemp "$applied.XXXXXX") && printf '%s' "$digest" >"$new" && mv -f "$new" "$applied"
}

case ${1:-} in
startup | live)
  status=0
  if [ -S "$SOCKETS/.s.PGSQL.$(port)" ]; then
    isready || status=$?
  fi
  if [ "$status" -ge 2 ]; then
    say "the server does not answer"
    exit 1
  fi
  ;;
ready)
  if ! isready; then
    say "the server does not accept connections"
    exit 1
  fi
  if [ "$MEMBER" = 0 ]; then
    update_passwords || true
  else
    streaming=$(streaming)
    if [ "$streaming" != yes ]; then
      why=$(stuck)
      if [ -n "$why" ]; then
        say "$why"
        exit 1
      fi
    fi
    follows "$PGDATA.followed" "$streaming"
  fi
  ;;
*) give_up "probe.sh is told startup, live or ready" ;;
esac
