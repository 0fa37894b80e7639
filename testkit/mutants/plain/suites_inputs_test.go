package plain_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

func input(name string, data map[string]string) *corev1.ConfigMap {
	cm := newConfigMap(name)
	cm.Data = data
	return cm
}

func newBucket(content string) *v1.Bucket {
	return &v1.Bucket{ObjectMeta: meta("b"), Spec: v1.BucketSpec{Content: content}}
}

var bucket = []test{
	{"stores its content", func(k *testkit.K) {
		k.Apply(newBucket("one"))
		contains(k, "b", map[string]string{"content": "one"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newBucket(""), testkit.Ready()) }},
	{"changes its content", func(k *testkit.K) {
		k.Apply(newBucket("two"))
		contains(k, "b", map[string]string{"content": "two"})
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newConfigMap("b")) }},
	{"goes with its child", func(k *testkit.K) { isDeleted(k, newBucket(""), newConfigMap("b")) }},
	{"says that a name is taken", func(k *testkit.K) {
		k.Apply(input("b", map[string]string{"content": "theirs"}))
		k.Apply(newBucket("one"))
		k.Eventually(newBucket(""), testkit.Reason("Ready", metav1.ConditionFalse, "NameTaken"))
	}},
}

func newFeed() *v1.Feed { return &v1.Feed{ObjectMeta: meta("f"), Spec: v1.FeedSpec{Topic: "news"}} }

func newPost(name, text string) *corev1.ConfigMap {
	cm := input(name, map[string]string{"text": text})
	cm.Labels = map[string]string{"topic": "news"}
	return cm
}

var feed = []test{
	{"collects posts", func(k *testkit.K) {
		k.Apply(input("feed-settings", map[string]string{"length": "4"}))
		k.Apply(newPost("monday", "rainy"))
		k.Apply(newFeed())
		contains(k, "f-digest", map[string]string{"monday": "rain"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newFeed(), testkit.Ready()) }},
	{"adds a post", func(k *testkit.K) {
		k.Apply(newPost("tuesday", "sun"))
		contains(k, "f-digest", map[string]string{"monday": "rain", "tuesday": "sun"})
	}},
	{"removes a post", func(k *testkit.K) {
		k.Delete(newPost("monday", ""))
		contains(k, "f-digest", map[string]string{"tuesday": "sun"})
	}},
	{"changes the settings", func(k *testkit.K) {
		k.Apply(input("feed-settings", map[string]string{"length": "2"}))
		contains(k, "f-digest", map[string]string{"tuesday": "su"})
	}},
	{"makes a deleted digest again", func(k *testkit.K) { isRecreated(k, newConfigMap("f-digest")) }},
	{"goes with its digest", func(k *testkit.K) { isDeleted(k, newFeed(), newConfigMap("f-digest")) }},
}

func newPage() *v1.Page {
	return &v1.Page{ObjectMeta: meta("p"), Spec: v1.PageSpec{Template: "letter"}}
}

var page = []test{
	{"says that it has no template", func(k *testkit.K) {
		k.Apply(newPage())
		k.Eventually(newPage(), testkit.Reason("Ready", metav1.ConditionFalse, "NoTemplate"))
	}},
	{"uses the template", func(k *testkit.K) {
		k.Apply(input("letter", map[string]string{"text": "Hello"}))
		contains(k, "p-page", map[string]string{"text": "Hello"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newPage(), testkit.Ready()) }},
	{"follows the template", func(k *testkit.K) {
		k.Apply(input("letter", map[string]string{"text": "Hi"}))
		contains(k, "p-page", map[string]string{"text": "Hi"})
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newConfigMap("p-page")) }},
	{"is empty without the template", func(k *testkit.K) {
		k.Delete(newConfigMap("letter"))
		k.Eventually(newConfigMap("p-page"), testkit.Gone())
	}},
	{"goes", func(k *testkit.K) { isDeleted(k, newPage()) }},
}

func newMirror() *v1.Mirror {
	return &v1.Mirror{ObjectMeta: meta("m"), Spec: v1.MirrorSpec{Secret: "db"}}
}

func newPassword(value string) *corev1.Secret {
	s := newSecret("db")
	s.Data = map[string][]byte{"password": []byte(value)}
	return s
}

var mirror = []test{
	{"shows the Secret", func(k *testkit.K) {
		k.Apply(newPassword("one"))
		k.Apply(newMirror())
		contains(k, "m-mirror", map[string]string{"password": "one"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newMirror(), testkit.Ready()) }},
	{"follows the Secret", func(k *testkit.K) {
		k.Apply(newPassword("two"))
		contains(k, "m-mirror", map[string]string{"password": "two"})
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newConfigMap("m-mirror")) }},
	{"is empty without the Secret", func(k *testkit.K) {
		k.Delete(newSecret("db"))
		k.Eventually(newConfigMap("m-mirror"), testkit.Gone())
	}},
	{"goes", func(k *testkit.K) { isDeleted(k, newMirror()) }},
}

func newSidecar(image string) *v1.Sidecar {
	return &v1.Sidecar{ObjectMeta: meta("s"), Spec: v1.SidecarSpec{Image: image}}
}

func newTarget(label string) *corev1.ConfigMap {
	cm := input("t", map[string]string{"name": "t"})
	if label != "" {
		cm.Labels = map[string]string{"sidecar": label}
	}
	return cm
}

// isInjected waits until the target has the annotation with a value, or none.
func isInjected(k *testkit.K, image string) {
	k.Eventually(newTarget(""), testkit.Match("annotated with "+image, func(cm *corev1.ConfigMap) bool {
		return cm.Annotations["sidecar.mutants.homeostat.dev/s"] == image
	}))
}

var sidecar = []test{
	{"annotates a ConfigMap", func(k *testkit.K) {
		k.Apply(newTarget("s"))
		k.Apply(newSidecar("proxy:1"))
		isInjected(k, "proxy:1")
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newSidecar(""), testkit.Ready()) }},
	{"changes the image", func(k *testkit.K) {
		k.Apply(newSidecar("proxy:2"))
		isInjected(k, "proxy:2")
	}},
	{"removes the annotation without the label", func(k *testkit.K) {
		k.Apply(newTarget(""))
		isInjected(k, "")
	}},
	{"goes with the annotation", func(k *testkit.K) {
		k.Apply(newTarget("s"))
		isInjected(k, "proxy:2")
		isDeleted(k, newSidecar(""))
		isInjected(k, "")
	}},
}

