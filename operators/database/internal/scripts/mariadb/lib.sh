# shellcheck shell=bash
# What the scripts of MariaDB share. Each begins with: set -euo pipefail.
#
# They run in the image of the server, as whoever owns the data directory, and are told by the environment:
#   DATADIR           the data directory; it exists if and only if it is complete
#   MEMBER            the ordinal of this member; 0 is the primary
#   PRIMARY_HOST      where the primary listens
#   PRIMARY_PORT      the port of all members
#   DATABASE          the name of the database
#   DATABASE_USER     its owner
#   CREDENTIALS       a directory with the files password, superuser-password and replication-password
#   SOCKETS           a directory for sockets that nobody else reaches
#   CONFIG            a directory with the user's settings, in files that end in .cnf

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

# series prints the series of the server's programs, such as 10.11.
series() { mariadbd --version | sed -E 's/.* Ver ([0-9]+\.[0-9]+).*/\1/'; }

# check_series refuses data of a later series: a server upgrades those of an earlier one, and never goes back.
check_series() {
  local has wants
  has=$(<"$DATADIR/series")
  wants=$(series)
  if [ "$(printf '%s\n%s\n' "$has" "$wants" | sort -V | tail -n 1)" != "$wants" ]; then
    give_up "the data are of MariaDB $has and the image is $wants: go back to version $has"
  fi
}

# settings prints the arguments by which no file but the user's is read.
settings() { printf '%s\n' "--no-defaults" "--datadir=$1" "--socket=$SOCKETS/mariadb.sock" "--pid-file=$SOCKETS/mariadb.pid"; }

# put_in_place makes the finished directory $1 the data directory, at once and for good.
put_in_place() {
  sync -f "$1"
  mv -T "$1" "$DATADIR"
  sync -f "$DATADIR/.."
}
