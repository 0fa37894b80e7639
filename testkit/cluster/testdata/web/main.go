// Command web runs in the containers of a test: a web server, or a client that ends when it has the response.
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	if len(os.Args) > 1 {
		get(os.Args[1])
		return
	}
	log.Print("serving")
	log.Fatal(http.ListenAndServe(":8080", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if err := os.WriteFile("/data/stored", []byte("stored"), 0o600); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		stored, _ := os.ReadFile("/data/stored")
		_, _ = fmt.Fprintf(w, "%s of %s", stored, os.Getenv("HOSTNAME"))
	})))
}

// get prints the response of a server, which may not be reachable at once.
func get(url string) {
	for {
		response, err := http.Get(url)
		if err == nil {
			_, _ = io.Copy(os.Stdout, response.Body)
			return
		}
		log.Print(err)
		time.Sleep(100 * time.Millisecond)
	}
}