func newShare(namespaces ...string) *v1.Share {
	return &v1.Share{ObjectMeta: meta("s"), Spec: v1.ShareSpec{Source: "letter", Namespaces: namespaces}}
}

// isCopied waits until there is a copy with a text, or none.
func isCopied(k *testkit.K, text string) {
	k.Wait("the copy is "+text, func(ctx context.Context) error {
		cm := &corev1.ConfigMap{}
		err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace + "-a", Name: k.Namespace + "-s"}, cm)
		switch {
		case text == "" && apierrors.IsNotFound(err):
			return nil
		case err == nil && text == "":
			return errors.New("there is one")
		case err == nil && cm.Data["text"] != text:
			return fmt.Errorf("it is %q", cm.Data["text"])
		}
		return err
	})
}

var share = []test{
	{"copies to a namespace", func(k *testkit.K) {
		k.Apply(&corev1.Namespace{ObjectMeta: meta(k.Namespace + "-a")})
		k.Apply(input("letter", map[string]string{"text": "one"}))
		k.Apply(newShare(k.Namespace + "-a"))
		isCopied(k, "one")
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newShare(), testkit.Ready()) }},
	{"follows the source", func(k *testkit.K) {
		k.Apply(input("letter", map[string]string{"text": "two"}))
		isCopied(k, "two")
	}},
	{"removes a namespace", func(k *testkit.K) {
		k.Apply(newShare())
		isCopied(k, "")
	}},
	{"goes with its copies", func(k *testkit.K) {
		k.Apply(newShare(k.Namespace + "-a"))
		isCopied(k, "two")
		isDeleted(k, newShare())
		isCopied(k, "")
	}},
}

func newBatch(runs int32) *v1.Batch {
	return &v1.Batch{ObjectMeta: meta("b"), Spec: v1.BatchSpec{Runs: runs}}
}

