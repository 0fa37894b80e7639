#!/usr/bin/env bash
# Types the attacks of docs/security.md as users with the shipped roles, on the cluster of KUBECONFIG, which must have the
# operators copyrator, configrollout and database as `make up` installs them. Prints a line for each finding:
#
#   S1   ok: ...       the attack gains nothing
#   S1   HARM: ...     it does harm; the exit code is 1
#   S22  open: ...     this cluster cannot tell, and why
#   S3   error: ...    the attack could not be made; the exit code is 2
#
# Usage: attacks.sh [S1 S2 ...]. All objects are in namespaces attacks-*, except for rules in the namespace of Copyrator, and
# are deleted at the end. S22_WAIT is the time in seconds for which S22 waits, 30 by default; S14_OBJECTS
# is the number of ConfigMaps of 1 MB that S14 creates, 40 by default.
set -uo pipefail

readonly all=(S1 S2 S3 S6 S7 S8 S13 S14 S15 S16 S22 S23 S24)
readonly evil=attacks-evil victim=attacks-victim friend=attacks-friend
readonly tmp=$(mktemp -d)

k() { kubectl --request-timeout=60s "$@" 2>>"$tmp/log"; }
eve() { k --as=eve -n "$evil" "$@"; } # roles edit and copyrator-edit in one namespace
frank() { k --as=frank -n "$friend" "$@"; } # role edit in a namespace that accepts copies
vic() { k -n "$victim" "$@"; } # a team that has not consented

# Each attack runs in a subshell and ends with one of these.
verdict() { printf '%-4s %s: %s\n' "$attack" "$1" "$2"; echo "$1" >>"$tmp/verdicts"; exit 0; }
ok() { verdict ok "$*"; }
harm() { verdict HARM "$*"; }
open() { verdict open "$*"; }
must() { "$@" >/dev/null || verdict error "\`$*\` failed: $(tail -n 1 "$tmp/log")"; }

# await SECONDS COMMAND ... repeats a command until it succeeds.
await() {
  local end=$((SECONDS + $1))
  shift
  until "$@" >/dev/null; do
    [ "$SECONDS" -lt "$end" ] || return 1
    sleep 0.2
  done
}
expect() { await 60 "$@" || verdict error "waited in vain for \`$*\`"; }
not() { ! "$@"; }

# These succeed if the object in a namespace, a KIND/NAME, exists, or a field of it is, or contains, a text.
exists() { [ -n "$(k -n "$1" get "$2" --ignore-not-found -o name)" ]; }
is() { [ "$(k -n "$1" get "$2" --ignore-not-found -o jsonpath="$3")" = "$4" ]; }
has() { [[ "$(k -n "$1" get "$2" --ignore-not-found -o jsonpath="$3")" == *"$4"* ]]; }
deleted() { ! exists "$1" "$2" || ! is "$1" "$2" '{.metadata.deletionTimestamp}' ''; }
condition() { is "$1" "$2" "{.status.conditions[?(@.type==\"$3\")].status}" "$4"; }
reconciled() {
  local generation
  generation=$(k -n "$1" get "$2" -o jsonpath='{.metadata.generation}')
  is "$1" "$2" '{.status.observedGeneration}' "$generation" && ! condition "$1" "$2" Reconciling True
}

rights() { k create rolebinding "$2-$3" -n "$1" --clusterrole="$3" --user="$2" >/dev/null; }

# rule NAMESPACE NAME FIELDS applies a CopyratorRule, in eve's namespace as eve.
rule() {
  local as=()
  [ "$1" != "$evil" ] || as=(--as=eve)
  k "${as[@]}" apply -f - <<<"{apiVersion: flant.com/v1, kind: CopyratorRule,
    metadata: {name: $2, namespace: $1}, ruleType: configmap, selector: {attack: $2}, $3}"
}

# source NAMESPACE NAME RULE VALUE applies a source of a rule.
source_of() {
  local as=()
  [ "$1" != "$evil" ] || as=(--as=eve)
  k "${as[@]}" apply -f - <<<"{apiVersion: v1, kind: ConfigMap,
    metadata: {name: $2, namespace: $1, labels: {attack: $3}}, data: {key: $4}}"
}

# database NAMESPACE NAME FIELDS applies a Database with one member.
database() {
  k apply -f - <<<"{apiVersion: techoral.com/v1, kind: Database, metadata: {name: $2, namespace: $1},
    spec: {engine: postgresql, version: '16', storage: 1Gi, replicas: 1, backupEnabled: false${3:+, $3}}}"
}

