//go:build linux

// Command web is a server for containers in tests on real nodes: see testkit.K.LoadPackage. It responds at port 8080 with
// what the container sees.
//
//	/                        the name of the host, which is that of the pod
//	/version                 main.version, which -ldflags=-X sets
//	/env/NAME                an environment variable
//	/file/PATH               a file
//	/loaded                  the file of -load, as it was when the process started
//	/write/PATH?text=TEXT    writes a file, and returns when it is stored
//	/size/PATH               the size of the file system in bytes
//	/allocate?bytes=NUMBER   allocates memory and keeps it
//	/compute?for=DURATION    uses a processor for a time after the response
//	/get?url=URL             the response to a GET request, within a second
//
// With -get URL it serves nothing: it prints the response to a GET request, for another host with -host HOST. It fails
// without one within a second.
//
// With -lock FILE it appends a line to the file when it starts: the variable POD_UID, and "alone" or "beside another", which
// means that another container holds the lock of the file. The latter is followed by a line with "alone" when the other
// container has ended.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var version = "1"

func main() {
	load := flag.String("load", "", "the file to serve as it is now")
	lock := flag.String("lock", "", "the file to lock")
	url := flag.String("get", "", "the URL to get")
	host := flag.String("host", "", "the host that -get asks for, instead of that of the URL")
	flag.Parse()
	do := func() error { return run(*load, *lock) }
	if *url != "" {
		do = func() error { return get(os.Stdout, *url, *host) }
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

// get writes a response to out.
func get(out io.Writer, url, host string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil) //nolint:gosec // a test names the URL
	if err != nil {
		return fmt.Errorf("getting: %w", err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request) //nolint:gosec // a test names the URL
	if err != nil {
		return fmt.Errorf("getting: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(out, response.Body); err != nil {
		return fmt.Errorf("reading the response: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

func run(load, lock string) error {
	if lock != "" {
		if err := record(lock); err != nil {
			return err
		}
	}
	handler := handlers()
	if load != "" {
		loaded, err := os.ReadFile(load)
		if err != nil {
			return fmt.Errorf("loading: %w", err)
		}
		handler.HandleFunc("/loaded", func(w http.ResponseWriter, _ *http.Request) { respond(w, string(loaded), nil) })
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: ":8080", Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	log.Print("serving")
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

// record locks the file until the process ends.
func record(name string) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the file to lock: %w", err)
	}
	write := func(what string) error {
		_, err := fmt.Fprintln(file, os.Getenv("POD_UID"), what)
		return err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return write("alone")
	case !errors.Is(err, syscall.EWOULDBLOCK):
		return fmt.Errorf("locking: %w", err)
	}
	go func() {
		for errors.Is(syscall.Flock(int(file.Fd()), syscall.LOCK_EX), syscall.EINTR) {
		}
		if err := write("alone"); err != nil {
			log.Fatal(err)
		}
	}()
	return write("beside another")
}

func handlers() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		name, err := os.Hostname()
		respond(w, name, err)
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) { respond(w, version, nil) })
	mux.HandleFunc("/env/{name}", func(w http.ResponseWriter, r *http.Request) {
		respond(w, os.Getenv(r.PathValue("name")), nil)
	})
	mux.HandleFunc("/file/{path...}", func(w http.ResponseWriter, r *http.Request) {
		data, err := os.ReadFile("/" + r.PathValue("path"))
		respond(w, string(data), err)
	})
	mux.HandleFunc("/write/{path...}", func(w http.ResponseWriter, r *http.Request) {
		respond(w, "", store("/"+r.PathValue("path"), r.FormValue("text")))
	})
	mux.HandleFunc("/size/{path...}", func(w http.ResponseWriter, r *http.Request) {
		var s syscall.Statfs_t
		err := syscall.Statfs("/"+r.PathValue("path"), &s)
		respond(w, strconv.FormatInt(int64(s.Blocks)*s.Frsize, 10), err) //nolint:gosec // no file system has 2^63 bytes
	})
	mux.HandleFunc("/compute", func(w http.ResponseWriter, r *http.Request) {
		duration, err := time.ParseDuration(r.FormValue("for"))
		go compute(duration)
		respond(w, "", err)
	})
	mux.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		err := get(&text, r.FormValue("url"), "")
		respond(w, text.String(), err)
	})
	var kept [][]byte
	mux.HandleFunc("/allocate", func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("bytes"))
		if err == nil {
			memory := make([]byte, n)
			for i := range memory {
				memory[i] = 1
			}
			kept = append(kept, memory)
		}
		respond(w, strconv.Itoa(len(kept)), err)
	})
	return mux
}

// compute uses a processor for a time.
func compute(duration time.Duration) {
	for start := time.Now(); time.Since(start) < duration; {
		runtime.Gosched()
	}
}

// store writes a file that survives the loss of the node's power.
func store(name, text string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Sync(), file.Close())
}

func respond(w http.ResponseWriter, text string, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = fmt.Fprint(w, text) //nolint:gosec // the client is a test, not a browser
}