var batch = []test{
	{"makes runs and a total", func(k *testkit.K) {
		k.Apply(newBatch(3))
		labelled(k, "batch", "b", 3, nil)
		contains(k, "b-total", map[string]string{"runs": "3"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newBatch(0), testkit.Ready()) }},
	{"scales up and down", func(k *testkit.K) {
		for _, runs := range []int32{5, 1} {
			k.Eventually(k.Apply(newBatch(runs)), testkit.Ready())
			labelled(k, "batch", "b", int(runs), nil)
			contains(k, "b-total", map[string]string{"runs": strconv.Itoa(int(runs))})
		}
	}},
	{"makes a deleted run again", func(k *testkit.K) { isRecreated(k, newConfigMap("b-run-0")) }},
	{"goes with its runs", func(k *testkit.K) {
		isDeleted(k, newBatch(0), newConfigMap("b-total"))
		labelled(k, "batch", "b", 0, nil)
	}},
}

func newTransfer(data string) *v1.Transfer {
	return &v1.Transfer{ObjectMeta: meta("t"), Spec: v1.TransferSpec{Data: data}}
}

// stores waits until a ConfigMap has a value, or any if it is empty.
func stores(k *testkit.K, name, key, value string) {
	k.Eventually(newConfigMap(name), testkit.Match(key+" "+value, func(cm *corev1.ConfigMap) bool {
		return cm.Data[key] == value || value == "" && cm.Data[key] != ""
	}))
}

var transfer = []test{
	{"stores data and a checksum", func(k *testkit.K) {
		k.Apply(newTransfer("one"))
		stores(k, "t-data", "data", "one")
		stores(k, "t-data", "token", "")
		stores(k, "t-checksum", "data", "")
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newTransfer(""), testkit.Ready()) }},
	{"changes the data", func(k *testkit.K) {
		before := newConfigMap("t-data")
		k.Get(before)
		k.Eventually(k.Apply(newTransfer("two")), testkit.Ready())
		stores(k, "t-data", "data", "two")
		stores(k, "t-data", "token", before.Data["token"])
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newConfigMap("t-checksum")) }},
	{"goes with its children", func(k *testkit.K) {
		isDeleted(k, newTransfer(""), newConfigMap("t-data"), newConfigMap("t-checksum"))
	}},
}

func newTimer(value string) *v1.Timer {
	return &v1.Timer{ObjectMeta: meta("t"), Spec: v1.TimerSpec{Value: value}}
}

var timer = []test{
	{"stores the value", func(k *testkit.K) {
		k.Apply(newTimer("one"))
		contains(k, "t", map[string]string{"value": "one"})
	}},
	{"becomes ready", func(k *testkit.K) { k.Eventually(newTimer(""), testkit.Ready()) }},
	{"changes the value and has a time", func(k *testkit.K) {
		k.Eventually(k.Apply(newTimer("two")), testkit.Ready())
		contains(k, "t", map[string]string{"value": "two"})
		k.Eventually(newTimer(""), testkit.Match("with a time", func(t *v1.Timer) bool {
			return t.Status.LastChange != nil && t.Status.LastChangeUnix == t.Status.LastChange.Unix()
		}))
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, newConfigMap("t")) }},
	{"goes with its child", func(k *testkit.K) { isDeleted(k, newTimer(""), newConfigMap("t")) }},
}

func newApp(host, image string) *v1.App {
	return &v1.App{ObjectMeta: meta("a"), Spec: v1.AppSpec{Host: host, Image: image}}
}

var app = []test{
	{"makes a CronJob and a Service", func(k *testkit.K) {
		k.Apply(newApp("shop", "shop:1"))
		k.Eventually(newService("shop"), testkit.Exists())
		k.Eventually(&batchv1.CronJob{ObjectMeta: meta("a")}, testkit.Exists())
	}},
	{"becomes ready with a URL", func(k *testkit.K) {
		k.Eventually(newApp("", ""), testkit.Ready())
		k.Eventually(newApp("", ""), testkit.Match("with a URL", func(a *v1.App) bool { return a.Status.URL == "http://shop" }))
	}},
	{"changes the image", func(k *testkit.K) {
		k.Eventually(k.Apply(newApp("shop", "shop:2")), testkit.Ready())
		k.Eventually(&batchv1.CronJob{ObjectMeta: meta("a")}, testkit.Match("shop:2", func(j *batchv1.CronJob) bool {
			return j.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image == "shop:2"
		}))
	}},
	{"removes the Service", func(k *testkit.K) {
		k.Eventually(k.Apply(newApp("", "shop:2")), testkit.Ready())
		k.Eventually(newService("shop"), testkit.Gone())
	}},
	{"makes a deleted child again", func(k *testkit.K) { isRecreated(k, &batchv1.CronJob{ObjectMeta: meta("a")}) }},
	{"goes with its children", func(k *testkit.K) { isDeleted(k, newApp("", ""), &batchv1.CronJob{ObjectMeta: meta("a")}) }},
}
