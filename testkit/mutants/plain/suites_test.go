package plain_test

import (
	"context"
	"fmt"
	"maps"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func newConfigMap(name string) *corev1.ConfigMap { return &corev1.ConfigMap{ObjectMeta: meta(name)} }
func newSecret(name string) *corev1.Secret       { return &corev1.Secret{ObjectMeta: meta(name)} }
func newService(name string) *corev1.Service     { return &corev1.Service{ObjectMeta: meta(name)} }

// contains waits until a ConfigMap has this content.
func contains(k *testkit.K, name string, want map[string]string) {
	k.Eventually(newConfigMap(name), testkit.Match(fmt.Sprint(want), func(cm *corev1.ConfigMap) bool {
		return maps.Equal(cm.Data, want)
	}))
}

// labelled waits until there are n ConfigMaps with a label, and all of them are good.
func labelled(k *testkit.K, key, value string, n int, good func(*corev1.ConfigMap) bool) {
	k.Wait(fmt.Sprintf("there are %d ConfigMaps with label %s=%s", n, key, value), func(ctx context.Context) error {
		list := &corev1.ConfigMapList{}
		err := k.Client.List(ctx, list, client.InNamespace(k.Namespace), client.MatchingLabels{key: value})
		switch {
		case err != nil:
			return err
		case len(list.Items) != n:
			return fmt.Errorf("there are %d", len(list.Items))
		}
		for i := range list.Items {
			if good != nil && !good(&list.Items[i]) {
				return fmt.Errorf("%s is %v", list.Items[i].Name, list.Items[i].Data)
			}
		}
		return nil
	})
}

// isRecreated deletes a child and waits until there is another one.
func isRecreated(k *testkit.K, child client.Object) {
	k.Get(child)
	old := child.GetUID()
	k.Delete(child)
	again := child.DeepCopyObject().(client.Object)
	again.SetUID("")
	k.Eventually(again, testkit.Check{Name: "made again", Missing: func(obj client.Object) string {
		if obj == nil || obj.GetUID() == old {
			return "it is not there"
		}
		return ""
	}})
}

// isDeleted deletes an object and waits until it and its children are gone.
func isDeleted(k *testkit.K, obj client.Object, children ...client.Object) {
	k.Delete(obj)
	k.Eventually(obj, testkit.Gone())
	for _, child := range children {
		k.Eventually(child, testkit.Gone())
	}
}

func newBackup(schedule string) *v1.Backup {
	return &v1.Backup{ObjectMeta: meta("b"), Spec: v1.BackupSpec{
		Schedule: schedule, Env: map[string]string{"LEVEL": "9"}, Options: map[string]string{"keep": "7"},
	}}
}

var backup = []test{
	{"creates a CronJob and its options", func(k *testkit.K) {
		b := k.Apply(newBackup("daily"))
		k.Eventually(&batchv1.CronJob{ObjectMeta: meta("b")}, testkit.Match("as specified", func(j *batchv1.CronJob) bool {
			c := j.Spec.JobTemplate.Spec.Template.Spec.Containers[0]
			return j.Spec.Schedule == "@daily" && cmp.Equal(c.Env, []corev1.EnvVar{{Name: "LEVEL", Value: "9"}}) &&
				metav1.IsControlledBy(j, b)
		}))
		contains(k, "b-options", map[string]string{"options": "keep=7\n"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newBackup(""), testkit.Ready()) }},
	{"changes the schedule", func(k *testkit.K) {
		k.Apply(newBackup("hourly"))
		k.Eventually(&batchv1.CronJob{ObjectMeta: meta("b")}, testkit.Match("hourly", func(j *batchv1.CronJob) bool {
			return j.Spec.Schedule == "@hourly"
		}))
		k.Eventually(newBackup(""), testkit.Ready())
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, &batchv1.CronJob{ObjectMeta: meta("b")}) }},
	{"goes with its children", func(k *testkit.K) {
		isDeleted(k, newBackup(""), &batchv1.CronJob{ObjectMeta: meta("b")}, newConfigMap("b-options"))
	}},
}

func newSnapshot(volume string) *v1.Snapshot {
	return &v1.Snapshot{ObjectMeta: meta("s"), Spec: v1.SnapshotSpec{Volume: volume}}
}

var snapshot = []test{
	{"makes a copy", func(k *testkit.K) {
		k.Apply(newSnapshot("data"))
		labelled(k, "snapshot", "s", 1, func(cm *corev1.ConfigMap) bool { return cm.Data["volume"] == "data" })
	}},
	{"becomes ready", func(k *testkit.K) {
		s := newSnapshot("")
		k.Eventually(s, testkit.Ready())
		k.Eventually(newConfigMap(s.Status.Copy), testkit.Exists())
	}},
	{"copies another volume", func(k *testkit.K) {
		k.Eventually(k.Apply(newSnapshot("logs")), testkit.Ready())
		labelled(k, "snapshot", "s", 1, func(cm *corev1.ConfigMap) bool { return cm.Data["volume"] == "logs" })
	}},
	{"makes a deleted copy again", func(k *testkit.K) {
		s := newSnapshot("")
		k.Get(s)
		k.Delete(newConfigMap(s.Status.Copy))
		labelled(k, "snapshot", "s", 1, nil)
	}},
	{"goes with its copy", func(k *testkit.K) {
		isDeleted(k, newSnapshot(""))
		labelled(k, "snapshot", "s", 0, nil)
	}},
}

func newCache(shards int32, config string) *v1.Cache {
	return &v1.Cache{ObjectMeta: meta("c"), Spec: v1.CacheSpec{Shards: shards, Config: config}}
}

func configured(config string) func(*corev1.ConfigMap) bool {
	return func(cm *corev1.ConfigMap) bool { return cm.Data["config"] == config }
}

var cache = []test{
	{"makes shards and a token", func(k *testkit.K) {
		k.Apply(newCache(3, "size=1"))
		labelled(k, "cache", "c", 3, configured("size=1"))
		k.Eventually(newSecret("c-auth"), testkit.Match("a token", func(s *corev1.Secret) bool {
			return len(s.Data["token"]) > 0
		}))
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newCache(0, ""), testkit.Ready()) }},
	{"configures the shards anew", func(k *testkit.K) {
		k.Eventually(k.Apply(newCache(3, "size=2")), testkit.Ready())
		labelled(k, "cache", "c", 3, configured("size=2"))
	}},
	{"scales down", func(k *testkit.K) {
		k.Eventually(k.Apply(newCache(1, "size=2")), testkit.Ready())
		labelled(k, "cache", "c", 1, configured("size=2"))
	}},
	{"makes a deleted token again", func(k *testkit.K) { isRecreated(k, newSecret("c-auth")) }},
	{"goes with its children", func(k *testkit.K) {
		isDeleted(k, newCache(0, ""), newSecret("c-auth"))
		labelled(k, "cache", "c", 0, nil)
	}},
}

