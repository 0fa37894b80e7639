# shellcheck shell=bash
# Common functions of the scripts for all engines. Each script begins with: set -euo pipefail. They use bash, the common
# subset of coreutils and busybox, sed, gzip and the programs of the server, because images have no more.
#
# A signal to a script ends its children as well. Bash alone would wait for them, for hours in the case of a dump.
trap 'trap "" TERM INT; kill 0; wait; exit 143' TERM INT

# say writes a line to standard error, prefixed with the name of the script.
say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# tell writes the termination message.
tell() {
  if [ -w "${TERMINATION_LOG:-/dev/termination-log}" ]; then
    printf '%s\n' "$*" >"${TERMINATION_LOG:-/dev/termination-log}"
  fi
}

# give_up writes the cause and the remedy to standard error and the termination log, and ends the script.
give_up() {
  say "$*"
  tell "$*"
  exit 1
}

# replace prints $1 with $3 in place of each $2. Parameter expansion treats backslashes differently in each version of bash.
replace() {
  local rest=$1 text=''
  while [[ $rest == *"$2"* ]]; do
    text+=${rest%%"$2"*}$3
    rest=${rest#*"$2"}
  done
  printf '%s' "$text$rest"
}

# attend runs a command, or a function in a subshell, and handles signals meanwhile.
attend() {
  "$@" <&0 &
  wait "$!"
}

# pause waits for $1 seconds, and handles signals meanwhile.
pause() { attend sleep "$1"; }

# patiently retries a command until it succeeds, for PATIENCE seconds (120), because a server may be restarting.
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

# credential prints a file of CREDENTIALS, which must have one line.
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

# read_credential sets the variable $2 to the credential $1, without a process. It changes nothing if the credential is missing,
# empty or has several lines.
read_credential() {
  local text=''
  if [ -r "$CREDENTIALS/$1" ]; then
    text=$(<"$CREDENTIALS/$1")
  fi
  case $text in
  '' | *$'\n'*) ;;
  *) printf -v "$2" '%s' "$text" ;;
  esac
}

# check_credentials checks the named credentials in advance: a failure inside of a here document would not end the script.
check_credentials() {
  local name
  for name; do
    credential "$name" >/dev/null
  done
}

# settle syncs the file system of $1 to disk.
settle() {
  if sync -f / 2>/dev/null; then
    sync -f "$1"
  else
    sync
  fi
}

# put_in_place renames the complete directory $1 to $2, atomically and durably.
put_in_place() {
  settle "$1"
  mv -T "$1" "$2"
  settle "$2/.."
}

# age prints the age of the file $1 in seconds.
age() { printf '%d' "$(($(date +%s) - $(stat -c %Y "$1")))"; }

# follows succeeds if a replica is ready: if it follows the primary now ($2 is yes), or did so in the last GRACE seconds
# (300). Without this period, a restart of the primary would make all replicas unready. The file $1 has the time at which the
# replica followed last, and survives restarts. A replica that never followed is not ready.
follows() {
  if [ "$2" = yes ]; then
    : 2>/dev/null >"$1" || true # as touch, without a process; ignore a full disk
  elif [ ! -e "$1" ]; then
    say "it has not followed the primary yet"
    return 1
  elif [ "$(age "$1")" -ge "${GRACE:-300}" ]; then
    say "it has not followed the primary for $(age "$1") s"
    return 1
  fi
}

# serve runs a server, passes signals on to it, and returns its status. The script stays process 1 of the container and reaps
# processes whose parent has ended, such as the client of a probe that took too long. PostgreSQL as process 1 would take a
# failed one for a process of its own and end all sessions. MariaDB would leave them as zombies.
serve() {
  local server status=0 signaled='' name
  "$@" <&0 &
  server=$!
  for name in TERM INT QUIT HUP; do
    # shellcheck disable=SC2064 # expanded now
    trap "signaled=yes; kill -$name $server 2>/dev/null || true" "$name"
  done
  while
    signaled=''
    wait "$server" || status=$?
    [ -n "$signaled" ] # wait has returned because of the signal
  do
    status=0
  done
  return "$status"
}

# lock_data takes the lock of the data directory $1 until this process and its children, as a server, have ended. The file is
# outside of the data directory. Process IDs and shared memory do not protect the data: another container has its own.
lock_data() {
  command -v flock >/dev/null || give_up "the image has no flock, which keeps a second server off the data: use another image"
  exec {lock}>>"$1.lock" || give_up "nothing can be written beside $1"
  flock -n "$lock" ||
    give_up "another container uses the data in $1: wait until the former pod of this member has ended, or end it on its node"
}

# check_begun rejects an empty volume for a primary that had data. The file BEGUN, if set, exists if it had.
check_begun() {
  if [ -n "${BEGUN:-}" ] && [ -e "$BEGUN" ]; then
    give_up "the primary had data, and its volume is empty: restore the volume; or recover the data from a replica: annotate" \
      "the Database with techoral.com/recover-from-member=<number of a replica>; or begin with an empty database: annotate it" \
      "with techoral.com/begin-anew=<UID of claim data-$HOSTNAME> (kubectl get pvc data-$HOSTNAME -o jsonpath={.metadata.uid})"
  fi
}

# reject_replica rejects the data of a replica for the primary.
reject_replica() {
  give_up "the data of member 0 are those of a replica: return the volume to its member, then annotate the Database with" \
    "techoral.com/recover-from-member=<number of the member>"
}

# repeat_copy repeats a command that copies the primary until it succeeds. Partial data are in $1. The primary of a new
# Database is made at the same time as its replicas, so that the pauses of the first half minute are short.
repeat_copy() {
  local wait
  until "${@:2}"; do
    wait=5
    if [ "$SECONDS" -lt 30 ]; then
      wait=1
    fi
    say "the primary cannot be copied yet; trying again in $wait s"
    rm -rf "$1"
    pause "$wait"
  done
}

# recovered calls recover with the host name of a replica, until it succeeds or until the user no longer asks for it. The
# file RECOVER_FROM has the host name, and exists while the user asks for it. Partial data are in $1.
recovered() {
  local from
  while [ -n "${RECOVER_FROM:-}" ] && [ -s "$RECOVER_FROM" ]; do
    from=$(<"$RECOVER_FROM")
    say "the data of the replica $from become those of the primary"
    if recover "$from"; then
      return
    fi
    say "the replica $from cannot be copied yet; trying again in 5 s"
    rm -rf "$1"
    pause 5
  done
  return 1
}
