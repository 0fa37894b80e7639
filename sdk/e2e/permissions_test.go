package e2e

import (
	"context"
	"errors"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/testkit"
)

// permissionRow is a row of the table in docs/permissions.md.
type permissionRow struct {
	feature, resource string
	verbs             []string
}

func permissionTable(t *testing.T) []permissionRow {
	t.Helper()
	text, err := os.ReadFile("../../docs/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []permissionRow
	for _, m := range regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "feature" {
			rows = append(rows, permissionRow{m[1], m[2], strings.Split(strings.ReplaceAll(m[3], "`", ""), ", ")})
		}
	}
	return rows
}

// rulesOf returns the rules of the rows for every operator, and of others for a resource.
func rulesOf(table []permissionRow, resource string, verbs []string, own ...string) []rbacv1.PolicyRule {
	all := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}}
	if len(own) > 0 {
		all = append(all, rbacv1.PolicyRule{APIGroups: []string{"e2e.homeostat.dev"}, Resources: []string{"sites"}, Verbs: own})
	}
	for _, row := range table {
		rule := rbacv1.PolicyRule{APIGroups: []string{"e2e.homeostat.dev"}, Resources: []string{"sites"}, Verbs: row.verbs}
		switch {
		case row.feature != "every operator":
			continue
		case strings.Contains(row.resource, "status"):
			rule.Resources = []string{"sites/status"}
		case strings.Contains(row.resource, "events"):
			rule.APIGroups = []string{"events.k8s.io"}
			rule.Resources = []string{"events"}
		}
		all = append(all, rule)
	}
	return all
}

// A permissionCase uses the features of rows, on objects of one resource.
type permissionCase struct {
	features []string
	resource string
	op       *siteOperator
	existing client.Object // before the site
	change   bool          // spec.extra is set later
	deletes  bool
	proves   string // the feature whose verbs are withdrawn one by one
}

func permissionCases() map[string]permissionCase {
	const (
		apply  = "`Apply`"
		prune  = "a child that is not applied any more"
		adopt  = "another object has the child's name, `Adopt`"
		finish = "`Finalize`, `External`, children in other namespaces"
	)
	applying := func(opts ...sdk.ApplyOption) *siteOperator {
		return operator(func(_ context.Context, p *pass) error {
			if !p.Object.Spec.Extra {
				sdk.Apply(p, configMap(p.Object, "child"), opts...)
			}
			return nil
		})
	}
	finalizing := applying()
	finalizing.Finalize = func(context.Context, *pass) error { return nil }
	orphaning := applying()
	orphaning.Orphan = func(client.Object) bool { return true }
	observing := operator(func(_ context.Context, p *pass) error {
		p.Object.Status.Seen = int64(len(sdk.Observed(p, &corev1.ConfigMap{})))
		return nil
	})
	observing.Observes = []client.Object{&corev1.ConfigMap{}}
	existing := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child"}}
	return map[string]permissionCase{
		"apply": {proves: apply, features: []string{apply}, resource: "configmaps", op: applying()},
		"prune": {proves: prune, features: []string{apply, prune}, resource: "configmaps", op: applying(), change: true},
		"adopt": {
			proves: adopt, features: []string{apply, adopt}, resource: "configmaps", op: applying(sdk.Adopt()), existing: existing,
		},
		"finalize": {features: []string{apply, finish}, resource: "configmaps", op: finalizing, deletes: true},
		"orphan":   {features: []string{apply}, resource: "configmaps", op: orphaning, change: true},
		"hold":     {features: []string{apply}, resource: "configmaps", op: applying(sdk.HoldUntil(false))},
		"ref": {
			features: []string{"`Ref`, `Find`"}, resource: "configmaps", existing: existing,
			op: operator(func(_ context.Context, p *pass) error {
				_, err := sdk.Ref(p, named(&corev1.ConfigMap{}, "child"))
				return err
			}),
		},
		"get": {
			proves: "`GetLive`, `Derive`", features: []string{"`Ref`, `Find`", "`GetLive`, `Derive`"},
			resource: "configmaps", existing: existing,
			op: operator(func(ctx context.Context, p *pass) error {
				found, err := sdk.Ref(p, metadataOf("child"))
				if err == nil {
					_, err = sdk.GetLive[*corev1.ConfigMap](ctx, p, found)
				}
				return err
			}),
		},
		"observe": {features: []string{"`Observed`"}, resource: "configmaps", op: observing},
	}
}

