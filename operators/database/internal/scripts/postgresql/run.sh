#!/usr/bin/env bash
# Runs the server of a member. Which one is the primary is decided by its ordinal and by nothing else: a replica that somebody
# promoted has a history of its own, and is not started beside the primary.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "${BASH_SOURCE[0]%/*}/lib.sh"

[ -s "$PGDATA/PG_VERSION" ] || give_up "there are no data in $PGDATA: the member was not initialized"
check_major
options=(-c "unix_socket_directories=$SOCKETS" -c "listen_addresses=${LISTEN:-*}" -c "port=${PORT:-$PRIMARY_PORT}")
if [ "$MEMBER" = 0 ]; then
  [ ! -e "$PGDATA/standby.signal" ] || give_up "the data of member 0 are those of a replica: copy them back from the primary"
else
  [ -e "$PGDATA/standby.signal" ] ||
    give_up "member $MEMBER was promoted and is no copy of the primary any more: save what only it has, then delete its claim and pod"
  passfile=$SOCKETS/.pgpass
  (umask 077 && printf '*:*:*:replication:%s\n' "$(sed 's/[\\:]/\\&/g' "$CREDENTIALS/replication-password")" >"$passfile")
  options+=(-c "primary_conninfo=host=$PRIMARY_HOST port=$PRIMARY_PORT user=replication application_name=member_$MEMBER passfile=$passfile")
fi
exec postgres -D "$PGDATA" "${options[@]}" "$@"
