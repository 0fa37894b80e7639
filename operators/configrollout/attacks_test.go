package configrollout_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/configrollout"
	"github.com/homeostat-dev/homeostat/testkit"
)

// attack is one attempt of eve, in a namespace of its own.
type attack struct {
	*tenant

	op        *testkit.Instance
	name      string
	namespace int
}

// deploy creates Deployments as eve.
func (a *attack) deploy(all ...*appsv1.Deployment) {
	for _, d := range all {
		a.create(a.namespace, d)
	}
}

// expect waits for the checks of an object.
func (a *attack) expect(o client.Object, checks ...testkit.Check) {
	a.t.Helper()
	a.t.Logf("%s: %s", a.name, o.GetName())
	a.k.Eventually(o, checks...)
}

func (a *attack) errorf(format string, args ...any) {
	a.t.Helper()
	a.t.Errorf(a.name+": "+format, args...)
}

// forged sets annotations of the operator on a Deployment that is in the middle of a rollout, as far as they say.
func forged(d *appsv1.Deployment, last map[string]any) *appsv1.Deployment {
	digest := "sha256:" + strings.Repeat("ab", 32)
	all := map[string]any{"time": time.Now().UTC(), "sources": []string{"ConfigMap/conf"}, "toDigest": digest}
	maps.Copy(all, last)
	text, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	d.Annotations[prefix+"observed-digest"] = digest
	d.Annotations[prefix+"observed-sources"] = "0123456789ab,0123456789ab=0123456789ab"
	d.Annotations[prefix+"last-rollout"] = string(text)
	d.Spec.Template.Annotations = map[string]string{prefix + "config-digest": digest}
	return d
}

// manyConfigMaps uses that number of ConfigMaps.
func manyConfigMaps(d *appsv1.Deployment, n int) *appsv1.Deployment {
	c := &d.Spec.Template.Spec.Containers[0]
	for i := range n {
		c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("none-%d", i)},
		}})
	}
	return d
}