# marked KIND NAME DATABASE FIELDS applies an object with the labels of a child, like a copy into the victim's namespace.
marked() {
  k apply --server-side --field-manager=copyrator -f - <<<"{apiVersion: v1, kind: $1, $4, metadata: {name: $2,
    namespace: $victim, labels: {app.kubernetes.io/instance: $3, app.kubernetes.io/managed-by: database, app: $3}}}"
}

S1() {
  must source_of "$evil" coredns-custom s1 "eve's"
  must rule "$evil" s1 "targetNamespaces: [kube-system, $victim, $friend]"
  must rule "$evil" s1-label "targetNamespaces: [$friend], labels: {add: {argocd.argoproj.io/secret-type: cluster}}"
  expect is "$friend" cm/coredns-custom '{.data.key}' "eve's"
  expect reconciled "$evil" copyrators/s1
  expect reconciled "$evil" copyrators/s1-label
  if exists kube-system cm/coredns-custom; then
    k -n kube-system delete cm coredns-custom >/dev/null
    harm "eve has written ConfigMap coredns-custom into kube-system"
  fi
  ! exists "$victim" cm/coredns-custom || harm "eve has written into a namespace that accepts no copies"
  condition "$evil" copyrators/s1-label Stalled True || harm "a copy may have the label argocd.argoproj.io/secret-type"
  ok "eve's rule copies to the namespace that accepts its copies only, and with no foreign label"
}

S2() {
  must marked Secret orders-db-credentials orders \
    'stringData: {password: known, superuser-password: known, replication-password: known}'
  must marked ConfigMap bills-db-config bills 'data: {begun: "true"}'
  must database "$victim" orders
  must database "$victim" bills
  for db in orders bills; do
    await 60 condition "$victim" "databases/$db" Stalled True || harm "Database $db uses an object that it has not made"
    ! exists "$victim" "sts/$db-db" || harm "Database $db runs with an object that it has not made"
  done
  must vic delete secret/orders-db-credentials cm/bills-db-config
  for db in orders bills; do
    expect condition "$victim" "databases/$db" Ready True
  done
  ! is "$victim" secret/orders-db-credentials '{.data.password}' "$(printf known | base64)" || harm "the password is eve's"
  must vic delete databases orders bills
  ok "planted credentials and a planted ConfigMap are not used: the Database says so, and works when they are gone"
}

S3() {
  must vic create service clusterip shop-db --tcp=5432:5432
  must vic label service shop-db app.kubernetes.io/instance=shop app.kubernetes.io/managed-by=Helm
  local uid selector
  uid=$(vic get service shop-db -o jsonpath='{.metadata.uid}')
  selector=$(vic get service shop-db -o jsonpath='{.spec.selector}')
  must database "$victim" shop 'deletionPolicy: Delete'
  await 60 condition "$victim" databases/shop Stalled True || harm "the Database takes Service shop-db of the release over"
  is "$victim" service/shop-db '{.spec.selector}' "$selector" || harm "the selector of the release's Service has changed"
  must vic delete database shop
  # A child is collected in the same moment, so that the Service has had its time.
  expect not exists "$victim" secret/shop-db-credentials
  is "$victim" service/shop-db '{.metadata.uid}' "$uid" || harm "Service shop-db was deleted with the Database"
  ok "the Service of a release with the Database's name stays as it was, also when the Database is deleted"
}

# kept NAMESPACE CLAIM succeeds if the claim exists and is not being deleted.
kept() { exists "$1" "$2" && ! deleted "$1" "$2"; }

S6() {
  local refused=0 n
  for n in snapshot protected; do
    must k create namespace "attacks-$n"
    must k create configmap witness -n "attacks-$n"
  done
  must database attacks-snapshot keep 'deletionPolicy: Snapshot'
  must database attacks-protected keep 'deletionProtection: true'
  for n in snapshot protected; do
    expect condition "attacks-$n" databases/keep Ready True
  done
  for n in snapshot protected; do
    if ! k delete namespace "attacks-$n" --wait=false >/dev/null; then
      refused=$((refused + 1))
      kept "attacks-$n" pvc/data-keep-db-0 || harm "the claim of $n is being deleted"
      continue
    fi
    expect not exists "attacks-$n" cm/witness # the namespace is being emptied
    expect deleted "attacks-$n" secret/keep-db-credentials
    kept "attacks-$n" pvc/data-keep-db-0 || harm "kubectl delete namespace attacks-$n deletes the data without a copy"
  done
  [ "$refused" = 2 ] || harm "kubectl delete namespace deletes the credentials of a database whose data are kept"
  ok "the deletion of a namespace with data under deletionPolicy Snapshot, or under deletionProtection, is refused"
}

