# shellcheck shell=bash
# What the scripts of PostgreSQL share.
#
# They run in the image of the server, as whoever owns the data directory, and are told by the environment:
#   PGDATA            the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      where the primary listens
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     its owner
#   CREDENTIALS       a directory with the files password, superuser-password and replication-password
#   SOCKETS           a directory for sockets, and for what nobody else may read
#   CONFIG            a directory with the user's settings, in files that end in .conf
# PORT and LISTEN are the port and the addresses of this member if they are not those of a pod.
# shellcheck source-path=SCRIPTDIR source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"

# port prints the port of this member.
port() { printf '%s' "${PORT:-$PRIMARY_PORT}"; }

# literal prints a string as SQL has it, however the server is set.
literal() { printf "E'%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "''")"; }

# identifier prints a name as SQL has it.
identifier() { printf '"%s"' "$(replace "$1" '"' '""')"; }

# major prints the major version of the program $1.
major() { "$1" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; }

# check_major refuses data of another major version: no server can read them.
check_major() {
  local has wants
  has=$(<"$PGDATA/PG_VERSION")
  wants=$(major postgres)
  if [ "$has" != "$wants" ]; then
    give_up "the data are of PostgreSQL $has and the image is $wants: go back to version $has, or make a new Database" \
      "of version $wants with bootstrapFrom"
  fi
}

# conninfo prints the setting of libpq for the database $1: a name alone can look like settings.
conninfo() { printf "dbname='%s'" "$(replace "$(replace "$1" \\ \\\\)" "'" "\\'")"; }

# write_passfile writes the credential $1 into the file $2 as libpq reads it, each time it connects, so that no process has
# it in its arguments or its environment. More than one process may write it at a time.
write_passfile() {
  local text new
  text=$(credential "$1") || return
  new=$(mktemp "$2.XXXXXX") || return # which nobody else may read
  printf '*:*:*:*:%s\n' "$(replace "$(replace "$text" \\ \\\\)" : '\:')" >"$new" && mv -f "$new" "$2"
}

# follow_with is the passfile with which a replica connects to the primary.
follow_with() { printf '%s/.pgpass' "$SOCKETS"; }
