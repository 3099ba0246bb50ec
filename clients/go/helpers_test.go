package keytally

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"
)

// The tests run against a real keytally, which stack.go.test.ts starts. Without one they are left out.
const patience = 20 * time.Second

type stack struct{ api, verify, token string }

func requireStack(t testing.TB) stack {
	t.Helper()
	found := stack{os.Getenv("KEYTALLY_API_URL"), os.Getenv("KEYTALLY_VERIFY_URL"), os.Getenv("KEYTALLY_TOKEN")}
	if found.api == "" || found.verify == "" || found.token == "" {
		t.Skip("needs a keytally: set KEYTALLY_API_URL, KEYTALLY_VERIFY_URL and KEYTALLY_TOKEN")
	}
	return found
}

func newTestClient(t testing.TB, options Options) *Client {
	t.Helper()
	if options.VerifyTimeout == 0 {
		options.VerifyTimeout = patience
	}
	client, err := New(options)
	must(t, err)
	return client
}

// customer is one with a key and credits of its own.
type customer struct {
	client                  *Client
	workspace, billing, key string
}

func newCustomer(t testing.TB, credits string) customer {
	t.Helper()
	stack := requireStack(t)
	client := newTestClient(t, Options{URL: stack.api, VerifyURL: stack.verify, Token: stack.token})
	ctx := context.Background()
	workspace, err := client.CreateWorkspace(ctx, CreateWorkspaceRequest{Name: "go"})
	must(t, err)
	made := customer{client: client, workspace: workspace.Workspace.ID}
	meter := ""
	if credits != "" {
		meter = "acme"
		billing, err := client.CreateBilling(ctx, CreateBillingRequest{WorkspaceID: made.workspace, ExternalMeterID: meter, TotalCredits: credits})
		must(t, err)
		made.billing = billing.Billing.ID
	}
	key, err := client.CreateKey(ctx, CreateKeyRequest{Name: "k", WorkspaceID: made.workspace, ExternalMeterID: meter, CustomerID: "cus_acme"})
	must(t, err)
	made.key = key.APIKey.Key
	return made
}

// amounts are the credits used and held.
func (c customer) amounts(t testing.TB) string {
	t.Helper()
	found, err := c.client.GetBilling(context.Background(), c.billing)
	must(t, err)
	return found.Billing.UsedCredits + " used " + found.Billing.HeldCredits + " held"
}

func (c customer) become(t testing.TB, expected string) {
	t.Helper()
	eventually(t, expected, func() bool { return c.amounts(t) == expected })
}

func eventually(t testing.TB, what string, isSo func() bool) {
	t.Helper()
	for until := time.Now().Add(5 * patience); !isSo(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("it did not come to this: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t testing.TB, got, want T) {
	t.Helper()
	if any(got) != any(want) {
		t.Fatalf("got %v, and wanted %v", got, want)
	}
}

func failure(t testing.TB, err error) *Error {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("it should have failed with an *Error: %v", err)
	}
	return failed
}

// newServer starts a server that is not keytally's.
func newServer(t testing.TB, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// reset ends the connection of a request that was read to its end.
func reset(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = connection.(*net.TCPConn).SetLinger(0)
		_ = connection.Close()
	}
}

// together calls a function many times at once, and counts what it gives.
func together(count int, call func(i int) string) string {
	var all sync.WaitGroup
	var mutex sync.Mutex
	counts := map[string]int{}
	for i := 0; i < count; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			found := call(i)
			mutex.Lock()
			defer mutex.Unlock()
			counts[found]++
		}(i)
	}
	all.Wait()
	return fmt.Sprint(counts)
}
