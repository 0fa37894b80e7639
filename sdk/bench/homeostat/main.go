// Command homeostat is the candidate that uses the SDK.
package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/homeostat-dev/homeostat/sdk"
	"github.com/homeostat-dev/homeostat/sdk/bench/work"
	"github.com/homeostat-dev/homeostat/sdk/program"
)

func main() {
	work.EnableProfiling()
	program.Main(&sdk.Operator[*work.Database]{
		Name:        "bench",
		AddToScheme: work.AddToScheme,
		Owns: []client.Object{
			&appsv1.StatefulSet{}, &corev1.Service{}, &corev1.PersistentVolumeClaim{}, &batchv1.CronJob{},
		},
		Reconcile: reconcile,
	})
}

func reconcile(_ context.Context, p *sdk.Pass[*work.Database]) error {
	set := sdk.Apply(p, work.StatefulSet(p.Object))
	sdk.Apply(p, work.Service(p.Object))
	sdk.Apply(p, work.Claim(p.Object))
	sdk.Apply(p, work.Backup(p.Object))
	p.Object.Status.State = work.StateProvisioned
	p.Object.Status.ReadyReplicas = set.Live().Status.ReadyReplicas
	return nil
}
