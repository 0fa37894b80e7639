package database_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/operators/database"
	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit"
)

// outage follows the pods of a namespace and remembers the largest number of databases of one member that had no ready
// member at the same time.
type outage struct {
	watch watch.Interface
	ready map[string]bool
	most  int
}

// watchOutage begins after all databases are ready.
func watchOutage(k *testkit.K, names []string) *outage {
	o := &outage{ready: map[string]bool{}}
	for _, name := range names {
		o.ready[name+"-db-0"] = true
	}
	list := &corev1.PodList{}
	if err := k.Client.List(k.Context(), list, client.InNamespace(k.Namespace)); err != nil {
		panic(err)
	}
	var err error
	if o.watch, err = k.Client.Watch(k.Context(), &corev1.PodList{}, client.InNamespace(k.Namespace), &client.ListOptions{
		Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion},
	}); err != nil {
		panic(err)
	}
	return o
}

// until reads events, which are in the order of the changes, until done reports true.
func (o *outage) until(ctx context.Context, done func(*corev1.Pod) bool) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-o.watch.ResultChan():
			pod, isPod := e.Object.(*corev1.Pod)
			if !ok || !isPod {
				return errors.New("the watch ended")
			}
			if _, member := o.ready[pod.Name]; !member {
				continue
			}
			o.ready[pod.Name] = e.Type != watch.Deleted && pod.DeletionTimestamp == nil &&
				slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
					return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
				})
			unready := 0
			for _, ready := range o.ready {
				if !ready {
					unready++
				}
			}
			o.most = max(o.most, unready)
			if done(pod) && unready == 0 {
				return nil
			}
		}
	}
}

// fleet creates databases of one member and waits until they are ready.
func fleet(k *testkit.K, n int) (names []string) {
	for i := range n {
		db := newDatabase(fmt.Sprintf("a%d", i))
		db.Spec.Replicas = nil
		db.Spec.BackupEnabled = new(false)
		k.Apply(db)
		names = append(names, db.Name)
	}
	for _, name := range names {
		k.Eventually(newDatabase(name), testkit.Ready())
	}
	return names
}

// waitQueued waits until this number of databases wait for their turn.
func waitQueued(k *testkit.K, want int) {
	k.Wait(fmt.Sprintf("%d databases wait", want), func(ctx context.Context) error {
		dbs := &v1.DatabaseList{}
		if err := k.Client.List(ctx, dbs, client.InNamespace(k.Namespace)); err != nil {
			return err
		}
		queued := 0
		for i := range dbs.Items {
			if c := conditions.Get(&dbs.Items[i], "Progressing"); c != nil && c.Reason == "UpgradeQueued" {
				queued++
			}
		}
		if queued != want {
			return fmt.Errorf("%d wait", queued)
		}
		return nil
	})
}

// delayNewPods keeps the pods of revisions that do not exist yet from becoming ready.
func delayNewPods(k *testkit.K) (release func()) {
	pods := &corev1.PodList{}
	if err := k.Client.List(k.Context(), pods, client.InNamespace(k.Namespace)); err != nil {
		panic(err)
	}
	var revisions []string
	for i := range pods.Items {
		revisions = append(revisions, pods.Items[i].Labels[appsv1.ControllerRevisionHashLabelKey])
	}
	return k.Kubelet.DelayReadiness("app.kubernetes.io/component=server," + appsv1.ControllerRevisionHashLabelKey +
		" notin (" + strings.Join(revisions, ",") + ")")
}

// allHave returns a function that reports whether it was called with a pod of each database with the image.
func allHave(names []string, image string) func(*corev1.Pod) bool {
	have := map[string]bool{}
	return func(pod *corev1.Pod) bool {
		if pod.Spec.Containers[0].Image == image {
			have[pod.Name] = true
		}
		return len(have) == len(names)
	}
}

