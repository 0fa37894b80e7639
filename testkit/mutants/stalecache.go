package mutants

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Bugs of an operator that relies on stale reads.
const (
	generatedName bug = "generated-name"
	deleteByName  bug = "delete-by-name"
	overwrite     bug = "overwrite"
)

func staleCacheMutants() class {
	return class{
		name: "stale-cache", setup: setupCaches, account: constantAccount("cache"),
		flaws: []flaw{
			{generatedName, "A shard that is not yet in the cache is created again, because the server generates its name."},
			{deleteByName, "A shard is replaced by name. While the cache has the old shard, the new one is replaced again."},
			{overwrite, "A token that is not yet in the cache is replaced by a new one. Every shard is then replaced, too."},
		},
		steps: []Step{
			{"create", func(k *testkit.K) { k.Apply(newCache("sessions", 2, "size=1")) }},
			{"change", func(k *testkit.K) { k.Apply(newCache("sessions", 2, "size=2")) }},
			{"create another", func(k *testkit.K) { k.Apply(newCache("pages", 1, "size=1")) }},
			{"scale up", func(k *testkit.K) { k.Apply(newCache("sessions", 3, "size=2")) }},
			{"scale down", func(k *testkit.K) { k.Apply(newCache("sessions", 1, "size=2")) }},
		},
	}
}

func newCache(name string, shards int32, config string) *v1.Cache {
	return &v1.Cache{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1.CacheSpec{Shards: shards, Config: config},
	}
}

// The labels of a shard: the name of the Cache and a number from 0.
const (
	cacheLabel = "cache"
	shardLabel = "shard"
)

func setupCaches(b bug) func(manager.Manager) error {
	return func(mgr manager.Manager) error {
		r := &caches{newOperator(mgr, b)}
		return ctrl.NewControllerManagedBy(mgr).
			For(&v1.Cache{}).Owns(&corev1.Secret{}).Owns(&corev1.ConfigMap{}).
			Complete(newReconciler(r.reconcile))
	}
}

type caches struct{ operator }

func (r *caches) reconcile(ctx context.Context, req reconcile.Request) error {
	c := &v1.Cache{}
	if err := r.Get(ctx, req.NamespacedName, c); err != nil || !c.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(err)
	}
	before := c.DeepCopy()
	token, err := r.token(ctx, c)
	if err != nil {
		return err
	}
	fingerprint := sha256.Sum256(token)
	data := map[string]string{"config": c.Spec.Config, "token": hex.EncodeToString(fingerprint[:4])}
	if err := r.applyShards(ctx, c, data); err != nil {
		return err
	}
	return r.updateStatus(ctx, before, c, readyCondition())
}

// token returns the content of the Secret, which is generated once.
func (r *caches) token(ctx context.Context, c *v1.Cache) ([]byte, error) {
	secret := &corev1.Secret{ObjectMeta: childMeta(c, c.Name+"-auth")}
	err := r.apply(ctx, c, secret, func() {
		token := secret.Data["token"]
		if len(token) == 0 {
			token = []byte(rand.Text())
		}
		secret.Data = map[string][]byte{"cluster": []byte(c.Name), "token": token}
	})
	if r.bug == overwrite && apierrors.IsAlreadyExists(err) {
		err = r.Update(ctx, secret)
	}
	return secret.Data["token"], err
}

// applyShards creates missing shards, replaces the ones with other data, and deletes the rest.
func (r *caches) applyShards(ctx context.Context, c *v1.Cache, data map[string]string) error {
	list := &corev1.ConfigMapList{}
	if err := r.List(ctx, list, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("listing the shards: %w", err)
	}
	kept := map[string]bool{}
	for i := range list.Items {
		shard := &list.Items[i]
		number, owned := shard.Labels[shardLabel], metav1.IsControlledBy(shard, c)
		switch {
		case shard.Labels[cacheLabel] != c.Name && !owned:
			continue // a foreign object
		case owned && maps.Equal(shard.Data, data) && shouldExist(c, number) && !kept[number]:
			kept[number] = true
			continue
		}
		if err := r.discard(ctx, shard); err != nil {
			return err
		}
	}
	for i := range int(c.Spec.Shards) {
		if number := strconv.Itoa(i); !kept[number] {
			if err := r.add(ctx, c, number, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// shouldExist reports whether the shard of this number should exist.
func shouldExist(c *v1.Cache, number string) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n >= 0 && n < int(c.Spec.Shards)
}

func (r *caches) discard(ctx context.Context, shard *corev1.ConfigMap) error {
	if r.bug == deleteByName {
		return client.IgnoreNotFound(r.Delete(ctx, shard))
	}
	return r.delete(ctx, shard)
}

func (r *caches) add(ctx context.Context, c *v1.Cache, number string, data map[string]string) error {
	if err := r.checkOwner(ctx, c); err != nil {
		return err
	}
	shard := &corev1.ConfigMap{ObjectMeta: childMeta(c, c.Name+"-shard-"+number), Data: data}
	if r.bug == generatedName {
		shard.Name = ""
		shard.GenerateName = c.Name + "-shard-" + number + "-"
	}
	shard.Labels = map[string]string{cacheLabel: c.Name, shardLabel: number}
	err := controllerutil.SetControllerReference(c, shard, r.Scheme(), controllerutil.WithBlockOwnerDeletion(false))
	if err != nil {
		return err
	}
	if err := r.Create(ctx, shard); err != nil {
		return fmt.Errorf("creating shard %s: %w", number, err)
	}
	return nil
}
