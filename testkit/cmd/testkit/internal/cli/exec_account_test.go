package cli_test

import (
	"os"
	"path/filepath"
	"testing"
)

const execPolicy = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: op, namespace: system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: op}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: op}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: op}
subjects: [{kind: ServiceAccount, name: op, namespace: system}]
`

const execCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.exec.homeostat.dev}
spec:
  group: exec.homeostat.dev
  scope: Namespaced
  names: {kind: Gadget, plural: gadgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// The command runs as a ServiceAccount with the rights of its roles, and finds the custom resources.
func TestExecAsServiceAccount(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	w.keepControlPlane()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	policy, crd := write("rbac.yaml", execPolicy), write("crd.yaml", execCRD)
	token := `TOKEN=$(sed -n 's/ *token: //p' "$KUBECONFIG"); SERVER=$(sed -n 's/ *server: //p' "$KUBECONFIG"); `
	get := func(path string) string {
		return token + `curl -sk -o /dev/null -w '%{http_code} ' -H "Authorization: Bearer $TOKEN" "$SERVER` + path + `"; `
	}
	for name, tt := range map[string]struct {
		reason string
		args   []string
		code   int
		want   string
	}{
		"Rights": {
			"it may do what its roles allow, and nothing else",
			[]string{"--rbac", policy, "--", "sh", "-c", get("/api/v1/configmaps") + get("/api/v1/secrets")},
			0, "200 403",
		},
		"Definitions": {
			"the custom resource is served, to an administrator",
			[]string{"--crd", crd, "--", "sh", "-c", get("/apis/exec.homeostat.dev/v1/gadgets")},
			0, "200",
		},
		"Admin": {
			"a test may need an administrator beside it",
			[]string{
				"--rbac", policy, "--", "sh", "-c",
				`echo "$NAMESPACE $POD_NAMESPACE"; export KUBECONFIG="$TESTKIT_ADMIN_KUBECONFIG"; ` + get("/api/v1/secrets"),
			},
			0, "200",
		},
		"Namespace": {"it has a namespace", []string{"--rbac", policy, "--", "sh", "-c", `echo "in $NAMESPACE"`}, 0, "in exec-"},
		"NoRoles": {
			"an account without files", []string{"--service-account", "op", "--", "true"}, 2, "give their files with --rbac",
		},
		"Unknown": {
			"an account that the files lack",
			[]string{"--rbac", policy, "--service-account", "other", "--", "true"},
			2, "the files have op",
		},
	} {
		check(t, name+", because "+tt.reason, w.run(append([]string{"exec"}, tt.args...)...), tt.code, tt.want)
	}
}
