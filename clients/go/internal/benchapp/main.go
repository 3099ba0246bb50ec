// Command benchapp is the API that bench/costs measures, alone or behind its guard. PORT; VERIFY_URL and TOKEN put the guard before it.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"os"
	"time"

	"keytally.dev/keytally"
)

func main() {
	verify := os.Getenv("VERIFY_URL")
	answer := func(w http.ResponseWriter, r *http.Request) {
		status := keytally.Status("OPEN")
		if verify != "" {
			status = keytally.IdentityOf(r.Context()).Status
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "Ada", "status": status})
	}
	users := http.Handler(http.HandlerFunc(answer))
	if verify != "" {
		users = guarded(verify, users)
	}
	app := http.NewServeMux()
	app.Handle("/users", users)
	// Outside the guard: how the benchmark sees that the program is ready.
	app.HandleFunc("/", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), app))
}

func guarded(verify string, next http.Handler) http.Handler {
	client, err := keytally.New(keytally.Options{URL: verify, Token: os.Getenv("TOKEN"), VerifyTimeout: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := client.Guard(keytally.GuardOptions{
		Cost:   keytally.Cost{Usage: "0.001"},
		Scopes: []keytally.WantedScope{{Representation: "users", Read: true}},
	})
	if err != nil {
		log.Fatal(err)
	}
	return guard(next)
}