S7() {
  for i in $(seq 110); do
    printf -- '---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: s7-%d, labels: {attack: s7}}}\n' "$i"
  done >"$tmp/sources"
  must eve create -f "$tmp/sources"
  must rule "$evil" s7 "targetNamespaces: [$friend]"
  must source_of "$copyrator" attacks-s7-other attacks-s7-other "the administrator's"
  must rule "$copyrator" attacks-s7-other "targetNamespaces: [$victim]"
  await 60 is "$victim" cm/attacks-s7-other '{.data.key}' "the administrator's" || harm "the rules of others wait for eve's"
  await 60 condition "$evil" copyrators/s7 Limited True || harm "the number of sources of a rule has no limit"
  expect is "$evil" copyrators/s7 '{.status.synced}' 100
  local copies
  copies=$(k -n "$friend" get cm -o name | grep -c /s7-)
  [ "$copies" = 100 ] || harm "eve's rule has made $copies copies, and the limit is 100"
  ok "a rule with 110 sources makes 100 copies and reports the limit, and other rules are served"
}

S8() {
  must source_of "$evil" s8 s8 first
  must source_of "$evil" s8-control s8 first
  must rule "$evil" s8 "targetNamespaces: [$friend]"
  expect is "$friend" cm/s8 '{.data.key}' first
  expect is "$friend" cm/s8-control '{.data.key}' first
  must frank apply -f - <<<'{apiVersion: v1, kind: ConfigMap, metadata: {name: no-s8,
    labels: {copyrator.flant.com/refuse: ""}, annotations: {copyrator.flant.com/refuse: s8}}}'
  await 60 not exists "$friend" cm/s8 || harm "an editor of the target namespace cannot refuse the copy"
  must source_of "$evil" s8 s8 second
  must source_of "$evil" s8-control s8 second
  expect is "$friend" cm/s8-control '{.data.key}' second
  ! exists "$friend" cm/s8 || harm "the refused copy comes back"
  must frank create configmap s8
  must source_of "$evil" s8-control s8 third
  expect is "$friend" cm/s8-control '{.data.key}' third
  is "$friend" cm/s8 '{.data.key}' '' || harm "eve's rule takes the name of the refused copy"
  ok "an editor of the target namespace refuses a copy, and it stays away"
}

S13() {
  local reference='{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"0-0"}]}}'
  must k create namespace attacks-owner
  must database attacks-owner keep 'deletionProtection: true'
  must k create role patch-claims -n attacks-owner --verb=get,patch --resource=persistentvolumeclaims
  must k create rolebinding mallory -n attacks-owner --role=patch-claims --user=mallory
  expect condition attacks-owner databases/keep Ready True
  must k apply -n attacks-owner -f - <<<'{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: control},
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}'
  expect k --as=mallory -n attacks-owner patch pvc control -p '{}'
  if ! k --as=mallory -n attacks-owner patch pvc data-keep-db-0 --type=merge -p "$reference" >/dev/null; then
    ok "a reference to an owner that does not exist is refused on a protected claim"
  fi
  # The control is collected later, so that the claim has had its time.
  must k --as=mallory -n attacks-owner patch pvc control --type=merge -p "$reference"
  await 90 not exists attacks-owner pvc/control || open "this cluster collects no garbage"
  kept attacks-owner pvc/data-keep-db-0 || harm "a protected claim with a forged owner reference is collected"
  ok "a protected claim with a forged owner reference is not collected"
}

S14() {
  local objects=${S14_OBJECTS:-40} pid before='' after='' big
  pid=$(pgrep -f '/database --leader-elect=false --metrics' | head -n 1)
  [ -z "$pid" ] || before=$(($(ps -o rss= -p "$pid") / 1024))
  big=$(head -c 1000000 /dev/zero | tr '\0' x)
  for i in $(seq "$objects"); do
    printf '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s14-%d","labels":%s},"data":{"x":"%s"}}\n' \
      "$i" '{"app.kubernetes.io/managed-by":"database"}' "$big"
  done >"$tmp/large"
  must eve create -f "$tmp/large"
  must database "$victim" s14
  await 60 condition "$victim" databases/s14 Ready True || harm "the operator does not reconcile a Database any more"
  if [ -n "$pid" ]; then
    after=$(ps -o rss= -p "$pid") || harm "the operator's process has ended"
    before=", its resident memory has gone from $before to $((after / 1024)) MiB"
  fi
  must vic delete database s14
  ok "$objects ConfigMaps of 1 MB with the operator's label: it serves others$before"
}

