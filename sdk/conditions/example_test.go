package conditions_test

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk/conditions"
)

// A kind embeds conditions.Status inline in its status and returns it from CommonStatus, as type thing in this package's
// tests does. The reconciler sets the conditions before it writes the status.
func Example() {
	website := &thing{ObjectMeta: metav1.ObjectMeta{Name: "shop", Generation: 2}}

	conditions.MarkReconciling(website, "Progressing", "Deployment shop: 1 of 3 replicas are updated")
	fmt.Println(conditions.IsTrue(website, conditions.Ready), conditions.Get(website, conditions.Ready).Message)

	conditions.MarkReady(website, "3 replicas serve it")
	conditions.Set(website, "CertificateValid", metav1.ConditionTrue, "Issued", "it expires in 60 days")
	for _, c := range website.Status.Conditions {
		fmt.Printf("%s=%s (%s)\n", c.Type, c.Status, c.Reason)
	}
	// Output:
	// false Deployment shop: 1 of 3 replicas are updated
	// Ready=True (Succeeded)
	// Reconciling=False (Succeeded)
	// Stalled=False (Succeeded)
	// CertificateValid=True (Issued)
}