func newRoute(name string, hosts ...string) *v1.Route {
	return &v1.Route{ObjectMeta: meta(name), Spec: v1.RouteSpec{Hosts: hosts}}
}

var route = []test{
	{"enters its hosts", func(k *testkit.K) {
		k.Apply(newRoute("shop", "shop.example", "www.example"))
		k.Apply(newRoute("blog", "blog.example"))
		contains(k, "routes", map[string]string{"shop.example": "shop", "www.example": "shop", "blog.example": "blog"})
	}},
	{"becomes ready", func(k *testkit.K) {
		k.Eventually(newRoute("shop"), testkit.Ready())
		k.Eventually(newRoute("blog"), testkit.Ready())
	}},
	{"removes a host", func(k *testkit.K) {
		k.Eventually(k.Apply(newRoute("shop", "shop.example")), testkit.Ready())
		contains(k, "routes", map[string]string{"shop.example": "shop", "blog.example": "blog"})
	}},
	{"does not take another's host", func(k *testkit.K) {
		k.Apply(newRoute("wiki", "blog.example"))
		k.Eventually(newRoute("wiki"), testkit.Reason("Ready", metav1.ConditionFalse, "HostTaken"))
	}},
	{"makes a deleted table again", func(k *testkit.K) { isRecreated(k, newConfigMap("routes")) }},
	{"goes with its hosts", func(k *testkit.K) {
		isDeleted(k, newRoute("blog"))
		contains(k, "routes", map[string]string{"shop.example": "shop", "blog.example": "wiki"})
		isDeleted(k, newRoute("wiki"))
		isDeleted(k, newRoute("shop"), newConfigMap("routes"))
	}},
}

func newProxy(spec v1.ProxySpec) *v1.Proxy { return &v1.Proxy{ObjectMeta: meta("p"), Spec: spec} }

func timeout(value string) map[string]string { return map[string]string{"timeout": value} }

