package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

func ExampleLive() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		if live, exists := sdk.Live(p, deployment("shop", 0)); exists {
			fmt.Println("replicas before:", *live.Spec.Replicas)
		}
		sdk.Apply(p, deployment("shop", 2))
		return nil
	}, deployment("shop", 1))
	// Output:
	// replicas before: 1
	// Site default/shop
	//   update Deployment shop
	//       spec.replicas: 1 -> 2
	//   Ready=False (Progressing): Deployment shop: Replicas: 0/1
}

func ExampleRef() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		token, err := sdk.Ref(p, secret(p.Object.Spec.Secret))
		if err != nil {
			return err
		}
		sdk.Apply(p, configMap("shop", token.ResourceVersion))
		return nil
	})
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (ReferenceNotFound): Secret token does not exist in namespace default
}

func ExampleFind() {
	labelled := func(name string) *corev1.Secret {
		s := secret(name)
		s.Labels = map[string]string{"site": "shop"}
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: "2", Controller: new(true)}}
		return s
	}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		found, err := sdk.Find(p, &corev1.Secret{}, client.InNamespace("default"), client.MatchingLabels{"site": "shop"})
		if err != nil {
			return err
		}
		for _, s := range found {
			fmt.Println("found", s.Name)
		}
		return nil
	}, labelled("b"), labelled("a"))
	// Output:
	// found a
	// found b
	// Site default/shop
	//   nothing would be done
	//   Ready=True (Succeeded)
}

func ExampleObserved() {
	pod := &corev1.Pod{ObjectMeta: meta("shop-0")}
	pod.Labels = map[string]string{sdk.ManagedByLabel: "site", sdk.InstanceLabel: "shop"}
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		for _, pod := range sdk.Observed(p, &corev1.Pod{}) {
			fmt.Println("pod", pod.Name)
		}
		return nil
	}, pod)
	// Output:
	// pod shop-0
	// Site default/shop
	//   nothing would be done
	//   Ready=True (Succeeded)
}

func ExampleInstalled() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		fmt.Println("Services are installed:", sdk.Installed(p, &corev1.Service{}))
		fmt.Println("Nodes are owned and installed:", sdk.Installed(p, &corev1.Node{}))
		return nil
	})
	// Output:
	// Services are installed: true
	// Nodes are owned and installed: false
	// Site default/shop
	//   nothing would be done
	//   Ready=True (Succeeded)
}

func ExampleWait() {
	printPlan(func(context.Context, *sdk.Pass[*Site]) error {
		return sdk.Wait("NoAddress", "the load balancer has no address")
	})
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (NoAddress): the load balancer has no address
}

func ExampleWaitFor() {
	printPlan(func(context.Context, *sdk.Pass[*Site]) error {
		return sdk.WaitFor(time.Minute, "CertificatePending", "the certificate is not issued")
	})
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (CertificatePending): the certificate is not issued
}

func ExampleInvalid() {
	printPlan(func(context.Context, *sdk.Pass[*Site]) error {
		return sdk.Invalid("BadSchedule", "spec.schedule has 4 fields: write 5")
	})
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (BadSchedule): spec.schedule has 4 fields: write 5
}

func ExampleReason() {
	fmt.Println(sdk.Reason(fmt.Errorf("reading the token: %w", sdk.Wait("NoToken", "the token does not exist"))))
	fmt.Printf("%q\n", sdk.Reason(errors.New("connection refused")))
	// Output:
	// NoToken
	// ""
}

func ExamplePass_SetNotReady() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "value"))
		p.SetNotReady("WarmingUp", "the cache is empty")
		return nil
	})
	// Output:
	// Site default/shop
	//   create ConfigMap shop
	//       data.key: "value"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   Ready=False (WarmingUp): the cache is empty
}

func ExamplePass_SetSuspended() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		p.SetSuspended("Hibernated", "spec.hibernate is true")
		return nil
	})
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (Hibernated): spec.hibernate is true
}

func ExamplePass_SetCondition() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		p.SetCondition("Degraded", metav1.ConditionTrue, "ReplicaMissing", "1 of %d replicas works", p.Object.Spec.Replicas)
		return nil
	})
	plan := sdk.Dry(context.Background(), operator, newSite())
	c := conditions.Get(plan.Object, "Degraded")
	fmt.Println(c.Status, c.Reason, c.Message)
	// Output:
	// True ReplicaMissing 1 of 2 replicas works
}

func ExamplePass_OnPlanExecuted() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "value"))
		sdk.Apply(p, deployment("shop", 2))
		p.OnPlanExecuted(func(children []conditions.Child) {
			for _, c := range children {
				fmt.Printf("%s: ready %t\n", c.Name, c.Ready)
			}
		})
		return nil
	})
	// Output:
	// shop: ready true
	// shop: ready false
	// Site default/shop
	//   create ConfigMap shop
	//       data.key: "value"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   create Deployment shop
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//       spec.replicas: 2
	//   Ready=False (Progressing): Deployment shop: Replicas: 0/2
}

func ExamplePass_OrphanChildren() {
	printPlan(func(_ context.Context, p *sdk.Pass[*Site]) error {
		p.OrphanChildren(&corev1.ConfigMap{})
		return nil
	}, configMap("former", "value"), secret("former"))
	// Output:
	// Site default/shop
	//   delete Secret former
	//   orphan ConfigMap former
	//   Ready=True (Succeeded)
}

func ExampleOperator_summarize() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, deployment("shop", 2))
		return nil
	})
	operator.Summarize = func(s *Site) {
		if ready := conditions.Get(s, conditions.Ready); ready.Status != metav1.ConditionTrue {
			ready.Message = "please wait: " + ready.Message
		}
	}
	fmt.Print(sdk.Dry(context.Background(), operator, newSite()))
	// Output:
	// Site default/shop
	//   create Deployment shop
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//       spec.replicas: 2
	//   Ready=False (Progressing): please wait: Deployment shop: Replicas: 0/2
}

func ExampleOperator_finalize() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		sdk.Apply(p, configMap("shop", "value"))
		return nil
	})
	operator.Finalize = func(context.Context, *sdk.Pass[*Site]) error {
		return sdk.Wait("RecordExists", "the DNS record is not deleted")
	}
	fmt.Print(sdk.Dry(context.Background(), operator, newSite()))
	deleted := newSite()
	deleted.Finalizers = []string{"homeostat.dev/site"}
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	fmt.Print(sdk.Dry(context.Background(), operator, deleted))
	// Output:
	// Site default/shop
	//   add the finalizer to Site default/shop
	//   create ConfigMap shop
	//       data.key: "value"
	//       metadata.labels.app.kubernetes.io/managed-by: "site"
	//   Ready=True (Succeeded)
	// Site default/shop
	//   clean up Site default/shop: RecordExists: the DNS record is not deleted
}

func ExamplePass_Dry() {
	operator := newOperator(func(_ context.Context, p *sdk.Pass[*Site]) error {
		if p.Dry() {
			return sdk.Wait("DryRun", "the registry would be asked for a name")
		}
		return nil // asks the registry
	})
	fmt.Print(sdk.Dry(context.Background(), operator, newSite()))
	// Output:
	// Site default/shop
	//   nothing would be done
	//   Ready=False (DryRun): the registry would be asked for a name
}
