package keytally

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMakesACustomerVerifiesItsKeyAndReadsItsBooks(t *testing.T) {
	acme := newCustomer(t, "10")
	client, id, ctx := acme.client, acme.workspace, context.Background()
	scope, err := client.CreateScope(ctx, id, CreateScopeRequest{Name: "Documents", Representation: "documents"})
	must(t, err)
	wanted := []WantedScope{{Representation: "documents", Read: true}}
	made, err := client.CreateKey(ctx, CreateKeyRequest{
		Name: "k", WorkspaceID: id, ExternalMeterID: "acme", Scopes: wanted,
		Limits: &[]Limit{
			{Name: "calls", Unit: "requests", Limit: Requests(1000), Per: "day"},
			{Name: "credits", Unit: "credits", Limit: Credits("12.5"), Per: "month"},
		},
	})
	must(t, err)
	equal(t, made.APIKey.Limits[0].Limit.String()+" "+made.APIKey.Limits[1].Limit.String(), "1000 12.5")
	decision, err := client.Verify(ctx, Verification{
		Key: made.APIKey.Key, RequestedScopes: wanted, Billing: &VerificationBilling{Usage: "0.25", UsageName: "tokens"},
	})
	must(t, err)
	equal(t, decision.Status, StatusValid)
	equal(t, decision.Status.Display(), "Active")
	equal(t, decision.Billing.UsedCredits, "0.25")
	refilled, err := client.RefillBilling(ctx, RefillBillingRequest{WorkspaceID: id, ExternalMeterID: "acme", Refill: Credits("5")})
	must(t, err)
	equal(t, refilled.Billing.TotalCredits, "15")
	found, err := client.GetBillingOfMeter(ctx, GetBillingOfMeterQuery{WorkspaceID: id, ExternalMeterID: "acme"})
	must(t, err)
	equal(t, found.Billing.ID, acme.billing)
	csv, err := client.GetUsageAsCSV(ctx, acme.billing, GetUsageQuery{})
	must(t, err)
	equal(t, strings.HasPrefix(csv, "billingId,day"), true)
	scopes, err := client.ListScopes(ctx, id)
	must(t, err)
	equal(t, scopes.Scopes[0].ID, scope.Scope.ID)
}

func TestAFieldThatIsLeftOutStaysAsItIsAndNullClearsIt(t *testing.T) {
	acme := newCustomer(t, "10")
	client, ctx := acme.client, context.Background()
	change := func(body UpdateBillingRequest) BillingRecord {
		changed, err := client.UpdateBilling(ctx, acme.billing, body)
		must(t, err)
		return changed.Billing
	}
	equal(t, change(UpdateBillingRequest{SpendCap: Set("12"), AllowOverages: Ptr(true)}).SpendCap, "12")
	kept := change(UpdateBillingRequest{AllowOverages: Ptr(false)})
	equal(t, fmt.Sprintf("%s %t", kept.SpendCap, kept.AllowOverages), "12 false")
	equal(t, change(UpdateBillingRequest{SpendCap: Null[string]()}).SpendCap, "")
	disabled, err := client.CreateKey(ctx, CreateKeyRequest{Name: "k", WorkspaceID: acme.workspace, Enabled: Ptr(false)})
	must(t, err)
	equal(t, disabled.APIKey.Enabled, false)
}

func TestAnEmptyListIsSentAndANilOneIsLeftOut(t *testing.T) {
	acme := newCustomer(t, "")
	client, ctx := acme.client, context.Background()
	for _, limits := range []*[]Limit{nil, {}} {
		made, err := client.CreateKey(ctx, CreateKeyRequest{Name: "k", WorkspaceID: acme.workspace, Limits: limits})
		must(t, err)
		// Without a list of its own, a key has the limits of its workspace.
		equal(t, made.APIKey.Limits != nil, limits != nil)
	}
	token := CreateAccessTokenRequest{Name: "t", Permissions: []string{"key:verify"}}
	made, err := client.CreateAccessToken(ctx, token)
	must(t, err)
	equal(t, made.AccessToken.WorkspaceIDs == nil, true)
	// A token for no workspace must not be made for all of them, also where append gave no list at all.
	for _, none := range [][]string{{}, nil} {
		token.WorkspaceIDs = &none
		_, err = client.CreateAccessToken(ctx, token)
		equal(t, failure(t, err).Details[0].Path, "/workspaceIds")
	}
}

