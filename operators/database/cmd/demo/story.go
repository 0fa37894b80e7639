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
	"github.com/homeostat-dev/homeostat/testkit/demo"
)

const name = "orders-db"

var life = demo.Demo{
	Dir: "operators/database", AddToScheme: v1.AddToScheme,
	Steps: func(stage *demo.Env) []demo.Step {
		s := &scene{stage}
		return []demo.Step{
			{Title: "The article's manifest is applied", Play: s.applied},
			{Title: "The volumes are to be larger, and then smaller", Play: s.grown},
			{Title: "The server gets a setting", Play: s.configured},
			{Title: "The next major version is asked for", Play: s.upgraded},
			{Title: "It is deleted, and made again", Play: s.deleted},
		}
	},
}

// scene is what the acts share.
type scene struct{ *demo.Env }

func (s *scene) applied(ctx context.Context) error {
	began := time.Now()
	if err := s.create(ctx); err != nil {
		return err
	}
	seen, err := s.await(ctx, sight.ready)
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), seen)
	s.Printf("the primary is %s, at %s", seen.db.Status.Primary, seen.db.Status.Endpoint)
	s.Printf("the password is in Secret %s", seen.db.Status.SecretName)
	return nil
}

func (s *scene) grown(ctx context.Context) error {
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.change(ctx, func(spec *v1.DatabaseSpec) { spec.Storage = "200Gi" }); err != nil {
		return err
	}
	seen, err := s.await(ctx, func(v sight) bool { return v.ready() && v.db.Status.Storage == "200Gi" })
	if err != nil {
		return err
	}
	s.Printf("%s: %s", since(began), seen)
	if !slices.Equal(seen.pods, before.pods) {
		return fmt.Errorf("the pods were %v and are %v", before.pods, seen.pods)
	}
	s.Printf("the pods are the same as before")
	return s.refused(ctx, func(spec *v1.DatabaseSpec) { spec.Storage = "100Gi" })
}

func (s *scene) configured(ctx context.Context) error {
	before, err := s.look(ctx)
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
	seen, err := s.await(ctx, func(v sight) bool { return v.ready() && len(v.pods) == 2 && !slices.ContainsFunc(v.pods, same) })
	if err != nil {
		return err
	}
	if seen.births[0].Before(seen.births[1]) {
		return errors.New("the primary was restarted before the replica")
	}
	s.Printf("%s: %s; the replica was restarted first, and then the primary", since(began), seen)
	return nil
}

func (s *scene) upgraded(ctx context.Context) error {
	return s.refused(ctx, func(spec *v1.DatabaseSpec) { spec.Version = "17" })
}

func (s *scene) deleted(ctx context.Context) error {
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := s.Client.Delete(ctx, before.db); err != nil {
		return fmt.Errorf("deleting the Database: %w", err)
	}
	left, err := s.await(ctx, func(v sight) bool { return v.db == nil && v.set == nil && len(v.pods) == 0 })
	if err != nil {
		return err
	}
	s.Printf("%s the Database is gone; claims and Secret stay: %s", since(began), strings.Join(left.kept, ", "))
	began = time.Now()
	if err := s.create(ctx); err != nil {
		return err
	}
	again, err := s.await(ctx, sight.ready)
	if err != nil {
		return err
	}
	if again.password != before.password || !slices.Equal(again.kept, before.kept) {
		return fmt.Errorf("what was kept is not what there is: %v before and %v now", before.kept, again.kept)
	}
	s.Printf("%s a new %s has them, with the same password: %s", since(began), name, again)
	return nil
}

func (s *scene) create(ctx context.Context) error {
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

// change changes what is asked for, again if the operator was faster.
func (s *scene) change(ctx context.Context, change func(*v1.DatabaseSpec)) error {
	for {
		db := &v1.Database{}
		if err := s.Client.Get(ctx, key(name), db); err != nil {
			return fmt.Errorf("looking at the Database: %w", err)
		}
		change(&db.Spec)
		if err := s.Client.Update(ctx, db); !apierrors.IsConflict(err) {
			return err //nolint:wrapcheck // refused shows it
		}
	}
}

// refused wants a change to be refused with a sentence, which it shows.
func (s *scene) refused(ctx context.Context, change func(*v1.DatabaseSpec)) error {
	err := s.change(ctx, change)
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || len(status.Status().Details.Causes) == 0 {
		return fmt.Errorf("it has to be refused, and the answer is: %w", err)
	}
	s.Printf("refused: %s", strings.TrimPrefix(status.Status().Details.Causes[0].Message, "Invalid value: "))
	return nil
}

// sight is what can be seen of the Database at one moment. What is not there is nil.
type sight struct {
	db       *v1.Database
	set      *appsv1.StatefulSet
	pods     []types.UID // by name
	births   []time.Time // of the pods
	kept     []string    // claims and the Secret, with their UIDs
	password string
}

// ready says whether all is as was asked for last.
func (v sight) ready() bool {
	return v.db != nil && v.set != nil && conditions.IsTrue(v.db, conditions.Ready) &&
		v.db.Status.ObservedGeneration == v.db.Generation
}

func (v sight) String() string {
	s := &v.db.Status
	return fmt.Sprintf("state %s, %s %s, %d of %d members work, %s each", s.State, s.Engine, s.CurrentVersion, s.ReadyReplicas,
		s.Replicas, s.Storage)
}

func (s *scene) look(ctx context.Context) (v sight, err error) {
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
		}
		if found(pod, fmt.Sprintf("%s-db-%d", name, member)) {
			v.pods, v.births = append(v.pods, pod.UID), append(v.births, pod.CreationTimestamp.Time)
		}
	}
	if found(secret, name+"-db-credentials") {
		v.kept, v.password = append(v.kept, secret.Name), string(secret.Data["password"])
	}
	return v, err
}

// await looks until what it sees is as it should be, and returns what it saw last.
func (s *scene) await(ctx context.Context, good func(sight) bool) (sight, error) {
	return demo.Await(ctx, func(ctx context.Context) (sight, bool, error) {
		v, err := s.look(ctx)
		return v, err == nil && good(v), err
	})
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}
}

func since(began time.Time) string {
	return "after " + demo.Seconds(time.Since(began))
}
