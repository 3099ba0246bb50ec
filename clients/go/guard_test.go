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

func TestACostThatIsWrongKeepsTheProgramFromStartingOrRefusesTheRequest(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	for _, usage := range []string{"", "abc", "-1", "0.0000001", "9000000001", "9000000000.000001", "1."} {
		said := `cost is "` + usage + `"; it must be decimal text such as "1" or "0.25"`
		_, err := client.Guard(GuardOptions{Cost: Cost{Usage: usage}})
		if err == nil || !strings.Contains(err.Error(), said) {
			t.Fatalf("%q: %v", usage, err)
		}
		var told error
		cost := CostFunc(func(*http.Request) (Cost, error) { return Cost{Usage: usage}, nil })
		onError := func(err error, _ *http.Request) { told = err }
		url := serve(t, client, GuardOptions{Cost: cost, OnError: onError}, func(http.ResponseWriter, *http.Request) {
			t.Error("the handler was reached")
		})
		status, _ := get(t, url, "key_x")
		equal(t, status, http.StatusInternalServerError)
		equal(t, strings.Contains(told.Error(), said), true)
	}
	_, err := client.Guard(GuardOptions{Cost: Cost{Usage: "9000000000.000000"}})
	must(t, err)
}

func TestAFunctionThatFailsOrGivesNothingRefusesTheRequest(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	missing := errors.New("the price list is missing")
	for said, options := range map[string]GuardOptions{
		"the price list is missing": {Cost: CostFunc(func(*http.Request) (Cost, error) { return Cost{}, missing })},
		"scopes is nil":             {ScopesFunc: func(*http.Request) ([]WantedScope, error) { return nil, nil }},
		"hold.expiresIn is 0":       {HoldFunc: func(*http.Request) (HoldOptions, error) { return HoldOptions{}, nil }},
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
		"hold.expiresIn is 86401":   {Hold: &HoldOptions{ExpiresIn: 86_401}},
		"Hold is there beside Open": {Hold: hold, Open: kept},
		"OutOfCredits is 402":       {OutOfCredits: 402},
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

func TestARefusalIsToTheByteThatOfTheOtherClients(t *testing.T) {
	recorder := httptest.NewRecorder()
	(&GuardOptions{}).refuse(recorder, nil, reason{name: "NO_KEY"}, `<"\>`)
	message := "The API key is missing; send it as Authorization: Bearer, x-api-key or Authorization: Basic."
	equal(t, recorder.Body.String(), `{"error":{"code":40110,"message":"`+message+`","requestId":"<\"\\>","reason":"NO_KEY"}}`)
	equal(t, recorder.Header().Get("WWW-Authenticate"), "Bearer")
}

func TestARouteIsPrintableAndIsCutAtASlash(t *testing.T) {
	options := GuardOptions{}
	r := httptest.NewRequest(http.MethodGet, "/a%20b?c=d", nil)
	equal(t, options.routeOf(r), "GET /a%20b")
	options.Route = func(*http.Request) string { return "GET /é\n" }
	equal(t, options.routeOf(r), "GET /??")
	long := "GET /" + strings.Repeat("a", 1000) + "/"
	options.Route = func(*http.Request) string { return long + strings.Repeat("b", 100) }
	equal(t, options.routeOf(r), long)
	options.Route = func(*http.Request) string { return strings.Repeat("b", 2000) }
	equal(t, len(options.routeOf(r)), 1024)
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
	acme := newCustomer(t, "10")
	verify := newProxy(t, requireStack(t).verify)
	client := newTestClient(t, Options{URL: verify.url, Token: requireStack(t).token, VerifyTimeout: 40 * time.Second})
	reached := make(chan error, 1)
	handler := func(_ http.ResponseWriter, r *http.Request) { reached <- r.Context().Err() }
	url := serve(t, client, GuardOptions{Cost: Cost{Usage: "10"}, Hold: &HoldOptions{ExpiresIn: 600}}, handler)
	// The first answer never comes; the second attempt comes long after the end client left.
	verify.then("hang")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	r.Header.Set("X-Api-Key", acme.key)
	left := make(chan error, 1)
	go func() {
		_, err := http.DefaultClient.Do(r)
		left <- err
	}()
	eventually(t, "verify is asked", func() bool { return verify.paths() != "" })
	cancel()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	equal(t, <-reached, context.Canceled)
	acme.become(t, "0 used 0 held")
}
