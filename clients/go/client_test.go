package keytally

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

func TestAnOperationWhoseAnswerIsLostIsRepeatedAndCountsOnce(t *testing.T) {
	acme := newCustomer(t, "100")
	api := newProxy(t, requireStack(t).api)
	retried := 0
	onRetry := func(*Error) {
		retried++
		panic("a mistake of the program ends no call")
	}
	client := newTestClient(t, Options{URL: api.url, Token: requireStack(t).token, OnRetry: onRetry})
	api.then("lose", "html", "lose")
	refill := RefillBillingRequest{WorkspaceID: acme.workspace, ExternalMeterID: "acme", Refill: Credits("1")}
	refilled, err := client.RefillBilling(context.Background(), refill)
	must(t, err)
	equal(t, refilled.Billing.TotalCredits, "101")
	equal(t, fmt.Sprint(api.idempotencyKeys(), retried), "1 3")
}

func TestACallThatHangsIsAskedAgainInTimeAndOneWithoutAnAnswerFails(t *testing.T) {
	stack := requireStack(t)
	verify := newProxy(t, stack.verify)
	client := newTestClient(t, Options{URL: verify.url, Token: stack.token})
	ctx := context.Background()
	verify.then("hang")
	decision, err := client.Verify(ctx, Verification{Key: "x"}, WithTimeout(40*time.Second))
	must(t, err)
	equal(t, decision.Status, StatusInvalid)
	verify.become("hang")
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
	verify.become("pass")
	equal(t, client.Ready(ctx), true)
}

func TestACallEndsWithItsContextBetweenTwoAttemptsToo(t *testing.T) {
	verify := newProxy(t, "http://127.0.0.1:1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := newTestClient(t, Options{URL: verify.url, Token: "x", OnRetry: func(*Error) { cancel() }})
	verify.become("refuse")
	_, err := client.Verify(ctx, Verification{Key: "x"})
	equal(t, err, context.Canceled)
	_, err = client.GetQuota(ctx)
	equal(t, err, context.Canceled)
}

func TestATokenIsNotSentToWhereARedirectPointsAndAnIDLeadsToNoOtherPath(t *testing.T) {
	stack := requireStack(t)
	api := newProxy(t, stack.api)
	client := newTestClient(t, Options{URL: api.url, Token: stack.token})
	ctx := context.Background()
	api.then("redirect")
	_, err := client.ListWorkspaces(ctx, ListWorkspacesQuery{})
	equal(t, failure(t, err).Status, 307)
	api.then()
	for _, id := range []string{"..", ".", ""} {
		if _, err := client.GetWorkspace(ctx, id); err == nil {
			t.Fatalf("%q was taken for an id", id)
		}
	}
	equal(t, api.paths(), "")
	_, err = client.GetWorkspace(ctx, "a/../b?c#d")
	equal(t, failure(t, err).Status, 403)
	equal(t, api.seen[0].RequestURI, "/api/v1/workspace/a%2F..%2Fb%3Fc%23d")
}

func TestAKeyThatNoHeaderMayHoldIsRefusedBeforeItIsSent(t *testing.T) {
	client := newTestClient(t, Options{URL: "http://127.0.0.1:1", Token: "x"})
	for _, key := range []string{"a\nb", "é", strings.Repeat("a", 256)} {
		_, err := client.Verify(context.Background(), Verification{Key: "x"}, WithIdempotencyKey(key))
		equal(t, err != nil && strings.Contains(err.Error(), "no header may hold"), true)
		_, err = client.GetQuota(context.Background(), WithRequestID(key))
		equal(t, err != nil && strings.Contains(err.Error(), "no header may hold"), true)
	}
}

func TestAMissingOrWrongOptionIsNamedAndATokenIsNeverRepeated(t *testing.T) {
	url, token := "http://127.0.0.1:1", "kt_17aT9cXv3LkQ0eRz8mWn5bUy2dHs6gJpQ1"
	expect := func(message string, options Options) {
		t.Helper()
		_, err := New(options)
		if err == nil || err.Error() != message {
			t.Errorf("got %v, and wanted %s", err, message)
		}
	}
	for message, options := range map[string]Options{
		"keytally.New: URL is missing; give verify's address (KEYTALLY_VERIFY_URL) for guards, or the api's (KEYTALLY_API_URL) for everything else": {Token: token},
		`keytally.New: URL is "ftp://a"; it must start with http:// or https://`:                                                                    {URL: "ftp://a", Token: token},
		`keytally.New: URL is "a:8081"; it must start with http:// or https://`:                                                                     {URL: "a:8081", Token: token},
		`keytally.New: URL holds a user name or a password; give the address without them`:                                                          {URL: "http://bob:secret@a", Token: token},
		`keytally.New: URL is a token; it must start with http:// or https://`:                                                                      {URL: token, Token: token},
		`keytally.New: VerifyURL is "b"; it must start with http:// or https://`:                                                                    {URL: url, VerifyURL: "b", Token: token},
		"keytally.New: Token is missing; give an access token, e.g. KEYTALLY_TOKEN":                                                                 {URL: url},
		"keytally.New: Token is wrong; it holds a space, a line break or another character that no access token has":                                {URL: url, Token: token + "\n"},
		"keytally.New: Timeout and VerifyTimeout must not be below 0":                                                                               {URL: url, Token: token, Timeout: -1},
	} {
		expect(message, options)
	}
	for _, wrong := range []string{"bob:secret@a", "//bob:secret@a", "ftp://bob:secret@a", "http:bob:secret@a", "http://bob:sec ret@a", "secret@a"} {
		expect("keytally.New: URL holds a user name or a password; give the address without them", Options{URL: wrong, Token: token})
	}
}