S15() {
  must source_of "$copyrator" attacks-s15 attacks-s15 x
  must rule "$copyrator" attacks-s15 "targetNamespaces: [$friend]"
  expect is "$friend" cm/attacks-s15 '{.data.key}' x
  must frank patch cm attacks-s15 --type=merge -p '{"metadata":{"finalizers":["frank.example/hold"]}}'
  must k -n "$copyrator" delete copyrators attacks-s15 --wait=false
  await 60 not exists "$copyrator" copyrators/attacks-s15
  local gone=$?
  must frank patch cm attacks-s15 --type=merge -p '{"metadata":{"finalizers":null}}'
  [ "$gone" = 0 ] || harm "a finalizer on a copy holds up the deletion of the rule"
  ok "a rule is deleted although a user of a target namespace holds its copy"
}

S16() {
  must vic create configmap attacks-s16 --from-literal=key=theirs
  must source_of "$copyrator" attacks-s16 attacks-s16 ours
  must rule "$copyrator" attacks-s16 "conflictPolicy: Overwrite, targetNamespaces: [$victim, kube-system]"
  expect is "$victim" cm/attacks-s16 '{.data.key}' ours
  expect reconciled "$copyrator" copyrators/attacks-s16
  if exists kube-system cm/attacks-s16; then
    k -n kube-system delete cm attacks-s16 >/dev/null
    harm "the rule writes into kube-system"
  fi
  must k -n "$copyrator" delete copyrators attacks-s16
  kept "$victim" cm/attacks-s16 || harm "the object that the rule took over was deleted with the rule"
  ok "an object that a rule took over is handed back when the rule is deleted"
}

# watched NAMESPACE NAME NODES prints a Deployment that restarts when its ConfigMap changes.
watched() {
  printf -- '---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: %s, annotations: {
    rollout.homeostat.dev/enabled: "true", rollout.homeostat.dev/quiet-period: 0s, rollout.homeostat.dev/priority: "%s"}},
    spec: {selector: {matchLabels: {app: %s}}, progressDeadlineSeconds: 2147483646, template: {metadata: {labels: {app: %s}},
    spec: {nodeSelector: {%s}, containers: [{name: c, image: app, envFrom: [{configMapRef: {name: conf}}]}]}}}}\n' \
    "$2" "$1" "$4" "$2" "$2" "$3"
}

adopted() { has "$1" "deploy/$2" '{.metadata.annotations}' rollout.homeostat.dev/observed; }
rolling() { has "$1" "deploy/$2" '{.spec.template.metadata.annotations}' rollout.homeostat.dev; }

S22() {
  local n name
  trap 'for n in 1 2 3 4 5; do k -n "attacks-evil-$n" delete deploy --all; done >/dev/null' EXIT # they hold slots
  for n in 1 2 3 4 5; do
    must k create namespace "attacks-evil-$n"
    rights "attacks-evil-$n" eve edit
    must k create configmap conf -n "attacks-evil-$n" --from-literal=a=1
    for name in a b; do
      watched "attacks-evil-$n" "$name" 'no: node' 1000
    done
  done >"$tmp/deployments"
  expect k --as=eve -n attacks-evil-5 get deployments
  must k --as=eve create -f "$tmp/deployments"
  must frank create configmap conf --from-literal=a=1
  watched "$friend" mine '' 0 >"$tmp/mine"
  must frank create -f "$tmp/mine"
  expect adopted "$friend" mine
  expect k -n "$friend" rollout status deploy/mine --timeout=1s
  for n in 1 2 3 4 5; do
    expect adopted "attacks-evil-$n" a
    expect adopted "attacks-evil-$n" b
  done
  for n in 1 2 3 4 5; do
    must k --as=eve -n "attacks-evil-$n" patch cm conf -p '{"data":{"a":"2"}}'
  done
  for n in 1 2 3 4 5; do
    expect rolling "attacks-evil-$n" a
    expect rolling "attacks-evil-$n" b
  done
  must frank patch cm conf -p '{"data":{"a":"2"}}'
  await "${S22_WAIT:-30}" rolling "$friend" mine &&
    ok "ten rollouts of eve that never end do not block the rollout of another tenant"
  [ "${S22_WAIT:-30}" -lt 1900 ] || harm "ten rollouts of eve that never end block the rollout of another tenant"
  open "ten rollouts that never end hold all slots for --max-rollout-deadline, 30 minutes by default; try S22_WAIT=1900"
}