func TestAListIsVisitedWholeWhateverThePageSize(t *testing.T) {
	acme := newCustomer(t, "")
	ctx := context.Background()
	for i := 0; i < 4; i++ {
		_, err := acme.client.CreateKey(ctx, CreateKeyRequest{WorkspaceID: acme.workspace, Name: fmt.Sprint("k", i)})
		must(t, err)
	}
	for _, limit := range []int64{1, 2, 5, 200} {
		names := ""
		err := acme.client.ListAllKeys(ctx, acme.workspace, ListKeysQuery{Limit: limit}, func(key APIKey) error {
			names += key.Name + " "
			return nil
		})
		must(t, err)
		equal(t, names, "k k0 k1 k2 k3 ")
	}
	enough := errors.New("enough")
	err := acme.client.ListAllKeys(ctx, acme.workspace, ListKeysQuery{}, func(APIKey) error { return enough })
	equal(t, err, enough)
}

func TestAnErrorHasItsStatusCodeRequestIDAndDetails(t *testing.T) {
	stack := requireStack(t)
	client := newTestClient(t, Options{URL: stack.api, Token: stack.token})
	_, err := client.CreateWorkspace(context.Background(), CreateWorkspaceRequest{}, WithRequestID("mine"))
	failed := failure(t, err)
	equal(t, fmt.Sprintf("%d %d %s %s", failed.Status, failed.Code, failed.RequestID, failed.Details[0].Path), "400 40001 mine /name")
	equal(t, failed.Unavailable(), false)
	equal(t, strings.HasPrefix(err.Error(), "keytally answered 40001: "), true)
	unknown := newTestClient(t, Options{URL: stack.api, Token: "kt_nobody"})
	_, err = unknown.ListWorkspaces(context.Background(), ListWorkspacesQuery{})
	equal(t, failure(t, err).Code, 40102)
}

func TestAnOperationWhoseAnswerIsLostIsRepeatedUnderItsIdempotencyKey(t *testing.T) {
	keys, asked, retried := map[string]bool{}, 0, 0
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		keys[r.Header.Get("Idempotency-Key")] = true
		switch asked++; asked {
		case 1, 3:
			reset(w)
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			_, _ = io.WriteString(w, `{"billing":{"totalCredits":"101"}}`)
		}
	})
	onRetry := func(*Error) {
		retried++
		panic("a mistake of the program ends no call")
	}
	client := newTestClient(t, Options{URL: url, Token: "x", OnRetry: onRetry})
	refilled, err := client.RefillBilling(context.Background(), RefillBillingRequest{Refill: Credits("1")})
	must(t, err)
	equal(t, fmt.Sprintf("%s %d %d", refilled.Billing.TotalCredits, len(keys), retried), "101 1 3")
}

func TestACallThatHangsIsAskedAgainInTimeAndOneWithoutAnAnswerFails(t *testing.T) {
	var asked atomic.Int64
	url := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if asked.Add(1) == 2 {
			_, _ = io.WriteString(w, `{"status":"INVALID"}`)
			return
		}
		<-r.Context().Done()
	})
	client := newTestClient(t, Options{URL: url, Token: "x"})
	ctx := context.Background()
	decision, err := client.Verify(ctx, Verification{Key: "x"}, WithTimeout(10*time.Second))
	must(t, err)
	equal(t, decision.Status, StatusInvalid)
	_, err = client.Verify(ctx, Verification{Key: "x"}, WithTimeout(100*time.Millisecond))
	equal(t, failure(t, err).Message, "keytally did not answer in time")
	equal(t, failure(t, err).Unavailable(), true)
	nobody := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x", VerifyTimeout: 100 * time.Millisecond})
	// On a busy machine even a refused connection may take longer than what is left for a last attempt.
	eventually(t, "it is said what cannot be reached", func() bool {
		_, err := nobody.ListWorkspaces(ctx, ListWorkspacesQuery{}, WithTimeout(time.Second))
		return failure(t, err).Message == "keytally cannot be reached at http://127.0.0.1:1"
	})
	equal(t, nobody.Ready(ctx), false)
}

func TestACallEndsWithItsContextBetweenTwoAttemptsToo(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x", OnRetry: func(*Error) { cancel() }})
	_, err := client.Verify(ctx, Verification{Key: "x"})
	equal(t, err, context.Canceled)
	_, err = client.GetQuota(ctx)
	equal(t, err, context.Canceled)
}
