package keytally

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func verifyOnce(client *Client, key string) string {
	decision, err := client.Verify(context.Background(), Verification{Key: key, Billing: &VerificationBilling{Usage: "1"}})
	if err != nil {
		return err.Error()
	}
	return string(decision.Status)
}

func TestMoreCallsThanABatchTakesOrLongerOnesLeaveAsSeveral(t *testing.T) {
	acme := newCustomer(t, "1000")
	equal(t, together(250, func(int) string { return verifyOnce(acme.client, acme.key) }), "map[VALID:250]")
	scopes := make([]WantedScope, 30)
	for i := range scopes {
		scopes[i].Representation = strings.Repeat("s", 120) + fmt.Sprint(i)
	}
	long := Verification{Key: acme.key, RequestedScopes: scopes, Billing: &VerificationBilling{Usage: "1"}}
	outcomes := together(100, func(int) string {
		decision, err := acme.client.Verify(context.Background(), long)
		if err != nil {
			return err.Error()
		}
		return string(decision.Status)
	})
	equal(t, outcomes, "map[INVALID_SCOPES:100]")
	acme.become(t, "250 used 0 held")
}

// answering is a server that answers each request when it is told to.
type answering struct {
	*httptest.Server
	mutex sync.Mutex
	held  []heldRequest
}

type heldRequest struct {
	calls   int
	release chan struct{}
}

func newAnswering(t *testing.T) *answering {
	server := &answering{}
	server.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Verifications []json.RawMessage }
		text, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(text, &body)
		one := heldRequest{calls: len(body.Verifications), release: make(chan struct{})}
		server.mutex.Lock()
		server.held = append(server.held, one)
		server.mutex.Unlock()
		<-one.release
		if one.calls == 0 {
			_, _ = io.WriteString(w, `{"status":"VALID"}`)
			return
		}
		results := strings.Repeat(`{"status":"INVALID"},`, one.calls)
		_, _ = io.WriteString(w, `{"results":[`+strings.TrimSuffix(results, ",")+`]}`)
	}))
	t.Cleanup(server.Close)
	return server
}

func (a *answering) calls() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	calls := 0
	for _, one := range a.held {
		if one.calls == 0 {
			calls++
		}
		calls += one.calls
	}
	return calls
}

func TestCallsThatComeWhileOthersAreOnTheirWayHoldUpNobody(t *testing.T) {
	server := newAnswering(t)
	client := newTestClient(t, Options{URL: server.URL, Token: "x"})
	first := make(chan string, 1)
	go func() { first <- verifyOnce(client, "first") }()
	eventually(t, "the first is on its way", func() bool { return server.calls() == 1 })
	others := make(chan string, 1)
	go func() { others <- together(20, func(int) string { return verifyOnce(client, "other") }) }()
	// The server answers nothing: they leave after a millisecond.
	eventually(t, "they left too", func() bool { return server.calls() == 21 })
	server.mutex.Lock()
	for _, one := range server.held {
		close(one.release)
	}
	server.mutex.Unlock()
	equal(t, <-first, "VALID")
	equal(t, strings.Contains(<-others, "INVALID"), true)
}

func TestEachCallOfABatchHasItsOwnDeadlineAndItsOwnContext(t *testing.T) {
	server := newAnswering(t)
	client := newTestClient(t, Options{URL: server.URL, Token: "x"})
	canceled, cancel := context.WithCancel(context.Background())
	defer cancel()
	outcomes := make(chan error, 3)
	verify := func(ctx context.Context, options ...CallOption) {
		_, err := client.Verify(ctx, Verification{Key: "x"}, options...)
		outcomes <- err
	}
	go verify(canceled)
	eventually(t, "it is on its way", func() bool { return server.calls() == 1 })
	cancel()
	equal(t, <-outcomes, context.Canceled)
	go verify(context.Background(), WithTimeout(60*time.Millisecond))
	equal(t, failure(t, <-outcomes).Message, "keytally did not answer in time")
	soon, cancelSoon := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancelSoon()
	go verify(soon)
	if err := <-outcomes; !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	server.mutex.Lock()
	defer server.mutex.Unlock()
	for _, one := range server.held {
		close(one.release)
	}
}

func TestABatchWithAResultThatIsNotKeytallysFailsWhole(t *testing.T) {
	for _, result := range []string{`{}`, `null`, `{"status":""}`, `{"error":{}}`, `{"error":null}`} {
		result := result
		url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
			var body VerifyKeysRequest
			_ = json.NewDecoder(r.Body).Decode(&body)
			others := strings.Repeat(`{"status":"VALID"},`, len(body.Verifications)-1)
			_, _ = io.WriteString(w, `{"results":[`+others+result+`]}`)
		})
		client := newTestClient(t, Options{URL: url, Token: "x"})
		_, err := client.VerifyBatch(context.Background(), make([]BatchedVerification, 2))
		failed := failure(t, err)
		equal(t, fmt.Sprint(failed.Status, failed.Code, failed), "200 0 the answer to a batch is not from keytally")
		// As many as a batch takes leave at once, whatever else is on its way.
		calls := make([]*verification, mostCalls)
		for i := range calls {
			calls[i] = &verification{fields: []byte(`{"key":"x"}`), until: time.Now().Add(patience), outcome: make(chan outcome, 1)}
		}
		client.gatherer.mutex.Lock()
		client.gatherer.sendTogether(calls)
		client.gatherer.mutex.Unlock()
		for _, one := range calls {
			equal(t, failure(t, (<-one.outcome).err).Message, "the answer to a batch is not from keytally")
		}
	}
}

func TestVerifyBatchGivesEachVerificationAKeyOfItsOwnAndCanBeRepeated(t *testing.T) {
	acme := newCustomer(t, "10")
	stack := requireStack(t)
	verify := newProxy(t, stack.verify)
	client := newTestClient(t, Options{URL: verify.url, Token: stack.token})
	verify.then("lose")
	one := BatchedVerification{Key: acme.key, Billing: &VerificationBilling{Usage: "1"}}
	wrong := BatchedVerification{Key: acme.key, Billing: &VerificationBilling{Usage: "much"}}
	found, err := client.VerifyBatch(context.Background(), []BatchedVerification{one, one, wrong})
	must(t, err)
	equal(t, found.Results[0].Status, StatusValid)
	equal(t, found.Results[1].Status, StatusValid)
	equal(t, found.Results[2].Error.Code, 40001)
	equal(t, found.Results[2].Decision == nil, true)
	acme.become(t, "2 used 0 held")
}
