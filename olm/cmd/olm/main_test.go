package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/homeostat-dev/homeostat/olm/internal/fixture"
	"github.com/homeostat-dev/homeostat/olm/internal/programs"
	"github.com/homeostat-dev/homeostat/testkit"
	"github.com/homeostat-dev/homeostat/testkit/sandbox"
)

const repository = "../../.."

func TestMain(m *testing.M) {
	testkit.RunHelperProcess() // from another folder
	if err := run(context.Background(), []string{"-build", "-root", repository}, os.Stderr); err != nil {
		log.Fatal(err)
	}
	testkit.Main(m, testkit.Env{Workloads: true, Private: true})
}

// The printed next steps work: the unchanged manifests are applied, and the operator works. An interrupt leaves nothing
// behind.
func TestInstall(t *testing.T) {
	t.Parallel()
	for version, c := range map[string]struct {
		args, programs []string
	}{
		"v0": {nil, []string{"catalog", "olm"}},
		"v1": {[]string{"-v1"}, []string{"catalogd", "operator-controller"}},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			k := testkit.New(t, testkit.Private())
			k.Timeout = 3 * time.Minute
			project := runPods(t, k)
			interrupt, ended := start(t, k, k.Config, c.args...)

			for _, name := range []string{"catalog", "database"} {
				objects, err := fixture.Read(filepath.Join(repository, "olm/install", version, name+".yaml"))
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range objects {
					k.Apply(o)
				}
			}
			sample, err := fixture.Sample(project, k.Namespace, "sample")
			if err != nil {
				t.Fatal(err)
			}
			k.Wait("the kind of the sample", func(context.Context) error {
				kind := sample.GroupVersionKind()
				_, err := k.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
				return err
			})
			k.Apply(sample)
			k.Eventually(sample, testkit.Ready())

			if running := children(t, c.programs); len(running) != len(c.programs) {
				t.Errorf("of %v these run: %v", c.programs, running)
			}
			interrupt()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if running := children(t, c.programs); len(running) > 0 {
				t.Errorf("these are left: %v", running)
			}
		})
	}
}

// The command exits when OLM exits. It names the folder with the logs, and keeps it. No other test runs at the same time.
func TestExitsWhenOLMExits(t *testing.T) {
	k := testkit.New(t, testkit.Private())
	k.Timeout = time.Minute
	_, ended := start(t, k, k.Config)
	for id := range children(t, []string{"catalog"}) {
		pid, err := strconv.Atoi(id)
		if err := errors.Join(err, syscall.Kill(pid, syscall.SIGTERM)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		why, dir, _ := strings.Cut(fmt.Sprint(err), "; all that was said is in ")
		if _, there := os.Stat(filepath.Join(dir, "catalog.log")); there != nil || !strings.Contains(why, "catalog has ended") {
			t.Errorf("%v; %v", err, there)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	case <-time.After(k.Timeout):
		t.Error("it runs on")
	}
}

// runPods runs the pods of the operator database, as make up BARE=1 does.
func runPods(t *testing.T, k *testkit.K) *sandbox.Project {
	t.Helper()
	project, err := sandbox.Load(t.Context(), filepath.Join(repository, "operators/database"))
	if err != nil {
		t.Fatal(err)
	}
	pods, err := sandbox.RunPods(t.Context(), k.Config, []*sandbox.Project{project}, sandbox.PodsOptions{
		Report: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pods.Stop(); err != nil {
			t.Error(err)
		}
	})
	return project
}

// The command exits with a message when the cluster stops.
func TestExitsWhenClusterStops(t *testing.T) {
	k := testkit.New(t, testkit.Private())
	cluster, end := relay(t, k.Config)
	_, ended := start(t, k, cluster)
	end()
	select {
	case err := <-ended:
		if want := "the cluster at " + cluster.Host + " has ended"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	case <-time.After(k.Timeout):
		t.Error("it runs on")
	}
	if running := children(t, []string{"catalog", "olm"}); len(running) > 0 {
		t.Errorf("these are left: %v", running)
	}
}

// relay returns a cluster at another address, and a function that stops it.
func relay(t *testing.T, cluster *rest.Config) (at *rest.Config, end func()) {
	t.Helper()
	to, err := url.Parse(cluster.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(cluster)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = transport
	proxy.FlushInterval = -1 // for watches
	server := httptest.NewServer(proxy)
	end = sync.OnceFunc(func() {
		_ = server.Listener.Close()
		server.CloseClientConnections()
	})
	t.Cleanup(end)
	return &rest.Config{Host: server.URL}, end
}

// start runs the command, and returns when it has printed the next steps.
func start(
	t *testing.T, k *testkit.K, cluster *rest.Config, args ...string,
) (interrupt func(), ended <-chan error) {
	t.Helper()
	file, err := programs.Kubeconfig(t.TempDir(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result, out, gone := make(chan error, 1), &output{}, make(chan struct{})
	go func() {
		defer close(gone)
		result <- run(ctx, append(args, "-root", repository, "-kubeconfig", file), out)
	}()
	t.Cleanup(func() {
		cancel()
		<-gone
		t.Log(out)
	})
	k.Wait("the command to say what is next", func(context.Context) error {
		select {
		case <-gone:
			t.Fatal("it has ended: ", <-result)
		default:
		}
		if !strings.Contains(out.String(), "kubectl apply") {
			return fmt.Errorf("it says %q", out)
		}
		return nil
	})
	return cancel, result
}

// output can be written and read concurrently.
type output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// children returns the child processes of this process that run programs of these names, by process id, where /proc exists.
func children(t *testing.T, names []string) map[string]string {
	t.Helper()
	if _, err := os.Stat("/proc/self/exe"); err != nil {
		t.Skip("this machine does not say which processes there are")
	}
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, file := range files {
		status, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			continue // it has ended, or belongs to another process
		}
		program, err := os.Readlink(filepath.Join(filepath.Dir(file), "exe"))
		if name := filepath.Base(program); err == nil && slices.Contains(names, name) {
			all[filepath.Base(filepath.Dir(file))] = name
		}
	}
	return all
}
