package cluster_test

import (
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/testkit/cluster"
)

// Programs is the list that assets.Find needs before a cluster of this tier can start.
func ExamplePrograms() {
	for _, tier := range []cluster.Tier{cluster.API, cluster.Workloads} {
		fmt.Println(tier, cluster.Programs(tier))
	}
	// Output:
	// api [etcd kube-apiserver]
	// workloads [etcd kube-apiserver kube-controller-manager kube-scheduler kwok]
}

// A kubeconfig gives kubectl, or an operator in a process of its own, access to a started cluster.
func ExampleKubeconfig() {
	// cfg := c.Config()
	cfg := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "secret"}
	kubeconfig, err := cluster.Kubeconfig(cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(kubeconfig))
	// Output:
	// apiVersion: v1
	// clusters:
	// - cluster:
	//     server: https://127.0.0.1:6443
	//   name: testkit
	// contexts:
	// - context:
	//     cluster: testkit
	//     user: testkit
	//   name: testkit
	// current-context: testkit
	// kind: Config
	// users:
	// - name: testkit
	//   user:
	//     token: secret
}
