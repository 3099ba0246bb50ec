package keytally

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
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

// proxy stands before a server. It can lose, delay or refuse chosen requests; the others pass.
type proxy struct {
	url string

	mutex sync.Mutex
	fate  string
	next  []string
	seen  []*http.Request
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{fate: "pass"}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.handle(w, r, target) }))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	p.url = server.URL
	return p
}

func (p *proxy) handle(w http.ResponseWriter, r *http.Request, target string) {
	fate := p.fateOf(r)
	body, _ := io.ReadAll(r.Body)
	switch fate {
	case "refuse":
		panic(http.ErrAbortHandler)
	case "html":
		w.WriteHeader(http.StatusBadGateway)
		return
	case "redirect":
		w.Header().Set("Location", "http://127.0.0.1:1/")
		w.WriteHeader(http.StatusTemporaryRedirect)
		return
	}
	sent, _ := http.NewRequest(r.Method, target+r.RequestURI, bytes.NewReader(body))
	sent.Header = r.Header
	received, err := http.DefaultTransport.RoundTrip(sent)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer received.Body.Close()
	text, _ := io.ReadAll(received.Body)
	switch fate {
	case "lose":
		panic(http.ErrAbortHandler)
	case "hang":
		<-r.Context().Done()
		return
	}
	for name, values := range received.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(received.StatusCode)
	_, _ = w.Write(text)
}

func (p *proxy) fateOf(r *http.Request) string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.seen = append(p.seen, r)
	if len(p.next) == 0 {
		return p.fate
	}
	fate := p.next[0]
	p.next = p.next[1:]
	return fate
}

// become says what happens to requests; then says it of the next ones alone, and forgets those that were seen.
func (p *proxy) become(fate string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.fate = fate
}

func (p *proxy) then(fates ...string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.next, p.seen = fates, nil
}

func (p *proxy) paths() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var paths []string
	for _, r := range p.seen {
		paths = append(paths, r.URL.Path)
	}
	return strings.Join(paths, " ")
}

func (p *proxy) idempotencyKeys() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	keys := map[string]bool{}
	for _, r := range p.seen {
		keys[r.Header.Get("Idempotency-Key")] = true
	}
	return len(keys)
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
