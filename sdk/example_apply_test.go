package sdk_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
)

func ExampleDry() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, deployment("shop", p.Object.Spec.Replicas))
		return nil
	})
	plan := sdk.Dry(context.Background(), operator, newSite(), deployment("shop", 1), configMap("unused", "x"))
	for _, action := range plan.Actions {
		fmt.Println(action, action.Fields)
	}
	// Output:
	// update Deployment shop [spec.replicas: 1 -> 2]
	// delete ConfigMap unused []
}

func ExampleApply() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		child := sdk.Apply(p, deployment("shop", p.Object.Spec.Replicas))
		p.Object.Status.Replicas = child.Live().Status.ReadyReplicas
		return nil
	})
	// Output:
	// Site default/shop
	//   create Deployment shop
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//       spec.replicas: 2
	//   Ready=False (Progressing): Deployment shop: Replicas: 0/2
}

func ExampleChild_Exists() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		config := sdk.Apply(p, configMap("shop", "value"))
		fmt.Println("the ConfigMap exists:", config.Exists(), "with", config.Live().Data)
		return nil
	}, configMap("shop", "other"))
	// Output:
	// the ConfigMap exists: true with map[key:other]
	// Site default/shop
	//   update ConfigMap shop
	//       data.key: "other" -> "value"
	//   Ready=True (Succeeded)
}

func ExampleAfter() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		database := sdk.Apply(p, deployment("database", 1))
		sdk.Apply(p, deployment("shop", 2), sdk.After(database))
		return nil
	})
	// Output:
	// Site default/shop
	//   create Deployment database
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//       spec.replicas: 1
	//   hold back Deployment shop: it waits for Deployment database
	//   Ready=False (Progressing): Deployment database: Replicas: 0/1; Deployment shop waits for Deployment database
}

func ExampleAfterCreated() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		config := sdk.Apply(p, configMap("shop", "value"), sdk.HoldBack(sdk.Wait("NoValue", "the value is unknown")))
		sdk.Apply(p, deployment("shop", 2), sdk.AfterCreated(config))
		return nil
	})
	// Output:
	// Site default/shop
	//   hold back ConfigMap shop: NoValue: the value is unknown
	//   hold back Deployment shop: it waits for ConfigMap shop
	//   Ready=False (NoValue): the value is unknown
}

func ExampleHoldBack() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "value"))
		_, err := sdk.Ref(p, secret(p.Object.Spec.Secret))
		sdk.Apply(p, deployment("shop", 2), sdk.HoldBack(err))
		return nil
	})
	// Output:
	// Site default/shop
	//   create ConfigMap shop
	//       data.key: "value"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   hold back Deployment shop: ReferenceNotFound: Secret token does not exist in namespace default
	//   Ready=False (ReferenceNotFound): Secret token does not exist in namespace default
}

func ExampleCreateOnly() {
	existing := secret("password")
	existing.Data = map[string][]byte{"password": []byte("first")}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		generated := secret("password")
		generated.Data = map[string][]byte{"password": []byte("second")}
		sdk.Apply(p, generated, sdk.CreateOnly())
		return nil
	}, existing)
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=True (Succeeded)
}

func ExampleRemoveForeign() {
	opened := deployment("shop", 2)
	opened.Spec.Template.Spec.HostNetwork = true // by another client
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, deployment("shop", 2), sdk.RemoveForeign(func(live *appsv1.Deployment) []string {
			if !live.Spec.Template.Spec.HostNetwork {
				return nil
			}
			live.Spec.Template.Spec.HostNetwork = false
			return []string{"spec.template.spec.hostNetwork"}
		}))
		return nil
	}, opened)
	// Output:
	// Site default/shop
	//   update Deployment shop
	//       spec.template.spec.hostNetwork: set by another manager -> nothing
	//   Ready=False (Progressing): Deployment shop: Replicas: 0/2
}

func ExampleUnmanaged() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, deployment("shop", 2), sdk.Unmanaged("spec.replicas")) // an autoscaler sets it
		return nil
	}, deployment("shop", 7))
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (Progressing): Deployment shop: Replicas: 0/7
}

func ExampleZero() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		set := statefulSet("shop")
		set.Spec.MinReadySeconds = 0 // a Go zero value alone is not enforced
		sdk.Apply(p, set, sdk.Zero("spec.minReadySeconds"))
		return nil
	})
	// Output:
	// Site default/shop
	//   create StatefulSet shop
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//       spec.minReadySeconds: 0
	//   Ready=False (Progressing): StatefulSet shop: Replicas: 0/1
}

