package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk/conditions"
	"github.com/homeostat-dev/homeostat/testkit/sandbox/demo"
)

const name = "orders-db"

var databaseDemo = demo.Demo{
	Dir: "operators/database", AddToScheme: v1.AddToScheme,
	Steps: func(env *demo.Env) []demo.Step {
		s := &steps{env}
		return []demo.Step{
			{Title: "The article's manifest is applied", Play: s.applied},
			{Title: "The volumes are to be larger, and then smaller", Play: s.expandStorage},
			{Title: "The server gets a setting", Play: s.configured},
			{Title: "The next major version is asked for", Play: s.upgraded},
			{Title: "It is deleted, and made again", Play: s.deleted},
		}
	},
}

// steps has the environment that all steps share.
type steps struct{ *demo.Env }

func (s *steps) applied(ctx context.Context) error {
	began := time.Now()
	if err := s.create(ctx); err != nil {
		return err
	}
	seen, err := s.await(ctx, state.ready)
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), seen)
	s.Printf("the primary is %s, at %s", seen.db.Status.Primary, seen.db.Status.Endpoint)
	s.Printf("the password is in Secret %s", seen.db.Status.SecretName)
	return nil
}

func (s *steps) expandStorage(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.change(ctx, func(spec *v1.DatabaseSpec) { spec.Storage = "200Gi" }); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v state) bool { return v.ready() && v.db.Status.Storage == "200Gi" })
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), seen)
	if !slices.Equal(seen.pods, before.pods) {
		return fmt.Errorf("the pods were %v and are %v", before.pods, seen.pods)
	}
	s.Printf("the pods are the same as before")
	return s.expectRejected(ctx, func(spec *v1.DatabaseSpec) { spec.Storage = "100Gi" })
}

func (s *steps) configured(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.change(ctx, func(spec *v1.DatabaseSpec) {
		spec.Configuration = map[string]v1.Setting{"max_connections": "200"}
	}); err != nil {
		return err
	}
	same := func(pod types.UID) bool { return slices.Contains(before.pods, pod) }
	seen, err := s.await(ctx, func(v state) bool { return v.ready() && len(v.pods) == 2 && !slices.ContainsFunc(v.pods, same) })
	if err != nil {
		return err
	}
	if seen.created[0].Before(seen.created[1]) {
		return errors.New("the primary was restarted before the replica")
	}
	s.Printf("%s: %s; the replica was restarted first, and then the primary", since(began), seen)
	return nil
}

func (s *steps) upgraded(ctx context.Context) error {
	return s.expectRejected(ctx, func(spec *v1.DatabaseSpec) { spec.Version = "17" })
}

func (s *steps) deleted(ctx context.Context) error {
	before, err := s.observe(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.Client.Delete(ctx, before.db); err != nil {
		return fmt.Errorf("deleting the Database: %w", err)
	}
	left, err := s.await(ctx, func(v state) bool { return v.db == nil && v.set == nil && len(v.pods) == 0 })
	if err != nil {
		return err
	}
	s.Printf("%s the Database is gone; claims and Secret stay: %s", since(began), strings.Join(left.kept, ", "))
	began = time.Now()
	if err := s.create(ctx); err != nil {
		return err
	}
	again, err := s.await(ctx, state.ready)
	if err != nil {
		return err
	}
	if again.password != before.password || !slices.Equal(again.kept, before.kept) {
		return fmt.Errorf("what was kept is not what there is: %v before and %v now", before.kept, again.kept)
	}
	s.Printf("%s a new %s has them, with the same password: %s", since(began), name, again)
	return nil
}

func (s *steps) create(ctx context.Context) error {
	for _, sample := range s.Samples() {
		if sample.GetName() == name && sample.GetKind() == "Database" {
			if err := s.Client.Create(ctx, sample.DeepCopy()); err != nil {
				return fmt.Errorf("applying the manifest: %w", err)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no sample %s", name)
}

// change updates the spec and retries on a conflict.
func (s *steps) change(ctx context.Context, change func(*v1.DatabaseSpec)) error {
	for {
		db := &v1.Database{}
		if err := s.Client.Get(ctx, key(name), db); err != nil {
			return fmt.Errorf("looking at the Database: %w", err)
		}
		change(&db.Spec)
		if err := s.Client.Update(ctx, db); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// expectRejected applies a change that the API server has to reject, and prints the message.
func (s *steps) expectRejected(ctx context.Context, change func(*v1.DatabaseSpec)) error {
	err := s.change(ctx, change)
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || len(status.Status().Details.Causes) == 0 {
		return fmt.Errorf("it has to be refused, and the answer is: %w", err)
	}
	s.Printf("refused: %s", strings.TrimPrefix(status.Status().Details.Causes[0].Message, "Invalid value: "))
	return nil
}

// state is a read of the Database and its children. Objects that do not exist are nil.
type state struct {
	db       *v1.Database
	set      *appsv1.StatefulSet
	pods     []types.UID // by name
	created  []time.Time // of the pods
	kept     []string    // claims and the Secret, with their UIDs
	volumes  []string    // their capacities, without repetitions
	password string
}

// ready reports whether the status is Ready for the current generation.
func (v state) ready() bool {
	return v.db != nil && v.set != nil && conditions.IsTrue(v.db, conditions.Ready) &&
		v.db.Status.ObservedGeneration == v.db.Generation
}

func (v state) String() string {
	s := &v.db.Status
	return fmt.Sprintf("state %s, %s %s, %d of %d members work, %s each", s.State, s.Engine, s.CurrentVersion, s.ReadyReplicas,
		s.Replicas, strings.Join(v.volumes, " or "))
}

func (s *steps) observe(ctx context.Context) (v state, err error) {
	db, set, secret := &v1.Database{}, &appsv1.StatefulSet{}, &corev1.Secret{}
	found := func(object client.Object, name string) bool {
		getErr := s.Client.Get(ctx, key(name), object)
		if client.IgnoreNotFound(getErr) != nil {
			err = fmt.Errorf("looking at %s: %w", name, getErr)
		}
		return getErr == nil
	}
	if found(db, name) {
		v.db = db
	}
	if found(set, name+"-db") {
		v.set = set
	}
	for member := range 2 {
		claim, pod := &corev1.PersistentVolumeClaim{}, &corev1.Pod{}
		if found(claim, fmt.Sprintf("data-%s-db-%d", name, member)) {
			v.kept = append(v.kept, fmt.Sprintf("%s (%s)", claim.Name, claim.UID))
			if capacity := claim.Status.Capacity.Storage().String(); !slices.Contains(v.volumes, capacity) {
				v.volumes = append(v.volumes, capacity)
			}
		}
		if found(pod, fmt.Sprintf("%s-db-%d", name, member)) {
			v.pods = append(v.pods, pod.UID)
			v.created = append(v.created, pod.CreationTimestamp.Time)
		}
	}
	if found(secret, name+"-db-credentials") {
		v.kept = append(v.kept, secret.Name)
		v.password = string(secret.Data["password"])
	}
	return v, err
}

// await polls until the condition holds, and returns the last state.
func (s *steps) await(ctx context.Context, good func(state) bool) (state, error) {
	return demo.Await(ctx, func(ctx context.Context) (state, bool, error) {
		v, err := s.observe(ctx)
		return v, err == nil && good(v), err
	})
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}
}

func since(began time.Time) string {
	return "after " + demo.Seconds(time.Since(began))
}
