package mutants_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/mutants"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// TestWitness checks that each mutant has a bug: there is a situation in which it misbehaves and its twin does not.
func TestWitness(t *testing.T) {
	t.Parallel()
	twins := map[string]mutants.Mutant{}
	for _, m := range mutants.CorrectTwins() {
		twins[m.Class] = m
	}
	all := maps.Clone(witnesses)
	maps.Copy(all, objectWitnesses)
	maps.Copy(all, requestWitnesses)
	for _, m := range mutants.All() {
		witness, ok := all[m.Name]
		if !ok {
			t.Errorf("%s has no witness", m.Name)
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if err := witness(begin(t, m)); err == nil {
				t.Errorf("the mutant behaves correctly, but has the bug: %s", m.Description)
			} else {
				t.Logf("%s\n%v", m.Description, err)
			}
		})
		t.Run(m.Name+"'s twin", func(t *testing.T) {
			t.Parallel()
			if err := witness(begin(t, twins[m.Class])); err != nil {
				t.Errorf("the twin misbehaves, too: %v", err)
			}
		})
	}
}

// A witness creates a situation and returns the misbehavior.
type witness func(r *run) error

var witnesses = map[string]witness{
	"hot-loop/progressing":    staysIdle,
	"hot-loop/last-sync-time": staysIdle,
	"hot-loop/map-order":      staysIdle,

	"crash/id-later": func(r *run) error {
		r.crash(true, creates("configmaps"), func() { r.Apply(snapshot()) })
		r.ready(snapshot())
		r.Delete(snapshot())
		return r.eventually(r.has())
	},
	"crash/finalizer-later": func(r *run) error {
		r.net.set(nil, func(req *http.Request) error {
			if !creates("configmaps")(req) {
				return nil
			}
			s := snapshot()
			s.Namespace = r.Namespace
			return r.Client.Delete(req.Context(), s)
		})
		r.Apply(snapshot())
		r.until("create", "configmaps", 1)
		r.Eventually(snapshot(), testkit.Gone())
		return r.eventually(r.has())
	},
	"crash/observed-first": func(r *run) error {
		r.crash(false, creates("configmaps"), func() { r.Apply(snapshot()) })
		return r.eventually(r.meets(snapshot(), testkit.Ready()))
	},

	"stale-cache/generated-name": func(r *run) error {
		release := r.delayEventsWhenIdle("configmaps")
		r.Apply(cache("size=1"))
		r.until("create", "configmaps", 3) // there are two shards
		release()
		return r.hasSent("create", "configmaps", 2)
	},
	"stale-cache/delete-by-name": func(r *run) error {
		r.ready(r.Apply(cache("size=1")))
		release := r.delayEventsWhenIdle("configmaps")
		r.Apply(cache("size=2"))
		r.until("delete", "configmaps", 3)
		release()
		return r.hasSent("delete", "configmaps", 2)
	},
	"stale-cache/overwrite": func(r *run) error {
		release := r.delayEventsWhenIdle("secrets")
		r.Apply(cache("size=1"))
		r.until("create", "secrets", 3)
		release()
		return r.hasSent("update", "secrets", 0)
	},

	"missed-state/memory": func(r *run) error {
		r.ready(r.Apply(route("shop", "a.example", "b.example")))
		r.restart(func() { r.Apply(route("shop", "a.example")) })
		return r.eventually(r.hasData("routes", map[string]string{"a.example": "shop"}))
	},
	"missed-state/on-delete": func(r *run) error {
		r.ready(r.Apply(route("shop", "a.example")))
		r.ready(r.Apply(route("blog", "b.example")))
		r.restart(func() { r.Delete(route("blog")) })
		return r.eventually(r.hasData("routes", map[string]string{"a.example": "shop"}))
	},
	"missed-state/skip-ready": func(r *run) error {
		r.ready(r.Apply(route("shop", "a.example")))
		r.restart(func() { r.Apply(route("shop", "b.example")) })
		return r.eventually(r.hasData("routes", map[string]string{"b.example": "shop"}))
	},

	"path-dependence/merge": func(r *run) error {
		r.ready(r.Apply(proxy(v1.ProxySpec{Settings: map[string]string{"timeout": "1s", "trace": "on"}})))
		r.ready(r.Apply(proxy(v1.ProxySpec{Settings: map[string]string{"timeout": "1s"}})))
		return r.eventually(r.hasData("p", map[string]string{"timeout": "1s"}))
	},
	"path-dependence/keep-optional": func(r *run) error {
		some := map[string]string{"timeout": "1s"}
		r.ready(r.Apply(proxy(v1.ProxySpec{Settings: some, Metrics: true})))
		r.ready(r.Apply(proxy(v1.ProxySpec{Settings: some})))
		return r.eventually(r.meets(service("p-metrics"), testkit.Gone()))
	},
	"path-dependence/frozen-once": func(r *run) error {
		r.ready(r.Apply(proxy(v1.ProxySpec{Settings: map[string]string{"timeout": "1s"}, Frozen: true})))
		r.Apply(proxy(v1.ProxySpec{Settings: map[string]string{"timeout": "2s"}, Frozen: true}))
		return r.eventually(r.hasData("p", map[string]string{"timeout": "2s"}))
	},

	"deletion/needs-credentials": func(r *run) error {
		r.archive(1)
		r.Delete(secret())
		r.Eventually(archive(0), testkit.Reason("Ready", "False", "NoCredentials"))
		r.Delete(archive(0))
		return r.eventually(r.meets(archive(0), testkit.Gone()))
	},
	"deletion/by-spec": func(r *run) error {
		r.archive(3)
		r.restart(func() {
			r.Apply(archive(1))
			r.Delete(archive(0))
		})
		r.Eventually(archive(0), testkit.Gone())
		return r.eventually(r.has())
	},
	"deletion/not-found": func(r *run) error {
		r.archive(1)
		r.crash(true, deletes("configmaps", "a-index"), func() { r.Delete(archive(0)) })
		return r.eventually(r.meets(archive(0), testkit.Gone()))
	},

	"rbac/no-delete": func(r *run) error {
		r.ready(r.Apply(website(true, "hello")))
		r.Apply(website(false, "hello"))
		return r.eventually(r.meets(service("w"), testkit.Gone()))
	},
	"rbac/no-status": func(r *run) error {
		r.Apply(website(true, "hello"))
		return r.eventually(r.meets(website(true, ""), testkit.Ready()))
	},
	"rbac/wildcard": func(r *run) error {
		for _, rule := range granted(r.t, r.m) {
			if strings.Contains(rule, "*") {
				return fmt.Errorf("it may %s", rule)
			}
		}
		return nil
	},

	"drift/no-owns": func(r *run) error {
		r.ready(r.Apply(website(true, "hello")))
		r.Delete(service("w"))
		return r.eventually(r.meets(service("w"), testkit.Exists()))
	},
	"drift/swallowed-error": func(r *run) error {
		r.ready(r.Apply(website(false, "hello")))
		if err := r.waitIdle(); err != nil {
			return err
		}
		r.net.failOnce(creates("services"))
		r.Apply(website(true, "hello"))
		return r.eventually(r.meets(service("w"), testkit.Exists()))
	},
	"drift/clobber": func(r *run) error {
		const theirs = "example.com/reloaded"
		cm := &corev1.ConfigMap{}
		cm.Name = "w"
		r.ready(r.Apply(website(false, "hello")))
		r.Update(cm, func() { cm.Annotations[theirs] = "yes" })
		r.ready(r.Apply(website(false, "hello, world")))
		return r.eventually(r.meets(cm, testkit.Match("annotated", func(cm *corev1.ConfigMap) bool {
			return cm.Annotations[theirs] == "yes"
		})))
	},
}

