// Package podsecurity has the security context of all pods of the operators.
package podsecurity

import corev1 "k8s.io/api/core/v1"

// debianUser is the user of the servers in the official images based on Debian, Ubuntu and Oracle Linux.
const debianUser = 999

// Context sets the fields that the restricted profile requires, unless the user sets them.
func Context(given *corev1.PodSecurityContext) *corev1.PodSecurityContext {
	s := given.DeepCopy()
	if s == nil {
		s = &corev1.PodSecurityContext{}
	}
	setDefault(&s.RunAsNonRoot, true)
	setDefault(&s.RunAsUser, debianUser)
	setDefault(&s.RunAsGroup, *s.RunAsUser)
	setDefault(&s.FSGroup, *s.RunAsUser)
	setDefault(&s.FSGroupChangePolicy, corev1.FSGroupChangeOnRootMismatch)
	if s.SeccompProfile == nil {
		s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}
	return s
}

func setDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