// An upgrade of the templates restarts at most the given number of databases at a time, also if the operator is restarted
// meanwhile.
func TestMaxUpgrading(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	names := fleet(k, 10)
	waitIdle(k, op)
	op.Stop()
	seen := watchOutage(k, names)
	defer seen.watch.Stop()

	options := database.Options{
		ImageTemplate: "newer/{{.Engine}}:{{.Version}}", UpgradeTemplates: true, MaxUpgrading: 2,
	}
	release := delayNewPods(k)
	op, turns := k.Run(database.New(options)), k.Run(database.NewUpgrades(options))
	waitQueued(k, 8)
	op.Stop()
	turns.Stop()
	k.Run(database.New(options))
	k.Run(database.NewUpgrades(options))
	release()
	all := allHave(names, "newer/postgresql:16")
	if err := seen.until(k.Context(), all); err != nil {
		t.Fatal(err)
	}
	if seen.most > 2 || seen.most == 0 {
		t.Errorf("%d databases were down at the same time, want 2 at most", seen.most)
	}
	for _, name := range names {
		k.Eventually(set(name+"-db"), testkit.Match("no turn", func(s client.Object) bool {
			return s.GetAnnotations()["techoral.com/pod-template-turn"] == "" &&
				s.GetAnnotations()["techoral.com/pending-pod-template"] == ""
		}))
	}
}

// A database that does not become ready keeps its turn, and a database that waits for its turn says so. A change of its spec
// does not wait.
func TestUpgradeQueue(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	fleet(k, 3)
	waitIdle(k, op)
	op.Stop()
	release := k.Kubelet.DelayReadiness("app=a0-db")
	options := database.Options{ImageTemplate: "newer/{{.Engine}}:{{.Version}}", UpgradeTemplates: true}
	k.Run(database.New(options))
	k.Run(database.NewUpgrades(options))
	k.Eventually(pod("a0-db-0"), testkit.Match("the new image", func(p *corev1.Pod) bool {
		return p.Spec.Containers[0].Image == "newer/postgresql:16"
	}))
	queued := testkit.Reason("Progressing", metav1.ConditionFalse, "UpgradeQueued")
	k.Eventually(newDatabase("a1"), testkit.Ready(), queued)
	k.Eventually(newDatabase("a2"), testkit.Ready(), queued)
	db := newDatabase("a2")
	k.Update(db, func() { db.Spec.Configuration = map[string]v1.Setting{"work_mem": "8MB"} })
	k.Eventually(set("a2-db"), image("newer/postgresql:16"), testkit.Ready())
	k.Eventually(newDatabase("a1"), testkit.Ready(), queued)
	release()
	k.Eventually(set("a1-db"), image("newer/postgresql:16"), testkit.Ready())
	k.Eventually(newDatabase("a0"), testkit.Ready())
}

// Databases whose scripts were deleted are restarted one after the other, too. Their ConfigMaps cannot be created again,
// because another version of the operator had their content.
func TestLostScriptsWaitForTheirTurn(t *testing.T) {
	t.Parallel()
	k := testkit.New(t)
	op := start(k)
	names := fleet(k, 4)
	waitIdle(k, op)
	op.Stop()
	for _, name := range names {
		formerScripts(k, name)
	}
	seen := watchOutage(k, names)
	defer seen.watch.Stop()
	release := delayNewPods(k)
	k.Run(database.New(database.Options{ImageTemplate: "newer/{{.Engine}}:{{.Version}}"}))
	k.Run(database.NewUpgrades(database.Options{}))
	waitQueued(k, 3)
	release()
	if err := seen.until(k.Context(), allHave(names, "newer/postgresql:16")); err != nil {
		t.Fatal(err)
	}
	if seen.most != 1 {
		t.Errorf("%d databases were down at the same time, want 1", seen.most)
	}
}

// formerScripts lets the pods mount scripts of another name, as those of a former version, and deletes these.
func formerScripts(k *testkit.K, name string) {
	former := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-former"}, Data: map[string]string{"run.sh": ""}}
	k.Apply(former)
	members := set(name + "-db")
	k.Update(members, func() {
		for i, v := range members.Spec.Template.Spec.Volumes {
			if v.Name == "scripts" {
				const annotation = "techoral.com/pod-template"
				members.Annotations[annotation] = strings.ReplaceAll(members.Annotations[annotation], v.ConfigMap.Name, former.Name)
				members.Spec.Template.Spec.Volumes[i].ConfigMap.Name = former.Name
			}
		}
	})
	k.Eventually(members, testkit.Ready(), testkit.Match("rolled out", func(s *appsv1.StatefulSet) bool {
		return s.Status.ObservedGeneration == s.Generation && s.Status.CurrentRevision == s.Status.UpdateRevision
	}))
	k.Delete(former)
}
