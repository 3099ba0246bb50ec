package keytally_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

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

func handle(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "Hello %s\n", keytally.IdentityOf(r.Context()).CustomerID)
}

// Every request costs a quarter of a credit.
func ExampleClient_Guard() {
	guard, err := newClient().Guard(keytally.GuardOptions{Cost: keytally.Cost{Usage: "0.25"}})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(":3000", guard(http.HandlerFunc(handle))))
}

// Reading costs less than writing, and each needs its own right to the scope.
func ExampleCostFunc() {
	guard, err := newClient().Guard(keytally.GuardOptions{
		Cost: keytally.CostFunc(func(r *http.Request) (keytally.Cost, error) {
			if r.Method == http.MethodGet {
				return keytally.Cost{Usage: "0.1", UsageName: "documents"}, nil
			}
			return keytally.Cost{Usage: "1", UsageName: "documents"}, nil
		}),
		ScopesFunc: func(r *http.Request) ([]keytally.WantedScope, error) {
			isRead := r.Method == http.MethodGet
			return []keytally.WantedScope{{Representation: "documents", Read: isRead, Create: !isRead}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/documents/", guard(http.HandlerFunc(handle)))
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

// Requests pass while keytally is unavailable, and are debited later.
func ExampleClient_KeepUsage() {
	client := newClient()
	open, err := client.KeepUsage(keytally.KeepUsageOptions{OnLost: func(lost keytally.Lost) {
		log.Print("lost usage: ", lost.Verification.Billing.Usage, lost.Status, lost.Err)
	}})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := client.Guard(keytally.GuardOptions{Cost: keytally.Cost{Usage: "1"}, Open: open})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/", guard(http.HandlerFunc(handle)))
	// Before the program ends:
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	log.Print(open.Flush(ctx), " calls could not be reported")
}

// A refusal is an answer; an error says that nothing was decided, or that the call was wrong.
func ExampleClient_Verify() {
	decision, err := newClient().Verify(context.Background(), keytally.Verification{
		Key:     "acme_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1",
		Billing: &keytally.VerificationBilling{Usage: "0.25", UsageName: "tokens"},
	})
	var failed *keytally.Error
	switch {
	case errors.As(err, &failed) && failed.Unavailable():
		log.Print("try again in ", failed.RetryAfter)
	case err != nil:
		log.Fatal(err)
	case decision.Status != keytally.StatusValid:
		log.Print(decision.Status.Display())
	default:
		log.Print(decision.CustomerID, " has ", decision.Billing.AvailableCredits, " credits left")
	}
}

// Pages are fetched when they are needed.
func ExampleClient_ListAllKeys() {
	query := keytally.ListKeysQuery{CustomerID: "cus_acme", Enabled: keytally.Ptr(true)}
	err := newClient().ListAllKeys(context.Background(), "ws_01kafc6v3nf0qtmhd7d5ryx2s9", query, func(key keytally.APIKey) error {
		_, err := fmt.Println(key.Name)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
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
