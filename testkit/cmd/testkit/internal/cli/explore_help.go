package cli

const exploreUsage = `testkit explore runs an operator, a program in any language, through a scenario many times, each time
with another fault, and reports the rules that it violates.

  testkit explore [--crd FILE] --scenario FILE [OPTION ...] -- COMMAND [ARGUMENT ...]

The program gets its cluster by KUBECONFIG and the namespace of the run by NAMESPACE, POD_NAMESPACE and WATCH_NAMESPACE. In
its arguments these are replaced: {kubeconfig}, {namespace}, {namespace:NAME} for a further namespace of the scenario, and
{port} or {port:NAME} for a free port.

Input:
  --crd FILE                  a file or folder with CustomResourceDefinitions, perhaps beside other objects; may be repeated
  --scenario FILE             the steps of a user: see SCENARIO below
  --rbac FILE                 a file or folder with the operator's roles: it has these permissions and no others; may be
                              repeated
  --service-account NAME      the ServiceAccount of the operator, if the roles are for several
  --webhooks FILE             a file or folder with configurations of admission webhooks, perhaps beside other objects: the
                              program has to serve them at the address in WEBHOOK_BIND_ADDRESS, with the certificate in the
                              folder WEBHOOK_CERT_DIR; may be repeated
  --workloads                 run controllers and simulated nodes, so that a Deployment gets pods and pods run
  --name NAME                 the name of the operator in the report; the default is that of the program or the script

Plans (a plan is one fault at one moment):
  --fault KIND                only this kind of faults, for example crash; may be repeated
  --only PLAN                 only this plan, by its name in a report; may be repeated; none: no fault
  --list                      list the plans and try none
  --sample N                  try at most N plans: the first of each fault, then the second ones
  --budget 10m                start no plan later than this after the runs without a fault; the same order
  --stop-at-first             start no plan after a failed one
  --continue FILE             do not repeat the plans of a JSON report, and take over their results
  --parallel N                runs at a time; 1 for an operator that cannot run twice on a machine
  --seed N                    the order of the plans

Rules:
  --without RULE              switch a rule off, for example writes-at-rest; may be repeated
  --allow-residue RESOURCE    these, for example persistentvolumeclaims, may outlive the custom resource; may be repeated
  --externally-managed PLACE  the operator sets this, for example deployments.apps/web.spec.replicas, at creation only;
                              may be repeated
  --irreplaceable OBJECT      the operator cannot create this, for example secrets/web, again as it was; may be repeated
  --quiet-period 1s           the time without a write after which the operator counts as idle; five times that for one
                              that polls
  --timeout 30s               the time within which the operator must reach the state that it reaches without a fault; the
                              default is longer if a failed write is repeated later than after 10 s

Report:
  --report FILE               write .html, .xml (JUnit), .json or .txt as well; may be repeated
  --timeline                  the timelines of passed runs as well

Exit code: 0 if no run failed, 1 if one did, 2 for a mistake in the input, 3 if the exploration could not be made.

A SCENARIO is a YAML file. After each step the operator becomes idle, and the state is compared:

  namespaces: [team-a]        # further namespaces; {namespace} and {namespace:team-a} stand for the real names
  setup: [config.yaml]        # applied before the operator starts
  steps:
  - name: create
    apply: sample.yaml
    wait: {condition: Ready}
  - name: scale
    patch: {kind: Database, name: orders, merge: {spec: {replicas: 3}}}
    wait:
    - {kind: StatefulSet, name: orders, field: status.replicas, value: 3, timeout: 1m}
    - {kind: Secret, namespace: team-a, count: 1, labels: {app: orders}}
  - name: delete
    delete: {kind: Database, name: orders}
    wait: {exists: false}
  never:                      # states that must never exist
  - {kind: Pod, labels: {role: primary}, count: 2}

A wait has condition (Ready or Ready=False, with an optional reason), field (with value, or with exists: false), exists, or
count (with optional labels). It is about the object of the step, or about the one of kind, namespace and name. A
cluster-scoped object of a step needs a name with {namespace}.
`