// staysIdle checks that an operator becomes idle, and that restarts cause no changes.
func staysIdle(r *run) error {
	some := map[string]string{}
	for i := range 9 {
		some[string(rune('A'+i))] = "value"
	}
	b := &v1.Backup{Spec: v1.BackupSpec{Schedule: "daily", Env: some, Options: some}}
	b.Name = "b"
	r.ready(r.Apply(b))
	if err := r.waitIdle(); err != nil {
		return err
	}
	before := r.versions()
	for range 3 {
		r.restart(func() {})
		if err := r.waitIdle(); err != nil {
			return err
		}
	}
	if diff := cmp.Diff(before, r.versions()); diff != "" {
		return fmt.Errorf("versions before and after restarts (-before +after):\n%s", diff)
	}
	return nil
}

// versions returns the resource versions of a Backup and its children.
func (r *run) versions() map[string]string {
	r.t.Helper()
	versions := map[string]string{}
	for _, kind := range []string{"v1/ConfigMap", "batch/v1/CronJob", "mutants.homeostat.dev/v1/Backup"} {
		i := strings.LastIndex(kind, "/")
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind[:i])
		list.SetKind(kind[i+1:] + "List")
		if err := r.Client.List(r.Context(), list, client.InNamespace(r.Namespace)); err != nil {
			r.t.Fatal(err)
		}
		for _, o := range list.Items {
			versions[o.GetKind()+" "+o.GetName()] = o.GetResourceVersion()
		}
	}
	return versions
}