func ExampleReadyWhen() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "value"), sdk.ReadyWhen(func(live *corev1.ConfigMap) (bool, string) {
			return live.Annotations["example.com/loaded"] == "true", "the shop has not loaded it"
		}))
		return nil
	})
	// Output:
	// Site default/shop
	//   create ConfigMap shop
	//       data.key: "value"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   Ready=False (Progressing): ConfigMap shop: the shop has not loaded it
}

func ExampleOnImmutable() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		set := statefulSet("shop")
		set.Spec.ServiceName = "shop" // immutable
		sdk.Apply(p, set, sdk.OnImmutable(sdk.RecreateOrphan))
		return nil
	}, statefulSet("shop"))
	// Output:
	// Site default/shop
	//   update StatefulSet shop
	//       spec.serviceName: "shop"
	//   Ready=False (Progressing): StatefulSet shop: Replicas: 0/1
}

func ExampleRetain() {
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta(name)}
	}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, claim("data"), sdk.Retain())
		return nil
	})
	// Output:
	// Site default/shop
	//   create PersistentVolumeClaim data
	//       metadata.annotations.homeostat.dev/owner: "default/shop"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//       metadata.labels.homeostat.dev/owner-uid: "1"
	//   Ready=False (Progressing): PersistentVolumeClaim data: PVC is not Bound. phase: unknown
}

func ExampleHoldUntil() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("result", "value"), sdk.HoldUntil(p.Object.Status.Replicas > 0))
		return nil
	})
	// Output:
	// Site default/shop
	//   create ConfigMap result
	//       data.key: "value"
	//       metadata.finalizers: ["homeostat.dev/site"]
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   Ready=True (Succeeded)
}

func ExampleAdopt() {
	existing := configMap("shop", "old")
	existing.UID = "2"
	other := configMap("other", "old")
	other.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: types.UID("3"), Controller: new(true),
	}}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "new"), sdk.Adopt())
		sdk.Apply(p, configMap("other", "new"), sdk.Adopt(), sdk.ConflictReason("NameTaken"))
		return nil
	}, existing, other)
	// Output:
	// Site default/shop
	//   update ConfigMap shop
	//       data.key: "old" -> "new"
	//   hold back ConfigMap other: ConfigMap default/other exists and belongs to Deployment web: delete it, or use another name
	//   Ready=False (NameTaken): ConfigMap default/other exists and belongs to Deployment web: delete it, or use another name
}

func ExampleAdoptIf() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "new"), sdk.AdoptIf(func(o client.Object) bool {
			return o.GetLabels()["app"] == "shop"
		}))
		return nil
	}, configMap("shop", "old"))
	// Output:
	// Site default/shop
	//   update ConfigMap shop
	//       data.key: "old" -> "new"
	//   Ready=True (Succeeded)
}

func ExampleConflictReason() {
	other := configMap("shop", "old")
	other.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: types.UID("3"), Controller: new(true),
	}}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "new"), sdk.ConflictReason("NameTaken"))
		return nil
	}, other)
	// Output:
	// Site default/shop
	//   hold back ConfigMap shop: ConfigMap default/shop exists and belongs to Deployment web: delete it, or use another name
	//   Ready=False (NameTaken): ConfigMap default/shop exists and belongs to Deployment web: delete it, or use another name
}

func ExampleForceDelete() {
	stuck := configMap("shop", "value")
	stuck.DeletionTimestamp = &metav1.Time{}
	stuck.Finalizers = []string{"example.com/lost-node"}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		if live, exists := sdk.Live(p, configMap("shop", "")); exists && live.DeletionTimestamp != nil {
			sdk.ForceDelete(p, live)
		}
		return nil
	}, stuck)
	// Output:
	// Site default/shop
	//   delete ConfigMap shop
	//   Ready=True (Succeeded)
}

func ExampleMetadataOnly() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		live := sdk.Apply(p, configMap("shop", "value")).Live()
		fmt.Println("tier:", live.Labels["tier"]) // live.Data is unknown
		return nil
	})
	operator.Owns = []client.Object{sdk.MetadataOnly(&corev1.ConfigMap{})}
	existing := configMap("shop", "value")
	existing.Labels = map[string]string{"tier": "front"}
	fmt.Print(sdk.Dry(context.Background(), operator, newSite(), existing))
	// Output:
	// tier: front
	// Site default/shop
	//   nothing would be done
	//   Ready=True (Succeeded)
}

func ExampleContentFrom() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "digest of the content"), sdk.ContentFrom(
			func(context.Context) (*corev1.ConfigMap, error) { return nil, errors.New("a plan sends nothing") }))
		return nil
	})
	operator.Owns = []client.Object{sdk.MetadataOnly(&corev1.ConfigMap{})}
	fmt.Print(sdk.Dry(context.Background(), operator, newSite()))
	// Output:
	// Site default/shop
	//   create ConfigMap shop
	//       data.key: digest "digest of the content"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   Ready=True (Succeeded)
}
