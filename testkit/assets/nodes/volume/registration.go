//go:build linux

package volume

import (
	"context"
	"log/slog"

	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// A registrationServer answers the kubelet that has found its socket.
type registrationServer struct {
	registration.UnimplementedRegistrationServer

	endpoint string
}

func (s *registrationServer) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type: registration.CSIPlugin, Name: DriverName, Endpoint: s.endpoint, SupportedVersions: []string{"1.0.0"},
	}, nil
}

// NotifyRegistrationStatus logs a failure: the kubelet tries again.
func (s *registrationServer) NotifyRegistrationStatus(
	ctx context.Context, r *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if !r.GetPluginRegistered() {
		slog.ErrorContext(ctx, "the kubelet has not registered the driver", "error", r.GetError())
	}
	return &registration.RegistrationStatusResponse{}, nil
}