// delayEventsWhenIdle delays the watch events of a resource, from an idle moment on.
func (r *run) delayEventsWhenIdle(resource string) (release func()) {
	r.t.Helper()
	other := cache("")
	other.Name = "other"
	r.ready(r.Apply(other))
	if err := r.waitIdle(); err != nil {
		r.t.Fatal(err)
	}
	r.op.Recorder().Reset()
	return r.net.delayEvents(resource)
}

// hasSent checks that the operator, once idle, has sent exactly n successful requests of a kind.
func (r *run) hasSent(verb, resource string, n int) error {
	r.ready(cache(""))
	if err := r.waitIdle(); err != nil {
		return err
	}
	code := http.StatusOK
	if verb == "create" {
		code = http.StatusCreated
	}
	if got := r.count(verb, resource, code); got != n {
		return fmt.Errorf("it did %s %d %s, want %d", verb, got, resource, n)
	}
	return nil
}

// hasData returns a check of the content of a ConfigMap.
func (r *run) hasData(name string, want map[string]string) func(context.Context) error {
	return func(ctx context.Context) error {
		all, err := r.configMaps(ctx)
		if diff := cmp.Diff(want, all[name]); err == nil && diff != "" {
			err = fmt.Errorf("content of %s (-want +got):\n%s", name, diff)
		}
		return err
	}
}

// archive creates an Archive and its credentials.
func (r *run) archive(copies int32) {
	r.t.Helper()
	r.Apply(secret())
	r.ready(r.Apply(archive(copies)))
}

func snapshot() *v1.Snapshot {
	s := &v1.Snapshot{Spec: v1.SnapshotSpec{Volume: "data"}}
	s.Name = "s"
	return s
}

func cache(config string) *v1.Cache {
	c := &v1.Cache{Spec: v1.CacheSpec{Shards: 2, Config: config}}
	c.Name = "c"
	return c
}

func route(name string, hosts ...string) *v1.Route {
	r := &v1.Route{Spec: v1.RouteSpec{Hosts: hosts}}
	r.Name = name
	return r
}

func proxy(spec v1.ProxySpec) *v1.Proxy {
	p := &v1.Proxy{Spec: spec}
	p.Name = "p"
	return p
}

func archive(copies int32) *v1.Archive {
	a := &v1.Archive{Spec: v1.ArchiveSpec{Copies: copies, Credentials: "signing"}}
	a.Name = "a"
	return a
}

func secret() *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{"key": []byte("secret")}}
	s.Name = "signing"
	return s
}

func website(exposed bool, content string) *v1.Website {
	w := &v1.Website{Spec: v1.WebsiteSpec{Exposed: exposed, Files: map[string]string{"index.html": content}}}
	w.Name = "w"
	return w
}

func service(name string) *corev1.Service {
	s := &corev1.Service{}
	s.Name = name
	return s
}
