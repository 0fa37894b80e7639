# shellcheck shell=bash
# What the scripts of all engines share. Each begins with: set -euo pipefail. They use bash, what coreutils and busybox have
# in common, sed, gzip and the programs of the server, because images have no more.
#
# A signal that asks a script to end ends what it runs, too. Bash alone would wait for that, for hours if it is a dump.
trap 'trap "" TERM INT; kill 0; wait; exit 143' TERM INT

# say writes a line with the name of the script before it.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# tell writes what came of a script where whoever looks at the pod finds it.
tell() {
  if [ -w "${TERMINATION_LOG:-/dev/termination-log}" ]; then
    printf '%s\n' "$*" >"${TERMINATION_LOG:-/dev/termination-log}"
  fi
}

# give_up says why and how to go on, also to whoever looks at the pod, and ends the script.
give_up() {
  say "$*"
  tell "$*"
  exit 1
}

# replace prints $1 with $3 in place of each $2. What bash has for that treats backslashes differently in each version.
replace() {
  local rest=$1 text=''
  while [[ $rest == *"$2"* ]]; do
    text+=${rest%%"$2"*}$3
    rest=${rest#*"$2"}
  done
  printf '%s' "$text$rest"
}

# attend runs a command, or a function in a shell of its own, and hears signals meanwhile.
attend() {
  "$@" <&0 &
  wait "$!"
}

# pause waits for $1 seconds, and hears signals meanwhile.
pause() { attend sleep "$1"; }

# patiently runs a command until it succeeds, for PATIENCE seconds (120): a server that is being restarted answers soon.
patiently() {
  local began
  began=$(date +%s)
  until "$@"; do
    if [ "$(($(date +%s) - began))" -ge "${PATIENCE:-120}" ]; then
      return 1
    fi
    pause 1
  done
}

# credential prints one of the files in CREDENTIALS, which has one line.
credential() {
  local text
  [ -r "$CREDENTIALS/$1" ] || give_up "there is no credential $1"
  text=$(<"$CREDENTIALS/$1")
  case $text in
  '') give_up "the credential $1 is empty" ;;
  *$'\n'*) give_up "the credential $1 has more than one line" ;;
  esac
  printf '%s' "$text"
}

# check_credentials gives up here, because what ends in the middle of a text for the server does not end the script.
check_credentials() {
  local name
  for name; do
    credential "$name" >/dev/null
  done
}

# settle returns when all that was written to the file system of $1 will survive the loss of the node.
settle() {
  if sync -f / 2>/dev/null; then
    sync -f "$1"
  else
    sync
  fi
}

# put_in_place makes the finished directory $1 the directory $2, at once and for good.
put_in_place() {
  settle "$1"
  mv -T "$1" "$2"
  settle "$2/.."
}

# age prints how many seconds ago the file $1 was written.
age() { printf '%d' "$(($(date +%s) - $(stat -c %Y "$1")))"; }

# A replica is of use while it follows the primary, and for GRACE seconds (300) after: were it not, a restart of the primary
# would take all replicas away. The file $1 remembers, through restarts of the replica, when it was last seen to follow; one
# that never did is of no use. follows tells whether a replica is of use, by whether it follows now, which is $2.
follows() {
  if [ "$2" = yes ]; then
    touch "$1" 2>/dev/null || true # on a full disk it follows all the same
  elif [ ! -e "$1" ]; then
    say "it has not followed the primary yet"
    return 1
  elif [ "$(age "$1")" -ge "${GRACE:-300}" ]; then
    say "it has not followed the primary for $(age "$1") s"
    return 1
  fi
}

# check_begun refuses to make data for a primary that had some. BEGUN is a file that is there if it had, if it is set.
check_begun() {
  if [ -n "${BEGUN:-}" ] && [ -e "$BEGUN" ]; then
    give_up "the primary had data, and its volume is empty: restore the volume, or make a new Database with bootstrapFrom;" \
      "to begin with an empty database instead, annotate the Database with techoral.com/begin-anew=true"
  fi
}
