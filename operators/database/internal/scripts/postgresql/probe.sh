#!/usr/bin/env bash
# Implements the probes of a member. It takes at most 5 s, and prints nothing on success.
#   startup, live  the server answers, even with a rejection: if it recovers from a crash, has too many connections or cannot
#                  follow the primary, a restart would make things worse. Before the socket exists, the probe succeeds.
#   ready          it accepts connections, and a replica follows the primary or did so in the last GRACE seconds
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
  if [ "$MEMBER" != 0 ]; then
    follows "$PGDATA.followed" "$(streaming)"
  fi
  ;;
*) give_up "probe.sh is told startup, live or ready" ;;
esac
