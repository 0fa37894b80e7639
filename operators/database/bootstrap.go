package database

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
	"github.com/homeostat-dev/homeostat/sdk"
)

func (is *observed) bootstrapVolume(int, *corev1.PersistentVolumeClaim) error { return nil }

func (is *observed) restore(*sdk.Child[*appsv1.StatefulSet], []sdk.Planned) (bool, error) {
	return true, nil
}

func (o *Options) finalize(context.Context, *sdk.Pass[*v1.Database]) error { return nil }
