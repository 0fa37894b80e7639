#!/usr/bin/env bash
# Deletes dumps, and tells as one line of JSON which are left, the newest first. It is told by
#   BACKUPS  the directory of the dumps
#   NAMES    those to delete, with blanks between them; none to tell only
#   LAST     the one for which they may go: without it they stay; none if there is to be none
# A dump that is held stays. One that is not there was deleted before.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "${BASH_SOURCE[0]%/*}/common.sh"
# shellcheck source-path=SCRIPTDIR source=dumps.sh
. "${BASH_SOURCE[0]%/*}/dumps.sh"

read -r -a names <<<"${NAMES:-}"
for name in "${names[@]}"; do
  check_name "$name"
done
[ -z "${LAST:-}" ] || complete "$BACKUPS/$LAST" || names=()
for name in "${names[@]}"; do
  if complete "$BACKUPS/$name" && ! held "$name"; then
    discard "$name"
  fi
done

# Kubernetes cuts a message of more than 4096 bytes; the rest of a list that long is only counted. Names need no escapes.
left='' held='' more=0
while read -r name; do
  if [ $((${#left} + ${#held} + 2 * ${#name})) -gt 3900 ]; then
    more=$((more + 1))
    continue
  fi
  left+=",\"$name\""
  if held "$name"; then
    held+=",\"$name\""
  fi
done < <(dumps)
result=$(printf '{"left":[%s],"held":[%s],"more":%d}' "${left#,}" "${held#,}" "$more")
printf '%s\n' "$result"
tell "$result"
