package keytally

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Options are what New needs to know.
type Options struct {
	// URL is verify's address for a client that only verifies, as guards do; else the api's, which answers verifications too.
	URL string
	// VerifyURL is verify's address; default URL.
	VerifyURL string
	// Token is an access token. To verify keys, it needs the permission key:verify alone.
	Token string
	// Timeout ends a call, retries included; default 30 s. The context of a call may end it earlier.
	Timeout time.Duration
	// VerifyTimeout does the same for a verification, which one of your requests waits for; default 1 s.
	VerifyTimeout time.Duration
	// Transport sends the requests; default one of the client's own, which keeps connections open. It must neither follow redirects
	// nor send a request again by itself.
	Transport http.RoundTripper
	// OnRetry is called with the error of a failed attempt, before the next attempt.
	OnRetry func(*Error)
}

// Client has each operation of keytally as a method. It is safe for use by many goroutines: make one, and keep it.
type Client struct {
	apiURL, verifyURL, token string
	timeout, verifyTimeout   time.Duration
	transport                http.RoundTripper
	onRetry                  func(*Error)
	gatherer                 *gatherer
	// What guards still do for requests that are over.
	settling sync.WaitGroup
}

const (
	defaultTimeout       = 30 * time.Second
	defaultVerifyTimeout = time.Second
	// More requests wait for one of them, and have their deadlines there too.
	mostConnections = 256
	// Less than the 75 s after which keytally closes a connection that nothing uses.
	idleTimeout = 60 * time.Second

	longestHeader = 255
)

// New makes a client. It asks nothing of keytally: Ready does.
func New(options Options) (*Client, error) {
	options.VerifyURL = orDefault(options.VerifyURL, options.URL)
	for _, one := range []struct {
		name, value string
		form        *regexp.Regexp
		hint        string
	}{
		{"URL", options.URL, address, addressHint},
		{"VerifyURL", options.VerifyURL, address, addressHint},
		{"Token", options.Token, tokenText, "an access token, e.g. KEYTALLY_TOKEN, without spaces and line breaks"},
	} {
		// The messages repeat no value: they end up in logs, and a token may be given as URL by mistake.
		if one.value == "" {
			return nil, fmt.Errorf("keytally.New: %s is missing; give %s", one.name, one.hint)
		}
		if _, err := url.Parse(one.value); !one.form.MatchString(one.value) || (err != nil && one.form == address) {
			return nil, fmt.Errorf("keytally.New: %s is wrong; give %s", one.name, one.hint)
		}
	}
	client := &Client{
		apiURL:        strings.TrimRight(options.URL, "/"),
		verifyURL:     strings.TrimRight(options.VerifyURL, "/"),
		token:         options.Token,
		timeout:       orDefault(options.Timeout, defaultTimeout),
		verifyTimeout: orDefault(options.VerifyTimeout, defaultVerifyTimeout),
		transport:     options.Transport,
		onRetry:       options.OnRetry,
	}
	if client.transport == nil {
		client.transport = newTransport()
	}
	client.gatherer = &gatherer{client: client}
	return client, nil
}

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	idempotencyKey, requestID string
	timeout                   time.Duration
}

// WithIdempotencyKey sends this key: give the same one again when you repeat a call yourself. By default each call gets a new one.
func WithIdempotencyKey(key string) CallOption {
	return func(options *callOptions) { options.idempotencyKey = key }
}

// WithRequestID names the request in the answer and in keytally's logs; a verification that left in a batch has the batch's there.
func WithRequestID(id string) CallOption {
	return func(options *callOptions) { options.requestID = id }
}

// WithTimeout ends this call after that time, retries included.
func WithTimeout(timeout time.Duration) CallOption {
	return func(options *callOptions) { options.timeout = timeout }
}

// Verify verifies an API key and debits its cost: once, even if the request had to be sent several times. A refusal is no error:
// look at the answer's Status.
func (c *Client) Verify(ctx context.Context, verification Verification, options ...CallOption) (*Decision, error) {
	given, err := optionsOf(options, c.verifyTimeout)
	if err != nil {
		return nil, err
	}
	given.idempotencyKey = orDefault(given.idempotencyKey, newID())
	fields, err := encode(verification)
	if err != nil {
		return nil, err
	}
	var decision *Decision
	err = c.repeat(ctx, given.timeout, func(ctx context.Context) error {
		decision, err = c.gatherer.verify(ctx, fields, given)
		return err
	})
	return decision, err
}

// VerifyBatch verifies up to 100 API keys, each by itself. A verification without an IdempotencyKey gets one, so each is debited once.
func (c *Client) VerifyBatch(ctx context.Context, verifications []BatchedVerification, options ...CallOption) (*VerifyKeysResult, error) {
	keyed := append([]BatchedVerification{}, verifications...)
	for i := range keyed {
		keyed[i].IdempotencyKey = orDefault(keyed[i].IdempotencyKey, newID())
	}
	given := append([]CallOption{WithTimeout(c.verifyTimeout)}, options...)
	done := operation{method: "POST", path: verifyPath + "/batch", accept: "application/json", ofVerify: true}
	return call[VerifyKeysResult](ctx, c, done, input{body: VerifyKeysRequest{Verifications: keyed}}, given)
}

// Ready says whether keytally can verify keys now, if only of some shards; where its readiness has a port of its own (OPS_PORT), whether verify answers.
// What something other than keytally answers does not count.
func (c *Client) Ready(ctx context.Context) bool {
	done := operation{method: "GET", path: "/servingz", accept: "application/json", ofVerify: true}
	body, err := call[map[string]any](ctx, c, done, input{}, []CallOption{WithTimeout(c.verifyTimeout)})
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Code != 0 && !failed.Unavailable()
	}
	// null is no object.
	return err == nil && *body != nil
}

// Drain waits until what guards held is settled for every request that is over. Call it after the Shutdown of your server; it ends
// with ctx at the latest, and what was not settled then ends by itself.
func (c *Client) Drain(ctx context.Context) error {
	settled := make(chan struct{})
	go func() {
		c.settling.Wait()
		close(settled)
	}()
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func optionsOf(options []CallOption, timeout time.Duration) (callOptions, error) {
	given := callOptions{timeout: timeout}
	for _, option := range options {
		option(&given)
	}
	for _, text := range []string{given.idempotencyKey, given.requestID} {
		if text != "" && !isPrintable(text, longestHeader) {
			return given, fmt.Errorf("keytally: %.100q is no idempotency key or request id; it must be 1 to 255 visible ASCII characters", text)
		}
	}
	return given, nil
}

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		MaxConnsPerHost:     mostConnections,
		MaxIdleConns:        mostConnections,
		MaxIdleConnsPerHost: mostConnections,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true,
	}
}

var (
	address   = regexp.MustCompile(`^https?://[^/@\s][^@\s]*$`)
	tokenText = regexp.MustCompile(`^[!-~]+$`)
)

const addressHint = "verify's address (KEYTALLY_VERIFY_URL) for guards, or the api's (KEYTALLY_API_URL) for everything else: " +
	"http:// or https://, without a user name or a password"

// safely calls a function of the program where a panic would end the program: no server waits there, and may recover.
func safely(name string, call func()) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Printf("keytally: %s panicked: %v", name, cause)
		}
	}()
	call()
}

func orDefault[T comparable](value, other T) T {
	var none T
	if value == none {
		return other
	}
	return value
}