var proxy = []test{
	{"makes a ConfigMap and two Services", func(k *testkit.K) {
		settings := map[string]string{"timeout": "1s", "trace": "on"}
		k.Apply(newProxy(v1.ProxySpec{Settings: settings, Metrics: true}))
		contains(k, "p", settings)
		k.Eventually(newService("p"), testkit.Exists())
		k.Eventually(newService("p-metrics"), testkit.Exists())
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newProxy(v1.ProxySpec{}), testkit.Ready()) }},
	{"changes the settings", func(k *testkit.K) {
		k.Apply(newProxy(v1.ProxySpec{Settings: timeout("2s"), Metrics: true}))
		contains(k, "p", timeout("2s"))
	}},
	{"removes the metrics", func(k *testkit.K) {
		k.Apply(newProxy(v1.ProxySpec{Settings: timeout("2s")}))
		k.Eventually(newService("p-metrics"), testkit.Gone())
	}},
	{"freezes the settings", func(k *testkit.K) {
		k.Eventually(k.Apply(newProxy(v1.ProxySpec{Settings: timeout("2s"), Frozen: true})), testkit.Ready())
		k.Eventually(newConfigMap("p"), testkit.Match("immutable", func(cm *corev1.ConfigMap) bool {
			return equality.Semantic.DeepEqual(cm.Immutable, new(true))
		}))
	}},
	{"replaces frozen settings", func(k *testkit.K) {
		k.Eventually(k.Apply(newProxy(v1.ProxySpec{Settings: timeout("3s"), Frozen: true})), testkit.Ready())
		contains(k, "p", timeout("3s"))
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newService("p")) }},
	{"goes with its children", func(k *testkit.K) {
		isDeleted(k, newProxy(v1.ProxySpec{}), newConfigMap("p"), newService("p"))
	}},
}

func newArchive(copies int32) *v1.Archive {
	return &v1.Archive{ObjectMeta: meta("a"), Spec: v1.ArchiveSpec{Copies: copies, Credentials: "signing"}}
}

var archive = []test{
	{"says that it has no credentials", func(k *testkit.K) {
		k.Apply(newArchive(2))
		k.Eventually(newArchive(0), testkit.Reason("Ready", metav1.ConditionFalse, "NoCredentials"))
	}},
	{"makes an index and copies", func(k *testkit.K) {
		signing := newSecret("signing")
		signing.Data = map[string][]byte{"key": []byte("secret")}
		k.Apply(signing)
		labelled(k, "archive", "a", 3, nil)
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newArchive(0), testkit.Ready()) }},
	{"scales up and down", func(k *testkit.K) {
		for _, copies := range []int32{3, 1} {
			k.Eventually(k.Apply(newArchive(copies)), testkit.Ready())
			labelled(k, "archive", "a", int(copies)+1, nil)
		}
	}},
	{"makes a deleted copy again", func(k *testkit.K) {
		isRecreated(k, newConfigMap("a-copy-0"))
	}},
	{"goes with its copies", func(k *testkit.K) {
		isDeleted(k, newArchive(0))
		labelled(k, "archive", "a", 0, nil)
	}},
}

func newWebsite(exposed bool, content string) *v1.Website {
	return &v1.Website{
		ObjectMeta: meta("w"),
		Spec:       v1.WebsiteSpec{Exposed: exposed, Files: map[string]string{"index.html": content}},
	}
}

var website = []test{
	{"makes a ConfigMap and a Service", func(k *testkit.K) {
		k.Apply(newWebsite(true, "hello"))
		contains(k, "w", map[string]string{"index.html": "hello"})
		k.Eventually(newService("w"), testkit.Match("for its pods", func(s *corev1.Service) bool {
			return s.Spec.Selector["app"] == "w" && s.Spec.Ports[0].Port == 80
		}))
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newWebsite(false, ""), testkit.Ready()) }},
	{"changes a file", func(k *testkit.K) {
		k.Apply(newWebsite(true, "hello, world"))
		contains(k, "w", map[string]string{"index.html": "hello, world"})
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newService("w")) }},
	{"hides", func(k *testkit.K) {
		k.Eventually(k.Apply(newWebsite(false, "hello, world")), testkit.Ready())
		k.Eventually(newService("w"), testkit.Gone())
	}},
	{"goes with its children", func(k *testkit.K) { isDeleted(k, newWebsite(false, ""), newConfigMap("w")) }},
}
