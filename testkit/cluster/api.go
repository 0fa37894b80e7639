package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"

	"github.com/homeostat-dev/homeostat/testkit/assets"
	"github.com/homeostat-dev/homeostat/testkit/assets/nodes/spec"
	"github.com/homeostat-dev/homeostat/testkit/internal/egress"
	"github.com/homeostat-dev/homeostat/testkit/internal/freeport"
	"github.com/homeostat-dev/homeostat/testkit/internal/process"
)

// host is the only address that the API server listens on.
const host = freeport.Host

// bindAttempts is the maximum number of ports to try.
const bindAttempts = 5

// startAPI starts etcd and kube-apiserver in parallel: the API server waits for etcd by itself.
func (c *Cluster) startAPI(ctx context.Context) error {
	c.opts.Progress("starting etcd and kube-apiserver")
	if err := c.startEtcd(); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, freeport.Get); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return egress.Start(c.ctx, c.egressSocket(), c.hubSocket(), client)
}

// startEtcd starts etcd, and writes the files that etcd and the API server read.
func (c *Cluster) startEtcd() error {
	signer, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return fmt.Errorf("making the key that signs ServiceAccount tokens: %w", err)
	}
	egressConfig, err := egress.Configuration(c.egressSocket())
	if err != nil {
		return fmt.Errorf("encoding the egress configuration: %w", err)
	}
	files := map[string][]byte{
		c.path("egress.json"): egressConfig,
		c.path("tls.crt"):     c.cert.cert,
		c.path("tls.key"):     c.cert.key,
		c.path("signer.key"):  signer,
		c.path("tokens.csv"):  []byte(c.tokenFile()),
	}
	if c.real != nil {
		for file, subject := range map[string][]string{
			"kubelet-client": {"kube-apiserver-kubelet-client", "system:masters"}, aggregator: {aggregator},
		} {
			client, key, err := c.cert.client(subject[0], subject[1:]...)
			if err != nil {
				return err
			}
			files[c.path(file+".crt")], files[c.path(file+".key")] = client, key
		}
	}
	if err := writeFiles(files); err != nil {
		return err
	}
	_, err = c.launch(assets.Etcd, c.etcdArgs()...)
	return err
}

// startAPIServer tries another port if another process took the free port meanwhile.
func (c *Cluster) startAPIServer(ctx context.Context, pickPort func() (int, error)) error {
	for attempt := 1; ; attempt++ {
		port, err := pickPort()
		if err != nil {
			return err
		}
		c.host = net.JoinHostPort(host, strconv.Itoa(port))
		p, err := c.launch(assets.APIServer, c.apiServerArgs(port)...)
		if err != nil {
			return err
		}
		err = p.WaitReady(ctx, c.probe())
		if err == nil || attempt == bindAttempts || !portTaken(p) {
			return err
		}
		c.drop(p)
		if err := os.Remove(p.LogFile); err != nil {
			return fmt.Errorf("removing the log of a failed start: %w", err)
		}
	}
}

// drop removes a process that has ended from the list.
func (c *Cluster) drop(p *process.Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.processes {
		if c.processes[i] == p {
			c.processes = append(c.processes[:i], c.processes[i+1:]...)
			return
		}
	}
}

func portTaken(p *process.Process) bool {
	select {
	case <-p.Done():
		return strings.Contains(p.Tail(), "address already in use")
	default:
		return false
	}
}

// probe requests the API server's readiness. The pinned certificate proves that the response comes from this cluster.
func (c *Cluster) probe() func(context.Context) error {
	cfg := c.Config()
	cfg.Timeout = 5 * time.Second
	client, clientErr := rest.HTTPClientFor(cfg)
	return func(ctx context.Context) error {
		if clientErr != nil {
			return fmt.Errorf("making a client: %w", clientErr)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/readyz", nil)
		if err != nil {
			return fmt.Errorf("asking for readiness: %w", err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("asking for readiness: %w", err)
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("asking for readiness: %s", resp.Status)
		}
		return nil
	}
}

// etcdArgs makes etcd listen on unix sockets: they need no free port, and other users cannot connect.
func (c *Cluster) etcdArgs() []string {
	peer := "unix://" + c.path("peer.sock")
	return []string{
		"--name=testkit",
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + c.etcdURL(),
		"--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=" + peer,
		"--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=testkit=" + peer,
		"--unsafe-no-fsync", // the data does not outlive the process
		"--logger=zap", "--log-level=warn",
	}
}

func (c *Cluster) etcdURL() string { return "unix://" + c.path("etcd.sock") }

// tokenFile returns the tokens of the administrator and of real nodes.
func (c *Cluster) tokenFile() string {
	tokens := c.token + `,testkit,testkit,"system:masters"` + "\n"
	if c.real != nil {
		tokens += c.real.tokenLines()
	}
	return tokens
}

// hubSocket returns the socket of the network of real nodes, or "".
func (c *Cluster) hubSocket() string {
	if c.real == nil {
		return ""
	}
	return c.path(spec.ControlSocket)
}

func (c *Cluster) egressSocket() string { return c.path("egress.sock") }

func (c *Cluster) apiServerArgs(port int) []string {
	args := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=" + host,
		"--secure-port=" + strconv.Itoa(port),
		"--tls-cert-file=" + c.path("tls.crt"),
		"--tls-private-key-file=" + c.path("tls.key"),
		"--cert-dir=" + c.path("certs"),
		"--token-auth-file=" + c.path("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.path("signer.key"),
		"--service-account-signing-key-file=" + c.path("signer.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--allow-privileged=true",
		"--egress-selector-config-file=" + c.path("egress.json"),
		// Fair queuing costs 6 % of the CPU time, and its rejections would fail tests on a busy machine.
		"--enable-priority-and-fairness=false", "--max-requests-inflight=0", "--max-mutating-requests-inflight=0",
	}
	if c.opts.Tier == Real {
		return append(args, c.realArgs()...)
	}
	args = append(args, "--advertise-address="+host, "--authorization-mode=RBAC",
		"--endpoint-reconciler-type=none") // loopback addresses are not valid endpoints
	if c.opts.Tier == API {
		// Both wait for controllers that this tier lacks: one creates a ServiceAccount in every namespace, the other
		// removes its finalizer from unused claims and volumes.
		args = append(args, "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection")
	}
	return args
}

func command(folder, name string, args []string) *exec.Cmd {
	return exec.Command(filepath.Join(folder, name), args...)
}
