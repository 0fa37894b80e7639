# shellcheck shell=bash
# Common functions of the scripts for PostgreSQL.
#
# They run in the image of the server as the owner of the data directory. Environment variables:
#   PGDATA            the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      the host name of the primary
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     its owner
#   CREDENTIALS       a directory with the files password, superuser-password and replication-password
#   SOCKETS           a private directory for sockets and temporary files
#   CONFIG            a directory with the user's settings, in files *.conf
# PORT and LISTEN override the port and the addresses of this member.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

# port prints the port of this member.
port() { printf '%s' "${PORT:-$PRIMARY_PORT}"; }

# literal prints an SQL string that is independent of the server's settings.
literal() { printf "E'%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "''")"; }

# identifier prints a quoted SQL identifier.
identifier() { printf '"%s"' "$(replace "$1" '"' '""')"; }

# major prints the major version of the program $1.
major() { "$1" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; }

# check_major rejects data of another major version, because no server can read them.
check_major() {
  local has wants
  has=$(<"$PGDATA/PG_VERSION")
  wants=$(major postgres)
  if [ "$has" != "$wants" ]; then
    give_up "the data are of PostgreSQL $has and the image is $wants: go back to version $has, or make a new Database" \
      "of version $wants with bootstrapFrom"
  fi
}

# conninfo prints the libpq setting of the database $1. An unquoted name could be parsed as settings.
conninfo() { printf "dbname='%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "\\'")"; }

# write_passfile writes the credential $1 to the file $2 in the format of libpq, which reads it for each connection. So the
# password is in no argument and no environment variable. Concurrent writes are safe.
write_passfile() {
  local text new
  text=$(credential "$1") || return
  new=$(mktemp "$2.XXXXXX") || return # with mode 0600
  printf '*:*:*:*:%s\n' "$(replace "$(replace "$text" \\ \\\\)" : '\:')" >"$new" && mv -f "$new" "$2"
}

# follow_with prints the password file of a replica's connection to the primary.
follow_with() { printf '%s/.pgpass' "$SOCKETS"; }