// attacks are what eve tries in her own namespaces. Each checks what happens to her own objects. TestTenantAttacks checks
// that another tenant notices nothing.
var attacks = map[string]func(*attack){
	"rollouts in progress that the operator did not start": func(a *attack) {
		for i := range 11 {
			a.deploy(forged(stuck(fmt.Sprintf("d%d", i), "conf", "enabled", "false"), nil))
		}
		for i := range 11 { // they are not released, because eve writes the annotations again and again
			d := forged(stuck(fmt.Sprintf("e%d", i), "conf", "on-failure", "Continue", "quiet-period", "24h"), nil)
			a.deploy(d)
			a.expect(d, isPending())
		}
	},
	"counts and times that no version of the operator writes": func(a *attack) {
		a.create(a.namespace, configMap("counted", "a", "1"))
		var all []client.Object
		for _, name := range []string{"negative", "great", "early", "late"} {
			all = append(all, deployment(name, "counted", "quiet-period", "0s"))
		}
		a.adopt(a.namespace, all...)
		a.change(a.namespace, "counted", "a", "2")
		for _, o := range all {
			a.expect(o, rolledFrom(""))
			digest, last := digestOf(o), map[string]any{
				"negative": map[string]any{"reverts": -5, "updated": -1, "more": -1},
				"great":    map[string]any{"reverts": 1<<63 - 1, "more": 1<<63 - 1},
				"early":    map[string]any{"time": "0001-01-01T00:00:00Z", "progressed": "0001-01-01T00:00:01Z"},
				"late":     map[string]any{"time": "9999-12-31T23:59:59Z", "progressed": "9999-12-31T23:59:59Z"},
			}[o.GetName()].(map[string]any)
			a.update(o, func() {
				last["toDigest"] = digest
				text, _ := json.Marshal(last)
				o.GetAnnotations()[prefix+"last-rollout"] = string(text)
				o.GetAnnotations()[prefix+"pending-since"] = "0001-01-01T00:00:00.000Z"
				delete(podTemplate(o).Annotations, prefix+"config-digest") // so that the operator looks at the counts
			})
			a.expect(o, rolledFrom("")) // it is restored
		}
	},
	"failures that hold others": func(a *attack) {
		for i := range 15 {
			a.deploy(forged(deployment(fmt.Sprintf("d%d", i), "conf"), map[string]any{"result": "Failed", "more": 1}))
		}
	},
	"names with a path": func(a *attack) {
		victim := a.k.Namespace
		for i, name := range []string{
			"..", "../secrets/token", "%2e%2e", victim + "/conf", "../../" + victim + "/configmaps/conf",
		} {
			d := deployment(fmt.Sprintf("d%d", i), name)
			a.deploy(d)
			a.expect(d, state("ConfigMissing: ConfigMap/"+name))
		}
		d := deployment("by-annotation", "conf", "configmaps", victim+"/conf")
		a.deploy(d)
		a.expect(d, state("InvalidAnnotation: "+prefix+"configmaps"))
	},
	"thousands of ConfigMaps": func(a *attack) {
		many, huge := manyConfigMaps(deployment("many", "conf"), 200), manyConfigMaps(deployment("huge", "conf"), 5000)
		named := deployment("named", "conf", "configmaps", strings.Repeat("a,b,c,", 20_000))
		a.deploy(many, huge, named)
		a.expect(many, state("TooManyReferences: it uses 201 ConfigMaps and Secrets"))
		a.expect(huge, state("TooManyReferences: its pod template has more than 4096"))
		a.expect(named, state("is longer than 4096 bytes"))
		n := 0 // not those of the other attacks, which go on
		for _, r := range a.op.Requests() {
			if r.Namespace == a.namespaces[a.namespace] {
				n++
			}
		}
		if n > 60 {
			a.errorf("the operator sent %d requests", n)
		}
	},
	"annotations as large as possible": func(a *attack) {
		d := deployment("a", "conf")
		for _, name := range []string{
			"configmaps", "secrets", "ignore", "hot-reload", "window", "on-failure", "dry-run", "priority", "quiet-period",
			"state", "observed-digest", "observed-sources", "last-rollout", "pending-digest",
		} {
			d.Annotations[prefix+name] = strings.Repeat("x", 10_000)
		}
		for i := range 200 {
			d.Annotations[fmt.Sprintf("%sx%062d", prefix, i)] = "x"
		}
		d.Spec.Template.Annotations = map[string]string{prefix + "config-digest": strings.Repeat("x", 100_000)}
		a.deploy(d)
		a.expect(d, state("InvalidAnnotation: "+prefix+"configmaps"))
		for name, value := range d.Annotations {
			if strings.HasPrefix(name, prefix) && value != strings.Repeat("x", 10_000) && len(value) > 5000 {
				a.errorf("the operator wrote %d bytes to %s", len(value), name)
			}
		}
		for i := range 3 {
			cm := configMap(fmt.Sprintf("large-%d", i))
			cm.Annotations = map[string]string{"example.com/a": strings.Repeat("x", 250_000)}
			a.create(a.namespace, cm)
		}
	},
	"a ConfigMap with 10,000 keys": func(a *attack) {
		cm := configMap("keys")
		for i := range 10_000 {
			cm.Data[strconv.Itoa(i)] = ""
		}
		a.create(a.namespace, cm)
		d := deployment("a", "keys", "quiet-period", "0s")
		a.adopt(a.namespace, d)
		a.change(a.namespace, "keys", "a", "2")
		a.expect(d, rolledFrom(""))
	},
	"windows that read files or never end": func(a *attack) {
		for i, window := range []string{
			"* * * * *;1h;../../etc/passwd", "* * * * *;1h;/etc/passwd", "TZ=/etc/passwd * * * * *;1h", "0 0 30 2 *;1h",
			"* * * * *;99999999h", "0-59/0 * * * *;1h", "@every 1ns;1h", strings.Repeat("0,", 2000) + "0 * * * *;1h;" + "x",
		} {
			d := deployment(fmt.Sprintf("d%d", i), "conf", "window", window)
			a.deploy(d)
			a.expect(d, state("InvalidAnnotation: "+prefix+"window"))
		}
	},
	"text for the readers of states and events": func(a *attack) {
		d := deployment("a", "conf", "on-failure", "x\n\x1b[2JRolloutCompleted: all is well\u202e\n")
		a.deploy(d)
		a.expect(d, state("InvalidAnnotation"))
		for _, text := range []string{d.Annotations[prefix+"state"], waitEvent(a.k, d, "InvalidAnnotation")} {
			if strings.ContainsAny(text, "\n\x1b\u202e") {
				a.errorf("it says %q", text)
			}
		}
	},
	"a template by Rollback": func(a *attack) {
		evil := strings.Repeat("x", 300)
		d := forged(stuck("a", "conf", "on-failure", "Rollback"), map[string]any{
			"templateBefore": evil, "time": time.Now().Add(-time.Hour).UTC(),
		})
		a.deploy(d)
		a.expect(d, testkit.Match("recorded", func(o client.Object) bool {
			return pending(o) || lastRollout(a.t, o).Result != ""
		}))
		if got := d.Spec.Template.Spec.Containers; len(got) != 1 || got[0].Image != "nginx:1.21" {
			a.errorf("the containers are %v", got)
		}
	},
	"changes without a pause": func(a *attack) {
		a.create(a.namespace, configMap("fast", "a", "0"))
		var all []client.Object
		for i := range 5 {
			all = append(all, deployment(fmt.Sprintf("d%d", i), "fast", "quiet-period", "0s", "priority", "1000"))
		}
		a.adopt(a.namespace, all...)
		for i := range 30 {
			a.change(a.namespace, "fast", "a", strconv.Itoa(i+1))
		}
	},
}

// None of the attacks of eve in her namespaces stops the rollouts of another tenant with objects of the same names, or makes
// the operator read or write anything beyond its workloads and their sources.
func TestTenantAttacks(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	e := newTenant(t, k, len(attacks))
	op := e.start(func(o *configrollout.Options) {
		o.RolloutDeadline = time.Second
		o.MaxRolloutDeadline = 3 * time.Second
	})
	k.Apply(configMap("conf", "a", "1"))
	mine := deployment("d0", "conf")
	adopt(k, mine)
	for i, name := range slices.Sorted(maps.Keys(attacks)) {
		a := &attack{tenant: e, op: op, name: name, namespace: i}
		e.create(i, configMap("conf", "a", "1"))
		attacks[name](a)
	}
	k.Get(mine)
	before := digestOf(mine)
	if before != "" {
		t.Error("it is rolled without a change")
	}
	change(k, "conf", "a", "2")
	k.Eventually(mine, rolledFrom(before), result("Completed"), state(""))
	for _, r := range op.Requests() {
		allowed := r.Resource == "configmaps" && r.Verb == "get" || r.Resource == "events" || r.Verb == "patch" ||
			r.Verb == "list" || r.Namespace == ""
		if !allowed || r.Namespace != "" && r.Namespace != k.Namespace && !slices.Contains(e.namespaces, r.Namespace) {
			t.Errorf("the operator sent %v", r)
		}
	}
}
