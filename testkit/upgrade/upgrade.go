// Package upgrade upgrades and downgrades a kind with live objects, and reports each field that is lost.
//
//	func TestUpgrade(t *testing.T) {
//		k := testkit.New(t, testkit.Private())
//		start := func() *testkit.Instance { return k.Run(team.Operator) }
//		migrator := &migration.Migrator{CRDs: []string{"teams.example.com"}, Delay: time.Second, PerSecond: 1000}
//		k.Start(migrator.SetupWithManager)
//		err := upgrade.Check(k, upgrade.Kind{
//			CRD:     "teams.example.com",
//			Former:  upgrade.Release{Version: "v1alpha1", Sample: "config/samples/team.yaml", Start: start},
//			Present: upgrade.Release{Version: "v1beta1", Sample: "config/samples/team_v1beta1.yaml", Start: start},
//		})
//		if err != nil {
//			t.Error(err)
//		}
//	}
//
// Objects of the former version exist before the upgrade, and objects of the present one before the downgrade. They are
// variants of the samples: each property that the schema lists has another value in at least one object, if the API server
// admits one. The versions of the CustomResourceDefinition change as in releases of a kind:
//
//  1. The former version is served and stored, and the former operator runs.
//  2. The present version is served, and the present operator runs.
//  3. The present version is stored.
//  4. The former version is stored again.
//  5. The former version alone is served, and the former operator runs.
//  6. The steps 2 and 3 follow again.
//
// After each step the operator is idle, all objects are stored in the storage version, and these rules hold:
//
//   - No object is deleted or replaced, and no child of one: an object with an owner reference to it, or with its UID in a
//     label.
//   - The specification has the same fields and values, in each version that is served.
//   - No field of the status or of the metadata is lost or has another value. New fields are permitted.
//
// The package converts and migrates nothing: testkit.Env.Conversion, the operators and the test do. It injects no faults:
// see package chaos.
package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/testkit"
)

// Kind is a kind with two versions.
type Kind struct {
	// CRD is the name of the CustomResourceDefinition, such as "teams.example.com". It is installed, and its conversion is
	// served. The test needs it for itself: see testkit.Private. Required.
	CRD string
	// Former and Present are the releases before and after the upgrade. Required.
	Former, Present Release
	// Objects is the number of objects of each version. Zero means 50, or 10 with -short.
	Objects int
	// MayChange are paths of fields that the operators set to other values, such as "status.version". Fields below them are
	// not compared either.
	MayChange []string
}

// Release is a version of an operator and of its kind.
type Release struct {
	// Version is the version of the kind that the release stores, such as "v1beta1". Required.
	Version string
	// Sample is the name of a file with an object in this version. Required.
	Sample string
	// Start starts the operator, for example by testkit.K.Run, or testkit.K.StartProgram for a program that was built from the
	// former commit. Nil means that there is none; the objects then have the status of the sample.
	Start func() *testkit.Instance
}

// Check upgrades, downgrades and upgrades the kind again. The error names each lost field of the first step that loses one:
// the object, the path, and both values. It also reports a step that cannot be done within testkit.K.Timeout. Call it from
// the goroutine of the test.
func Check(k *testkit.K, kind Kind) error {
	switch {
	case kind.Objects == 0 && testing.Short():
		kind.Objects = 10
	case kind.Objects == 0:
		kind.Objects = 50
	}
	u := &upgrade{k: k, kind: kind, crd: &apiextensionsv1.CustomResourceDefinition{}, want: map[string]Objects{}}
	if err := k.Client.Get(k.Context(), client.ObjectKey{Name: kind.CRD}, u.crd); err != nil {
		return fmt.Errorf("reading the CustomResourceDefinition: %w", err)
	}
	u.versions = u.crd.Spec.Versions
	u.conversion = u.crd.Spec.Conversion
	former, present := &kind.Former, &kind.Present
	both := []string{former.Version, present.Version}
	for _, s := range []step{
		{name: former.Version + " is stored", served: both, stored: former.Version},
		{"only " + former.Version + " is served", both[:1], former.Version, former, true},
		{present.Version + " is served", both, former.Version, present, false},
		{present.Version + " is stored", both, present.Version, present, true},
		{former.Version + " is stored again", both, former.Version, present, false},
		{"only " + former.Version + " is served again", both[:1], former.Version, former, false},
		{present.Version + " is served again", both, former.Version, present, false},
		{present.Version + " is stored again", both, present.Version, present, false},
	} {
		if err := u.do(s); err != nil {
			return fmt.Errorf("%s, after %s: %w", kind.CRD, s.name, err)
		}
	}
	return nil
}

