package desired

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "github.com/homeostat-dev/homeostat/operators/database/api/v1"
)

// portName is the name of the port in containers and Services.
const portName = "db"

// PrimaryService returns the Service of the primary alone. It selects no pod until the initial data are restored, because a
// client would find an empty database.
func PrimaryService(db *v1.Database, begun bool) *corev1.Service {
	selector := Selector(db)
	selector["statefulset.kubernetes.io/pod-name"] = PodName(db, 0)
	if !begun {
		selector["techoral.com/restored"] = "not-yet"
	}
	return service(db, SetName(db), selector)
}

// ReplicaService returns the Service for reading. It selects the replicas, or the primary if there are none.
func ReplicaService(db *v1.Database, begun bool) *corev1.Service {
	if db.Members() == 1 {
		s := PrimaryService(db, begun)
		s.Name = ReadServiceName(db)
		return s
	}
	selector := Selector(db)
	selector[RoleLabel] = RoleReplica
	return service(db, ReadServiceName(db), selector)
}

// HeadlessService returns the Service that gives each pod a DNS name, ready or not.
func HeadlessService(db *v1.Database) *corev1.Service {
	s := service(db, HeadlessServiceName(db), Selector(db))
	s.Annotations = nil
	s.Spec.Type = ""
	s.Spec.ClusterIP = corev1.ClusterIPNone
	s.Spec.PublishNotReadyAddresses = true
	return s
}

func service(db *v1.Database, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels(db), Annotations: maps.Clone(db.Spec.Service.Annotations)},
		Spec: corev1.ServiceSpec{
			Type: db.Spec.Service.Type, Selector: selector,
			Ports: []corev1.ServicePort{{Name: portName, Port: Port(db.Spec.Engine), TargetPort: intstr.FromString(portName)}},
		},
	}
}

// DisruptionBudget returns the budget that allows one member at a time to be evicted.
func DisruptionBudget(db *v1.Database) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: SetName(db), Labels: labels(db)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: Selector(db)},
		},
	}
}
