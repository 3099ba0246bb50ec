package keytally_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"keytally.dev/keytally"
)

func newClient() *keytally.Client {
	client, err := keytally.New(keytally.Options{
		URL:       os.Getenv("KEYTALLY_API_URL"),
		VerifyURL: os.Getenv("KEYTALLY_VERIFY_URL"),
		Token:     os.Getenv("KEYTALLY_TOKEN"),
	})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// The guard holds the most that a request may cost, and the handler captures what it did cost.
func ExampleHoldOf() {
	guard, err := newClient().Guard(keytally.GuardOptions{
		Cost: keytally.Cost{Usage: "0.25"},
		Hold: &keytally.HoldOptions{ExpiresIn: 60},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := keytally.HoldOf(r.Context()).Capture(r.Context(), "0.1"); err != nil {
			http.Error(w, "it could not be charged", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "Hello")
	})))
}

// Set gives a setting a value, Null clears it, and a field that is nil stays as it is.
func ExampleNullable() {
	text, _ := json.Marshal(keytally.UpdateKeyRequest{
		Enabled:   keytally.Ptr(false),
		ExpiresAt: keytally.Null[int64](),
		Limits:    keytally.Set([]keytally.Limit{{Name: "daily", Unit: "credits", Limit: keytally.Credits("2.5"), Per: "day"}}),
	})
	fmt.Println(string(text))
	// Output: {"enabled":false,"expiresAt":null,"limits":[{"name":"daily","unit":"credits","limit":"2.5","per":"day"}]}
}
