package mutants_test

import (
	"context"
	"errors"
	"net/http"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// objectWitnesses holds the witnesses of bugs about objects of users and of other clients.
var objectWitnesses = map[string]witness{
	"foreign-object/adopts": func(r *run) error {
		r.Apply(configMap("b", "content", "theirs"))
		r.Apply(bucket("a"))
		return r.eventually(r.meets(bucket(""), testkit.Reason("Ready", metav1.ConditionFalse, "NameTaken")))
	},
	"foreign-object/overwrites": func(r *run) error {
		r.ready(r.Apply(bucket("a")))
		r.restart(func() {
			r.Delete(configMap("b", "", ""))
			r.Apply(configMap("b", "content", "theirs"))
			r.Apply(bucket("c"))
		})
		return r.eventually(r.meets(bucket(""), testkit.Reason("Ready", metav1.ConditionFalse, "NameTaken")))
	},
	"foreign-object/deletes-by-name": func(r *run) error {
		r.Apply(configMap("b", "content", "theirs"))
		r.Apply(bucket("a"))
		r.Eventually(bucket(""), testkit.Reason("Ready", metav1.ConditionFalse, "NameTaken"))
		r.Delete(bucket(""))
		r.Eventually(bucket(""), testkit.Gone())
		return r.hasData("b", map[string]string{"content": "theirs"})(r.Context())
	},

	"recreated-input/no-create-event": templateAgain,
	"recreated-input/stale-index":     templateAgain,
	"recreated-input/other-uid":       templateAgain,

	"injector/whole-object": func(r *run) error {
		r.Apply(target("proxy"))
		r.ready(r.Apply(sidecar("proxy:1")))
		r.reset()
		release := r.net.delayEvents("configmaps")
		cm := target("")
		r.Update(cm, func() { cm.Data = map[string]string{"new": "yes"} })
		r.Apply(sidecar("proxy:2"))
		r.Wait("the new image is written, or its write is rejected", func(ctx context.Context) error {
			if r.count("update", "configmaps", http.StatusConflict) > 0 {
				return nil
			}
			return r.isInjected("proxy:2")(ctx)
		})
		hasNew := func(cm *corev1.ConfigMap) bool { return cm.Data["new"] == "yes" }
		// The mutant may write the change back when its cache has it: check before.
		if err := r.meets(target(""), testkit.Match("new", hasNew))(r.Context()); err != nil {
			return err
		}
		release()
		return r.eventually(r.meets(target(""), testkit.Match("new and annotated", func(cm *corev1.ConfigMap) bool {
			return hasNew(cm) && cm.Annotations[sidecarKey] == "proxy:2"
		})))
	},
	"injector/keeps-edit": func(r *run) error {
		r.Apply(target("proxy"))
		r.ready(r.Apply(sidecar("proxy:1")))
		cm := target("")
		r.Update(cm, func() { cm.Labels = nil })
		return r.eventually(r.isInjected(""))
	},
	"injector/label-only": func(r *run) error {
		r.Apply(target("proxy"))
		r.ready(r.Apply(sidecar("proxy:1")))
		r.reset()
		cm := target("")
		r.Update(cm, func() { cm.Annotations = nil })
		return r.eventually(r.isInjected("proxy:1"))
	},

	"across-namespaces/copies-once": func(r *run) error {
		r.share("one")
		r.Apply(configMap("letter", "text", "two"))
		return r.eventually(r.isCopied(testkit.Match("two", hasText("two"))))
	},
	"across-namespaces/leaves-copies": func(r *run) error {
		r.share("one")
		r.Delete(share())
		r.Eventually(share(), testkit.Gone())
		return r.eventually(r.isCopied(testkit.Gone()))
	},
	"across-namespaces/copies-unseen": func(r *run) error {
		r.share("one")
		r.reset()
		theCopy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace + "-a", Name: r.Namespace + "-s"}}
		if err := r.Client.Delete(r.Context(), theCopy); err != nil {
			return err
		}
		return r.eventually(r.isCopied(testkit.Match("one", hasText("one"))))
	},

	"every-run/url-stays": func(r *run) error {
		r.ready(r.Apply(app("shop", "shop:1")))
		r.ready(r.Apply(app("", "shop:1")))
		return r.eventually(r.meets(app("", ""), testkit.Match("without URL", func(a *v1.App) bool { return a.Status.URL == "" })))
	},
	"every-run/old-name": func(r *run) error {
		r.ready(r.Apply(app("shop", "shop:1")))
		r.ready(r.Apply(app("store", "shop:1")))
		return r.eventually(r.meets(service("shop"), testkit.Gone()))
	},
	"every-run/image-ignored": func(r *run) error {
		r.ready(r.Apply(app("", "shop:1")))
		r.ready(r.Apply(app("", "shop:2")))
		job := &batchv1.CronJob{}
		job.Name = "a"
		return r.eventually(r.meets(job, testkit.Match("with the image", func(j *batchv1.CronJob) bool {
			return j.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Image == "shop:2"
		})))
	},
}

