package cluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig renders address, authority and credentials of cfg as a kubeconfig. Token files stay references to files,
// so that a client sees refreshed tokens.
func Kubeconfig(cfg *rest.Config) ([]byte, error) {
	const name = "testkit"
	data, err := clientcmd.Write(api.Config{
		Clusters: map[string]*api.Cluster{name: {
			Server: cfg.Host, CertificateAuthorityData: cfg.CAData, CertificateAuthority: cfg.CAFile,
			InsecureSkipTLSVerify: cfg.Insecure, TLSServerName: cfg.ServerName,
			DisableCompression: cfg.DisableCompression,
		}},
		AuthInfos: map[string]*api.AuthInfo{name: {
			Token: cfg.BearerToken, TokenFile: cfg.BearerTokenFile,
			ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData,
			ClientCertificate: cfg.CertFile, ClientKey: cfg.KeyFile,
		}},
		Contexts:       map[string]*api.Context{name: {Cluster: name, AuthInfo: name}},
		CurrentContext: name,
	})
	if err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return data, nil
}
