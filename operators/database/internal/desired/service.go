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

// Primary returns the Service of the primary, and of nobody else. It leads nowhere until the data are there with which the
// database begins: who connected before would find an empty one.
func Primary(db *v1.Database, begun bool) *corev1.Service {
	selector := Selector(db)
	selector["statefulset.kubernetes.io/pod-name"] = PodName(db, 0)
	if !begun {
		selector["techoral.com/restored"] = "not-yet"
	}
	return service(db, SetName(db), selector)
}

// Replicas returns the Service for reading: that of the replicas, or of the primary as long as there are to be none.
func Replicas(db *v1.Database, begun bool) *corev1.Service {
	if db.Members() == 1 {
		s := Primary(db, begun)
		s.Name = ReadServiceName(db)
		return s
	}
	selector := Selector(db)
	selector[RoleLabel] = RoleReplica
	return service(db, ReadServiceName(db), selector)
}

// Headless returns the Service that gives each pod a name, whether it is ready or not.
func Headless(db *v1.Database) *corev1.Service {
	s := service(db, HeadlessServiceName(db), Selector(db))
	s.Annotations = nil
	s.Spec.Type, s.Spec.ClusterIP, s.Spec.PublishNotReadyAddresses = "", corev1.ClusterIPNone, true
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

// Disruption returns what keeps all but one of the members up when nodes are drained.
func Disruption(db *v1.Database) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: SetName(db), Labels: labels(db)},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: Selector(db)},
		},
	}
}
