package cloud

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// accept changes the credentials that the cloud accepts.
func (c *cloud) accept(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted = token
}

// The credentials come from a Secret that the object names. A new Secret is used at once, although a rejected request would
// be repeated after minutes.
func TestCredentials(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	c, _ := start(k)
	c.accept("one")
	site, secret := newSiteWithSecret(1, false), newSecret("us", "wrong")
	k.Apply(site)
	k.Eventually(site, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ReferenceNotFound"),
		testkit.Match("the Secret in the message", func(s *Site) bool {
			c := conditions.Get(s, conditions.Ready)
			return c != nil && strings.Contains(c.Message, "Secret cloud does not exist")
		}))
	if n := c.count(); n != 0 {
		t.Errorf("%d requests without credentials", n)
	}
	k.Apply(secret)
	rejected := testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ExternalRejected")
	k.Eventually(site, rejected)
	k.Update(secret, func() { secret.Data["token"] = []byte("one") })
	k.Eventually(site, testkit.Ready())

	c.accept("two") // the token is rotated
	k.Update(site, func() { site.Spec.Size = 2 })
	k.Eventually(site, rejected)
	k.Update(secret, func() { secret.Data["token"] = []byte("two") })
	k.Eventually(site, testkit.Ready())

	// A resource stays in its account: in another one its ID means nothing, or another resource.
	k.Update(secret, func() { secret.Data["account"] = []byte("them") })
	k.Eventually(site, testkit.Reason(conditions.Stalled, metav1.ConditionTrue, "ExternalAccountChanged"))
	before := c.count()
	k.Update(site, func() { site.Spec.Size = 3 })
	k.Consistently(site, quiet, testkit.Match("no request", func(*Site) bool { return c.count() == before }))
	k.Update(secret, func() { secret.Data["account"] = []byte("us") })
	k.Eventually(site, testkit.Ready())
	if got := fmt.Sprint(c.state()); got != "[3]" {
		t.Errorf("the buckets have sizes %s, want one with 3", got)
	}
}

// An object whose Secret is gone waits for it, also while it is being deleted. It can be released without the deletion of
// its resources.
func TestDeletionWithoutCredentials(t *testing.T) {
	t.Parallel()
	for name, restored := range map[string]bool{"Restored": true, "Released": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t)
			c, _ := start(k)
			site, secret := newSiteWithSecret(1, false), newSecret("us", "one")
			k.Apply(secret)
			k.Apply(site)
			k.Eventually(site, testkit.Ready())
			k.Delete(secret)
			k.Eventually(site, testkit.Reason(conditions.Ready, metav1.ConditionFalse, "ReferenceNotFound"))
			k.Delete(site)
			k.Eventually(site, testkit.Match("the missing Secret", func(s *Site) bool {
				c := conditions.Get(s, conditions.Deleting)
				return c != nil && strings.Contains(c.Message, "Secret cloud does not exist")
			}))
			k.Consistently(site, quiet, testkit.Exists())
			want := "[]"
			if restored {
				k.Apply(newSecret("us", "one"))
			} else {
				k.Update(site, func() { site.Annotations = map[string]string{sdk.ReleaseAnnotation: "true"} })
				want = "[1]"
			}
			k.Eventually(site, testkit.Gone())
			if got := fmt.Sprint(c.state()); got != want {
				t.Errorf("the buckets have sizes %s, want %s", got, want)
			}
		})
	}
}
