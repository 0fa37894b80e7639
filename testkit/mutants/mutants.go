package mutants

import (
	"context"
	"embed"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Files holds the manifests of all operators.
//
//go:embed config
var Files embed.FS

// Paths of the manifests in Files. RBAC has one file, and one ServiceAccount, for each set of permissions.
const (
	CRDs = "config/crd"
	RBAC = "config/rbac"
)

// AddToScheme registers the Go types of the custom resources.
func AddToScheme(scheme *runtime.Scheme) error { return v1.AddToScheme(scheme) }

// A Mutant is one operator with one known bug or, if it is a twin, none.
type Mutant struct {
	// Name is class and bug, such as "hot-loop/map-order". A twin's is "hot-loop/correct".
	Name string
	// Class is the kind of the bug.
	Class string
	// Description is the bug in one sentence. It is empty for a twin.
	Description string
	// Setup registers the operator's controller with a manager. The manager's scheme has the custom resources.
	Setup testkit.SetupFunc
	// RBAC is the file in Files with the permissions that the operator ships, for testkit.Env. They include the ones for
	// leader election.
	RBAC string
	// ServiceAccount is the account in that file. It identifies mutants that differ only in their permissions.
	ServiceAccount string
	// ClusterWide is true for an operator that watches all namespaces. Its steps use further namespaces, whose names begin
	// with that of the test.
	ClusterWide bool
	// Undetected is the reason why short explorations do not detect the bug, although all plans may. It is empty if they do.
	// For a twin, it is the reason for false alarms.
	Undetected string
	// Steps are the actions of a user who knows only the custom resource. They do not wait: the tool lets the operator
	// become idle after each.
	Steps []Step
}

// A Step is one action of a user. It is stateless, so that it can be executed in many namespaces at once.
type Step struct {
	Name string
	Do   func(k *testkit.K)
}

// IsCorrect reports whether the operator has no known bug.
func (m Mutant) IsCorrect() bool { return m.Description == "" }

// Env returns the environment for tests of this operator alone.
func (m Mutant) Env() testkit.Env {
	return testkit.Env{FS: Files, CRDs: CRDs, RBAC: m.RBAC, AddToScheme: AddToScheme}
}

// All returns the mutants, three of each class.
func All() []Mutant {
	return slices.DeleteFunc(allMutants(), Mutant.IsCorrect)
}

// CorrectTwins returns the correct twins, one of each class.
func CorrectTwins() []Mutant {
	return slices.DeleteFunc(allMutants(), func(m Mutant) bool { return !m.IsCorrect() })
}

// SlowRetry returns a correct operator that retries after an error only when this time has passed, as some frameworks do.
// An event starts a reconcile earlier. It is not among the CorrectTwins.
func SlowRetry(after time.Duration) Mutant {
	twins := CorrectTwins()
	m := twins[slices.IndexFunc(twins, func(m Mutant) bool { return m.Class == outageMutants().name })]
	m.Name = m.Class + "/slow-retry"
	m.Setup = setupFeedsWith("", func(f func(context.Context, reconcile.Request) error) reconcile.Reconciler {
		return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
			if err := f(ctx, req); err != nil && !errors.Is(err, errStale) {
				log.FromContext(ctx).Error(err, "retrying later", "after", after)
				return reconcile.Result{RequeueAfter: after}, nil
			}
			return reconcile.Result{}, nil
		})
	})
	return m
}

// A bug names a bug of an operator. The zero value means none.
type bug string

// A flaw is a bug with its description.
type flaw struct {
	bug         bug
	description string
}

// A class is an operator and its possible bugs.
type class struct {
	name  string
	setup func(bug) func(manager.Manager) error
	flaws []flaw
	steps []Step
	// undetected has the reasons why explorations do not detect a bug.
	undetected map[bug]string
	// clusterWide is true for an operator that watches all namespaces.
	clusterWide bool
	// account returns the ServiceAccount of an operator with this bug.
	account func(bug) string
}

// constantAccount gives each mutant of a class the permissions of its twin.
func constantAccount(account string) func(bug) string { return func(bug) string { return account } }

func allMutants() []Mutant {
	var all []Mutant
	for _, c := range []class{
		hotLoopMutants(), crashMutants(), staleCacheMutants(), missedStateMutants(), pathDependenceMutants(), deletionMutants(),
		rbacMutants(), driftMutants(), foreignObjectMutants(), outageMutants(), recreatedInputMutants(), stalePassMutants(),
		deadWatchMutants(), twoFaultsMutants(), injectorMutants(), clockMutants(), everyRunMutants(),
		acrossNamespacesMutants(),
	} {
		all = append(all, c.mutants()...)
	}
	return all
}

// mutants returns the correct twin and the mutants of a class.
func (c class) mutants() []Mutant {
	var all []Mutant
	for _, f := range append([]flaw{{"", ""}}, c.flaws...) {
		name := f.bug
		if name == "" {
			name = "correct"
		}
		account := c.account(f.bug)
		all = append(all, Mutant{
			Name: c.name + "/" + string(name), Class: c.name, Description: f.description, Setup: c.setup(f.bug), Steps: c.steps,
			RBAC: RBAC + "/" + account + ".yaml", ServiceAccount: account,
			ClusterWide: c.clusterWide, Undetected: c.undetected[f.bug],
		})
	}
	return all
}
