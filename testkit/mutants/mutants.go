package mutants

import (
	"embed"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/homeostat-dev/homeostat/testkit"
	v1 "github.com/homeostat-dev/homeostat/testkit/mutants/api/v1"
)

// Files holds the manifests of all operators.
//
//go:embed config
var Files embed.FS

// Where the manifests are in Files. RBAC has one file, and one ServiceAccount, for each set of rights.
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
	// Class is what kind of bug it is.
	Class string
	// What says in a sentence what is wrong. It is empty for a twin.
	What string
	// SetupFunc registers the operator's controller with a manager, whose scheme has the custom resources.
	Setup testkit.SetupFunc
	// RBAC is the file in Files with the rights that the operator ships, for testkit.Env. They include what leader
	// election needs.
	RBAC string
	// ServiceAccount is the one in that file. It is what tells the mutants apart that differ in nothing but their rights.
	ServiceAccount string
	// Steps are what a user does who knows the custom resource and nothing else. They wait for nothing: whoever runs
	// them lets the operator come to rest after each.
	Steps []Step
}

// A Step is one thing that a user does. It has no memory, so that it can be done in many namespaces at once.
type Step struct {
	Name string
	Do   func(k *testkit.K)
}

// Correct reports whether the operator has no known bug.
func (m Mutant) Correct() bool { return m.What == "" }

// Env is what the tests of this operator alone need.
func (m Mutant) Env() testkit.Env {
	return testkit.Env{FS: Files, CRDs: CRDs, RBAC: m.RBAC, AddToScheme: AddToScheme}
}

// All returns the operators that have a bug, three of each class.
func All() []Mutant {
	return slices.DeleteFunc(every(), Mutant.Correct)
}

// Correct returns the operators that have none, one of each class.
func Correct() []Mutant {
	return slices.DeleteFunc(every(), func(m Mutant) bool { return !m.Correct() })
}

// A bug names what is wrong with an operator. The zero value is nothing.
type bug string

// A flaw is a bug, and what it is about.
type flaw struct {
	bug  bug
	what string
}

// A class is an operator and what can be wrong with it.
type class struct {
	name  string
	setup func(bug) func(manager.Manager) error
	flaws []flaw
	steps []Step
	// account returns the ServiceAccount that an operator with this bug runs as.
	account func(bug) string
}

// as gives each mutant of a class the same rights as its twin.
func as(account string) func(bug) string { return func(bug) string { return account } }

func every() []Mutant {
	var all []Mutant
	for _, c := range []class{
		hotLoop(), crash(), staleCache(), missedState(), pathDependence(), deletion(), rights(), drift(),
	} {
		for _, f := range append([]flaw{{"", ""}}, c.flaws...) {
			name := f.bug
			if name == "" {
				name = "correct"
			}
			account := c.account(f.bug)
			all = append(all, Mutant{
				Name: c.name + "/" + string(name), Class: c.name, What: f.what, Setup: c.setup(f.bug), Steps: c.steps,
				RBAC: RBAC + "/" + account + ".yaml", ServiceAccount: account,
			})
		}
	}
	return all
}
