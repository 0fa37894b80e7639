package chaos_test

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/chaos"
)

// A sweep can be limited to some kinds of faults. Each fault plan is a subtest that begins with the name of its kind,
// so the kinds select subtests as well.
func ExampleFaults() {
	faults := chaos.Faults{chaos.Crash, chaos.LostResponse, chaos.Failover}
	// chaos.Sweep(t, database.Operator, scenario, faults)
	fmt.Printf("go test -run 'TestFaults/(%s)'\n", strings.Join(faults, "|"))
	// Output:
	// go test -run 'TestFaults/(crash|lost-answer|failover)'
}

// The oracles are checked in every run. WithoutOracles disables one that an operator violates on purpose.
func ExampleOracles() {
	for _, oracle := range chaos.Oracles() {
		fmt.Println(oracle)
	}
	// Output:
	// scenario
	// end-state
	// creations
	// writes-at-rest
	// writes-after-restart
	// residue
	// forbidden
	// refused
	// status
	// spec-written
	// lost-update
	// exit
	// never
	// rights
	// panic
	// outside
	// foreign
	// fresh
}

// The rules of testkit.New are a part of those of a sweep, under the same names.
func ExampleOracles_testkit() {
	for _, oracle := range testkit.Oracles() {
		fmt.Printf("%-16s in a sweep: %v\n", oracle, slices.Contains(chaos.Oracles(), string(oracle)))
	}
	// Output:
	// forbidden        in a sweep: true
	// refused          in a sweep: true
	// status           in a sweep: true
	// spec-written     in a sweep: true
	// panic            in a sweep: true
	// goroutine-leak   in a sweep: false
}

// A scenario is a list of steps with unique names. Reports name a step, so the names should say what the user does.
func ExampleScenario() {
	web := func(replicas int32) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       appsv1.DeploymentSpec{Replicas: &replicas},
		}
	}
	scenario := chaos.Scenario{
		{Name: "create", Do: func(k *testkit.K) { k.Apply(web(1)) }},
		{Name: "scale up", Do: func(k *testkit.K) { k.Apply(web(3)) }},
		{Name: "delete", Do: func(k *testkit.K) { k.Delete(web(3)) }},
	}
	for i, step := range scenario {
		fmt.Println(i+1, step.Name)
	}
	// Output:
	// 1 create
	// 2 scale up
	// 3 delete
}