S23() {
  must vic create secret generic pin --from-literal=pin=1234
  must vic create configmap conf --from-literal=a=1
  watched "$victim" s23 '' 0 | sed 's/envFrom: \[/&{secretRef: {name: pin}}, /' >"$tmp/s23"
  must vic create -f "$tmp/s23"
  expect adopted "$victim" s23
  must vic patch secret pin -p '{"stringData":{"pin":"5678"}}'
  must vic patch cm conf -p '{"data":{"a":"2"}}'
  expect rolling "$victim" s23
  rights "$victim" vera view
  expect k --as=vera -n "$victim" get deployments
  local seen guess value
  seen=$(k --as=vera -n "$victim" get deploy,copyrators,databases -o yaml)
  for value in 1234 5678; do
    for guess in "$value" "pin$value" "pin=$value" "{\"pin\":\"$value\"}" "$(printf %s "$value" | base64)"; do
      guess=$(printf %s "$guess" | sha256sum)
      [[ $seen != *"${guess:0:12}"* ]] || harm "a viewer sees the digest of a Secret"
    done
  done
  k auth can-i get secrets -A --as=system:serviceaccount:configrollout-operator:configrollout-operator >/dev/null &&
    ok "a viewer sees no digest of a Secret without a key"
  ok "a viewer sees no digest of a Secret; the operator of this cluster reads none"
}

planned() { condition "$evil" "copyrators/$1" DryRun True; }

S24() {
  must vic create configmap s24-there
  for target in "$victim" attacks-nowhere; do
    must source_of "$evil" s24-there "s24-$target" x
    must rule "$evil" "s24-$target" "dryRun: true, targetNamespaces: [$target]"
    expect planned "s24-$target"
    eve get copyrators "s24-$target" -o jsonpath='{.status}' |
      sed "s/$target/X/g; s/\"[0-9-]*T[0-9:]*Z\"/T/g; s/\"digest\":\"[^\"]*\"//" >"$tmp/$target"
  done
  must rule "$evil" s24-all 'dryRun: true, targetNamespaces: ["*"]'
  expect planned s24-all
  cmp -s "$tmp/$victim" "$tmp/attacks-nowhere" || harm "the status of a rule tells whether a namespace exists"
  has "$evil" copyrators/s24-all '{.status}' "$victim" && harm "the plan of a rule names namespaces that eve may not see"
  ok "the status of a rule does not tell which namespaces exist"
}

set_up() {
  for n in "$evil" "$victim" "$friend"; do
    k create namespace "$n" >/dev/null || return
  done
  k annotate namespace "$friend" "copyrator.flant.com/accept-from=$evil" >/dev/null || return
  rights "$evil" eve edit && rights "$evil" eve copyrator-edit && rights "$evil" eve copyrator-view &&
    rights "$friend" frank edit && await 30 eve get copyrators && await 30 frank get configmaps
}

namespaces() { k get namespaces -o name | grep '^namespace/attacks-'; }

tear_down() {
  local n
  k -n "$copyrator" get copyrators,cm -o name | grep /attacks- | xargs -r kubectl -n "$copyrator" delete >/dev/null 2>&1
  for n in $(namespaces); do
    n=${n#*/}
    patch_databases "$n" '{"spec":{"deletionProtection":false,"deletionPolicy":"Delete"}}'
    k -n "$n" delete databases --all --wait=false >/dev/null
    await 30 no_databases "$n" || patch_databases "$n" '{"metadata":{"finalizers":null}}'
    k -n "$n" label pvc --all techoral.com/deletion-protection- >/dev/null
    await 30 k delete namespace "$n" --wait=false
  done
  await 120 not namespaces || echo "These namespaces are left: $(namespaces | tr '\n' ' ')" >&2
  rm -rf "$tmp"
}

no_databases() { [ -z "$(k -n "$1" get databases -o name)" ]; }

patch_databases() {
  k -n "$1" get databases -o name | xargs -r -I{} kubectl -n "$1" patch {} --type=merge -p "$2" >/dev/null 2>&1
}

copyrator=$(k get namespaces -o name | sed -n 's|^namespace/\(copyrator.*\)|\1|p' | head -n 1)
if [ -z "$copyrator" ] || ! k get databases -A >/dev/null; then
  echo "attacks: there are no operators on this cluster, or no cluster: start one with make up" >&2
  exit 2
fi
if namespaces >/dev/null; then
  echo "attacks: there are namespaces attacks-* already: delete them" >&2
  exit 2
fi
trap tear_down EXIT
set_up || { echo "attacks: $(tail -n 1 "$tmp/log")" >&2; exit 2; }
for attack in "${@:-${all[@]}}"; do
  declare -F "$attack" >/dev/null || { echo "attacks: there is no attack $attack" >&2; exit 2; }
  ("$attack") || echo error >>"$tmp/verdicts"
done
! grep -q HARM "$tmp/verdicts" || exit 1
! grep -q error "$tmp/verdicts" || exit 2
