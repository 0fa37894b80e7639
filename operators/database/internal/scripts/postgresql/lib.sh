# shellcheck shell=bash
# What the scripts of PostgreSQL share. Each begins with: set -euo pipefail.
#
# They run in the image of the server, as whoever owns the data directory, and are told by the environment:
#   PGDATA            the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      where the primary listens
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     its owner
#   CREDENTIALS       a directory with the files password, superuser-password and replication-password
#   SOCKETS           a directory for sockets that nobody else reaches
#   CONFIG            a directory with the user's settings, in files that end in .conf

# say writes a line with the name of the script before it.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# give_up says why and how to go on, also to whoever looks at the pod, and ends the script.
give_up() {
  say "$*"
  if [ -w "${TERMINATION_LOG:-/dev/termination-log}" ]; then
    printf '%s\n' "$*" >"${TERMINATION_LOG:-/dev/termination-log}"
  fi
  exit 1
}

# major prints the major version of the server's programs.
major() { postgres --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/'; }

# check_major refuses data of another major version: no server can read them.
check_major() {
  local has wants
  has=$(<"$PGDATA/PG_VERSION")
  wants=$(major)
  if [ "$has" != "$wants" ]; then
    give_up "the data are of PostgreSQL $has and the image is $wants: go back to version $has, or make a new Database" \
      "of version $wants with bootstrapFrom"
  fi
}

# put_in_place makes the finished directory $1 the data directory, at once and for good.
put_in_place() {
  sync -f "$1"
  mv -T "$1" "$PGDATA"
  sync -f "$PGDATA/.."
}