// metadataOf returns the metadata of a ConfigMap to read.
func metadataOf(name string) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	return o
}

// Each feature works with the verbs that the table lists for it, and lacks each of the writes and gets if it is not listed.
func TestPermissions(t *testing.T) {
	t.Parallel()
	table := permissionTable(t)
	tested := map[string]bool{"every operator": true}
	for name, c := range permissionCases() {
		var verbs, own, withdraw []string
		for _, row := range table {
			if !slices.Contains(c.features, row.feature) {
				continue
			}
			tested[row.feature] = true
			if row.resource == "the custom resource" {
				own = append(own, row.verbs...)
			} else {
				verbs = append(verbs, row.verbs...)
			}
			if row.feature == c.proves {
				// Without list or watch nothing is read, and no request of a reconcile is rejected.
				withdraw = append(withdraw, slices.DeleteFunc(slices.Clone(row.verbs), func(v string) bool {
					return v == "list" || v == "watch"
				})...)
			}
		}
		c.op.Owns = nil
		if slices.Contains(verbs, "create") {
			c.op.Owns = []client.Object{&corev1.ConfigMap{}}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.testWorks(t, rulesOf(table, c.resource, verbs, own...))
		})
		for _, missing := range withdraw {
			t.Run(name+"/without "+missing, func(t *testing.T) {
				t.Parallel()
				fewer := slices.DeleteFunc(slices.Clone(verbs), func(v string) bool { return v == missing })
				c.testFails(t, rulesOf(table, c.resource, fewer, own...), missing)
			})
		}
	}
	for _, row := range table {
		if !tested[row.feature] {
			t.Errorf("no case for the feature %q", row.feature)
		}
	}
}

// testWorks uses the features with these rules.
func (c permissionCase) testWorks(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	k := testkit.New(t, testkit.WithoutOracles("rights are missing on purpose", "forbidden"))
	running := c.start(k, rules)
	s := newSite("a")
	k.Apply(s)
	k.Eventually(s, testkit.Ready())
	if c.change {
		k.Update(s, func() { s.Spec.Extra = true })
		k.Eventually(s, testkit.Ready())
	}
	if c.deletes {
		k.Delete(s)
		k.Eventually(s, testkit.Gone())
	}
	if request := rejectedRequest(running); request != "" {
		t.Errorf("%s with the rules %v", request, rules)
	}
}

// testFails checks that a request is forbidden without a verb.
func (c permissionCase) testFails(t *testing.T, rules []rbacv1.PolicyRule, missing string) {
	t.Helper()
	k := testkit.New(t, testkit.WithoutOracles("rights are missing on purpose", "forbidden"))
	running := c.start(k, rules)
	s := newSite("a")
	k.Apply(s)
	if missing == "delete" {
		k.Eventually(s, testkit.Ready())
		k.Update(s, func() { s.Spec.Extra = true })
	}
	k.Wait("a request is forbidden", func(context.Context) error {
		if rejectedRequest(running) == "" {
			return errors.New("none is")
		}
		return nil
	})
}

func (c permissionCase) start(k *testkit.K, rules []rbacv1.PolicyRule) *testkit.Instance {
	if c.existing != nil {
		existing, _ := c.existing.DeepCopyObject().(client.Object)
		k.Apply(existing)
	}
	return start(k, c.op, withRules(k, rules))
}

// rejectedRequest returns a request of the operator that its rights do not allow, or "".
func rejectedRequest(running *testkit.Instance) string {
	for _, r := range running.Requests() {
		if r.Code == http.StatusForbidden && r.Namespace != "" {
			return r.String()
		}
	}
	return ""
}
