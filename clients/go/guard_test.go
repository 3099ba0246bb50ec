package keytally

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve starts an API behind a guard.
func serve(t testing.TB, client *Client, options GuardOptions, handler http.HandlerFunc) string {
	t.Helper()
	guard, err := client.Guard(options)
	must(t, err)
	server := httptest.NewServer(guard(handler))
	t.Cleanup(server.Close)
	return server.URL
}

func get(t testing.TB, url, key string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	must(t, err)
	r.Header.Set("X-Api-Key", key)
	received, err := http.DefaultClient.Do(r)
	must(t, err)
	defer received.Body.Close()
	text, _ := io.ReadAll(received.Body)
	return received.StatusCode, string(text)
}

func TestAFunctionThatFailsOrGivesNothingRefusesTheRequest(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	away, err := client.KeepUsage(KeepUsageOptions{OnLost: func(Lost) {}})
	must(t, err)
	away.keep(keptCall{verification: Verification{Key: "key_x"}}, false)
	for said, options := range map[string]GuardOptions{
		"scopes is nil": {ScopesFunc: func(*http.Request) ([]WantedScope, error) { return nil, nil }},
		"no price":      {HoldFunc: func(*http.Request) (HoldOptions, error) { return HoldOptions{}, errors.New("no price") }},
		// Kept, its usage could never be sent.
		"idempotencyKey is \"a b\"": {Open: away, IdempotencyKey: func(*http.Request) string { return "a b" }},
	} {
		var told error
		options.OnError = func(err error, _ *http.Request) { told = err }
		url := serve(t, client, options, func(http.ResponseWriter, *http.Request) { t.Error("the handler was reached") })
		status, text := get(t, url, "key_x")
		equal(t, status, http.StatusInternalServerError)
		equal(t, strings.Contains(text, `"code":50001`), true)
		equal(t, strings.Contains(told.Error(), said), true)
	}
}

func TestOptionsThatExcludeEachOtherKeepTheProgramFromStarting(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	kept, err := client.KeepUsage(KeepUsageOptions{OnLost: func(Lost) {}})
	must(t, err)
	hold := &HoldOptions{ExpiresIn: 60}
	holdFunc := func(*http.Request) (HoldOptions, error) { return *hold, nil }
	scopesFunc := func(*http.Request) ([]WantedScope, error) { return []WantedScope{}, nil }
	for said, options := range map[string]GuardOptions{
		"Hold is there beside Open": {Hold: hold, Open: kept},
		"beside HoldFunc":           {Hold: hold, HoldFunc: holdFunc},
		"beside ScopesFunc":         {Scopes: []WantedScope{}, ScopesFunc: scopesFunc},
	} {
		if _, err := client.Guard(options); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v", said, err)
		}
	}
	if _, err := client.KeepUsage(KeepUsageOptions{}); err == nil {
		t.Error("usage may be lost without a function that is told")
	}
}

func TestARouteIsPrintableAndNotTooLong(t *testing.T) {
	options := GuardOptions{Route: func(*http.Request) string { return "GET /é\n" }}
	equal(t, options.routeOf(nil), "GET /??")
	options.Route = func(*http.Request) string { return strings.Repeat("b", 2000) }
	equal(t, len(options.routeOf(nil)), 1024)
}

func TestAHandlerWithoutAGuardIsToldSo(t *testing.T) {
	for _, call := range []func(){
		func() { IdentityOf(context.Background()) },
		func() { HoldOf(context.Background()) },
	} {
		func() {
			defer func() {
				if said := fmt.Sprint(recover()); !strings.Contains(said, "ran before this handler") {
					t.Error(said)
				}
			}()
			call()
		}()
	}
}

func TestAnEndClientThatLeavesDoesNotEndItsVerification(t *testing.T) {
	asked := make(chan string, 10)
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.URL.Path
		if len(asked) == 1 {
			// The first answer never comes; the second attempt comes long after the end client left.
			<-r.Context().Done()
		}
		_, _ = io.WriteString(w, `{"status":"VALID","hold":{"id":"h-1"}}`)
	})
	client := newTestClient(t, Options{URL: url, Token: "x", VerifyTimeout: 4 * time.Second})
	reached := make(chan error, 1)
	handler := func(_ http.ResponseWriter, r *http.Request) { reached <- r.Context().Err() }
	guarded := serve(t, client, GuardOptions{Cost: Cost{Usage: "10"}, Hold: &HoldOptions{ExpiresIn: 600}}, handler)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, guarded, nil)
	r.Header.Set("X-Api-Key", "key_x")
	left := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r)
		left <- err
	}()
	eventually(t, "verify is asked", func() bool { return len(asked) == 1 })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	equal(t, <-reached, context.Canceled)
	equal(t, <-asked+" "+<-asked+" "+<-asked, verifyPath+" "+verifyPath+" /api/v1/usage/release")
}