// step is a state of the CustomResourceDefinition and a release.
type step struct {
	name    string
	served  []string
	stored  string
	release *Release // may be nil
	creates bool     // objects in the version of storage
}

type upgrade struct {
	k          *testkit.K
	kind       Kind
	crd        *apiextensionsv1.CustomResourceDefinition
	versions   []apiextensionsv1.CustomResourceDefinitionVersion // as they were installed
	conversion *apiextensionsv1.CustomResourceConversion         // as it was installed
	running    *Release
	stored     string            // the version of storage
	operator   *testkit.Instance // may be nil
	want       map[string]Objects
	children   map[string]child
}

func (u *upgrade) do(s step) error {
	changes := s.release != u.running
	if changes && u.operator != nil {
		u.operator.Stop()
		u.operator = nil
	}
	if err := u.serve(s); err != nil {
		return err
	}
	if u.running = s.release; changes && s.release.Start != nil {
		u.operator = s.release.Start()
	}
	if err := errors.Join(u.waitMigrated(s.stored), u.waitIdle()); err != nil {
		return err
	}
	if err := u.compare(s.served); err != nil {
		return err
	}
	if s.creates {
		if err := u.create(s.release); err != nil {
			return err
		}
		if err := u.waitIdle(); err != nil {
			return err
		}
	}
	if u.stored != s.stored {
		if err := u.requireStored(s.stored); err != nil {
			return err
		}
		u.stored = s.stored
	}
	return u.remember(s.served)
}

// quiet is the time without a request after which an operator is idle.
const quiet = 500 * time.Millisecond

func (u *upgrade) waitIdle() error {
	if u.operator == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(u.k.Context(), u.k.Timeout)
	defer cancel()
	return u.operator.Recorder().WaitIdle(ctx, quiet)
}

// wait polls a condition, and returns its last error after the timeout.
func (u *upgrade) wait(done func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(u.k.Context(), 20*time.Millisecond, u.k.Timeout, true,
		func(ctx context.Context) (bool, error) {
			err := done(ctx)
			if err == nil || ctx.Err() == nil {
				last = err
			}
			return err == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for %v: %w", u.k.Timeout, last)
	}
	return nil
}

// compare reports what is lost in the versions that are served.
func (u *upgrade) compare(served []string) error {
	var lost []string
	for _, version := range served {
		now, err := u.read(version)
		if err != nil {
			return err
		}
		for _, line := range u.want[version].Lost(now, u.kind.MayChange...) {
			lost = append(lost, u.crd.Spec.Names.Kind+" "+line+" in "+version)
		}
	}
	children, err := u.findChildren()
	if err != nil {
		return err
	}
	lost = append(lost, lostChildren(u.children, children)...)
	if len(lost) > 0 {
		return &LostError{Fields: lost}
	}
	return nil
}

// LostError reports fields and objects that are lost.
type LostError struct {
	// Fields has one line for each: its object, the path, and both values.
	Fields []string
}

// Error lists at most 20 of them.
func (e *LostError) Error() string {
	const most = 20
	lines := append([]string{fmt.Sprintf("lost fields and objects: %d", len(e.Fields))}, e.Fields[:min(len(e.Fields), most)]...)
	if len(e.Fields) > most {
		lines = append(lines, "...")
	}
	return strings.Join(lines, "\n  ")
}

// remember makes the present state the one that the next steps must keep. A version that is not served has the former one.
func (u *upgrade) remember(served []string) error {
	for _, version := range served {
		now, err := u.read(version)
		if err != nil {
			return err
		}
		u.want[version] = now
	}
	var err error
	u.children, err = u.findChildren()
	return err
}

func (u *upgrade) read(version string) (Objects, error) {
	all, err := Read(u.k.Context(), u.k.Client, u.gvk(version))
	if u.crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		for name, o := range all {
			if o.GetNamespace() != u.k.Namespace {
				delete(all, name)
			}
		}
	}
	return all, err
}

func (u *upgrade) gvk(version string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: u.crd.Spec.Group, Version: version, Kind: u.crd.Spec.Names.Kind}
}

func (u *upgrade) list(version string) *unstructured.UnstructuredList {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(u.gvk(version))
	l.SetKind(u.crd.Spec.Names.ListKind)
	return l
}

// versionsIn returns the versions of the CustomResourceDefinition in a step.
func (u *upgrade) versionsIn(s step) []apiextensionsv1.CustomResourceDefinitionVersion {
	all := slices.DeleteFunc(slices.Clone(u.versions), func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return !slices.Contains(s.served, v.Name)
	})
	for i := range all {
		all[i].Served = true
		all[i].Storage = all[i].Name == s.stored
	}
	return all
}