// share creates a source, a namespace and a Share.
func (r *run) share(text string) {
	r.t.Helper()
	ns := &corev1.Namespace{}
	ns.Name = r.Namespace + "-a"
	r.Apply(ns)
	r.Apply(configMap("letter", "text", text))
	r.ready(r.Apply(share(ns.Name)))
}

// isCopied returns a check of the copy.
func (r *run) isCopied(check testkit.Check) func(context.Context) error {
	return func(ctx context.Context) error {
		cm := &corev1.ConfigMap{}
		key := client.ObjectKey{Namespace: r.Namespace + "-a", Name: r.Namespace + "-s"}
		var seen client.Object
		switch err := r.Client.Get(ctx, key, cm); {
		case err == nil:
			seen = cm
		case !apierrors.IsNotFound(err):
			return err
		}
		if missing := check.Missing(seen); missing != "" {
			return errors.New(missing)
		}
		return nil
	}
}

func hasText(text string) func(*corev1.ConfigMap) bool {
	return func(cm *corev1.ConfigMap) bool { return cm.Data["text"] == text }
}

func share(namespaces ...string) *v1.Share {
	s := &v1.Share{Spec: v1.ShareSpec{Source: "letter", Namespaces: namespaces}}
	s.Name = "s"
	return s
}

// sidecarKey is the annotation of the Sidecar.
const sidecarKey = "sidecar.mutants.homeostat.dev/proxy"

// isInjected returns a check of the annotation of the target.
func (r *run) isInjected(image string) func(context.Context) error {
	return r.meets(target(""), testkit.Match("annotated with "+image, func(cm *corev1.ConfigMap) bool {
		return cm.Annotations[sidecarKey] == image
	}))
}

// templateAgain checks that a Page gets the text of a template that was deleted and created again.
func templateAgain(r *run) error {
	r.Apply(configMap("letter", "text", "Hello"))
	r.ready(r.Apply(page()))
	r.Delete(configMap("letter", "", ""))
	r.Eventually(page(), testkit.Reason("Ready", metav1.ConditionFalse, "NoTemplate"))
	if err := r.waitIdle(); err != nil {
		return err
	}
	r.Apply(configMap("letter", "text", "Hello"))
	return r.eventually(r.hasData("p-page", map[string]string{"text": "Hello"}))
}

func configMap(name, key, value string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{Data: map[string]string{key: value}}
	cm.Name = name
	return cm
}

func bucket(content string) *v1.Bucket {
	b := &v1.Bucket{Spec: v1.BucketSpec{Content: content}}
	b.Name = "b"
	return b
}

func page() *v1.Page {
	p := &v1.Page{Spec: v1.PageSpec{Template: "letter"}}
	p.Name = "p"
	return p
}

func target(name string) *corev1.ConfigMap {
	cm := configMap("t", "name", "t")
	cm.Labels = map[string]string{"sidecar": name}
	return cm
}

func sidecar(image string) *v1.Sidecar {
	s := &v1.Sidecar{Spec: v1.SidecarSpec{Image: image}}
	s.Name = "proxy"
	return s
}

func app(host, image string) *v1.App {
	a := &v1.App{Spec: v1.AppSpec{Host: host, Image: image}}
	a.Name = "a"
	return a
}
