#!/usr/bin/env bash
# Deletes dumps, and writes the remaining ones, newest first, as one line of JSON. Variables:
#   BACKUPS  the directory of the dumps
#   NAMES    the dumps to delete, separated by blanks; none to list only
#   LAST     the dump that has to exist before others are deleted; empty: no condition
# A dump on hold stays. A missing one was deleted before.
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

# Kubernetes truncates a message after 4096 bytes; the rest of a longer list is only counted. Names need no escapes.
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
