package keytally

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// operation says how an operation is sent.
type operation struct {
	// path has a pair of braces for each id.
	method, path, accept string
	// ofVerify tells that verify serves it, and that its parts have keys of their own: the whole takes none.
	ofVerify bool
}

type input struct {
	path        []string
	query, body any
}

type request struct {
	method, url string
	header      http.Header
	body        []byte
}

type answer struct {
	status int
	header http.Header
	text   []byte
}

const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// call sends an operation and decodes its answer.
func call[Answer any](ctx context.Context, c *Client, done operation, in input, options []CallOption) (*Answer, error) {
	sent, err := c.send(ctx, done, in, options)
	if err != nil {
		return nil, err
	}
	decoded := new(Answer)
	if err := json.Unmarshal(sent.text, decoded); err != nil {
		return decoded, foreign(sent, err)
	}
	return decoded, nil
}

// callText does so for an operation whose answer is not JSON.
func callText[Text string | []byte](ctx context.Context, c *Client, done operation, in input, options []CallOption) (Text, error) {
	sent, err := c.send(ctx, done, in, options)
	if err != nil {
		return Text(""), err
	}
	return Text(sent.text), nil
}

// send sends an operation, and repeats it while that may help and time is left. Repeating is safe: every call that creates something
// or takes credits sends the same Idempotency-Key each time.
func (c *Client) send(ctx context.Context, done operation, in input, options []CallOption) (*answer, error) {
	given, err := optionsOf(options, c.timeout)
	if err != nil {
		return nil, err
	}
	base := c.apiURL
	if done.ofVerify {
		base = c.verifyURL
	}
	path, err := fillPath(done.path, in)
	if err != nil {
		return nil, err
	}
	outgoing := &request{method: done.method, url: base + path, header: c.header(done.accept)}
	if in.body != nil {
		if outgoing.body, err = encode(in.body); err != nil {
			return nil, err
		}
		outgoing.header.Set("Content-Type", "application/json")
	}
	if done.method == http.MethodPost && !done.ofVerify {
		outgoing.header.Set("Idempotency-Key", orDefault(given.idempotencyKey, newID()))
	}
	if given.requestID != "" {
		outgoing.header.Set("X-Request-Id", given.requestID)
	}
	var received *answer
	err = c.repeat(ctx, given.timeout, func(ctx context.Context) error {
		if received, err = c.exchange(ctx, outgoing); err != nil {
			return err
		}
		return received.failure()
	})
	return received, err
}

// repeat attempts something with a part of the time that is left, and again while that may help.
func (c *Client) repeat(ctx context.Context, timeout time.Duration, attempt func(context.Context) error) error {
	until := time.Now().Add(timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	var answered *Error
	mayBeDebited := false
	for attempts := 0; ; attempts++ {
		// Half of the time left: if this answer is lost, another attempt still has time.
		limited, cancel := context.WithTimeout(ctx, time.Until(until)/2)
		err := attempt(limited)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var failed *Error
		if !errors.As(err, &failed) {
			return err
		}
		// Its own: the calls of a batch that fails have one error.
		own := *failed
		failed = &own
		mayBeDebited = mayBeDebited || failed.debits()
		failed.mayBeDebited = mayBeDebited
		if !failed.passing() {
			return failed
		}
		if failed.Code != 0 {
			answered = failed
		}
		pause := pauseAfter(attempts, failed.RetryAfter)
		if !time.Now().Add(pause).Before(until) {
			// The last attempts are short: what keytally itself answered before says more than that they got no answer.
			if answered != nil {
				answered.mayBeDebited = mayBeDebited
				return answered
			}
			return failed
		}
		if c.onRetry != nil {
			safely("OnRetry", func() { c.onRetry(failed) })
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// exchange sends a request, and reads its answer to the end. Without an answer it fails with an *Error.
func (c *Client) exchange(ctx context.Context, outgoing *request) (*answer, error) {
	received, err := c.roundTrip(ctx, outgoing)
	switch {
	case err == nil:
		return received, nil
	case ctx.Err() != nil:
		return nil, lateError(err)
	}
	// The next attempt opens a new connection: those that were kept may have ended, too.
	if keeper, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		keeper.CloseIdleConnections()
	}
	at, _ := url.Parse(outgoing.url)
	return nil, &Error{Message: "keytally cannot be reached at " + at.Scheme + "://" + at.Host, cause: err}
}

func (c *Client) roundTrip(ctx context.Context, outgoing *request) (*answer, error) {
	var body io.Reader
	if outgoing.body != nil {
		body = bytes.NewReader(outgoing.body)
	}
	sent, err := http.NewRequestWithContext(ctx, outgoing.method, outgoing.url, body)
	if err != nil {
		return nil, err
	}
	sent.Header = outgoing.header
	// Without GetBody net/http does not send a request with a body again by itself: each attempt that may have debited is heard of.
	sent.GetBody = nil
	// The transport follows no redirect, which would send the token elsewhere.
	received, err := c.transport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	defer received.Body.Close()
	text, err := io.ReadAll(received.Body)
	if err != nil {
		return nil, err
	}
	return &answer{status: received.StatusCode, header: received.Header, text: text}, nil
}

func (a *answer) failure() error {
	if a.status < 200 || a.status > 299 {
		return errorOf(a.status, a.header, a.text)
	}
	return nil
}

// header has what requests have alike.
func (c *Client) header(accept string) http.Header {
	return http.Header{"Authorization": {"Bearer " + c.token}, "Accept": {accept}}
}

func fillPath(template string, in input) (string, error) {
	parts := strings.Split(template, "{}")
	path := parts[0]
	for i, id := range in.path {
		// "." and ".." would change the path.
		if id == "" || id == "." || id == ".." {
			return "", fmt.Errorf("keytally: %q is no id for %s", id, template)
		}
		path += url.PathEscape(id) + parts[i+1]
	}
	query, err := queryOf(in.query)
	if query != "" {
		path += "?" + query
	}
	return path, err
}

// queryOf has what of a query's struct was not left out.
func queryOf(given any) (string, error) {
	text, err := encode(given)
	if err != nil {
		return "", err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return "", err
	}
	values := url.Values{}
	for name, value := range fields {
		values.Set(name, fmt.Sprint(value))
	}
	return values.Encode(), nil
}

// eachPage visits the items of a list, page after page.
func eachPage[Page, Item any](cursor *string, visit func(Item) error, fetch func() (*Page, error), partsOf func(*Page) (string, []Item)) error {
	for {
		page, err := fetch()
		if err != nil {
			return err
		}
		next, items := partsOf(page)
		for _, item := range items {
			if err := visit(item); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		*cursor = next
	}
}

func encode(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("keytally: what was given is no JSON: %w", err)
	}
	return text, nil
}

func pauseAfter(attempts int, retryAfter time.Duration) time.Duration {
	pause := longestPause
	if attempts < 6 {
		pause = firstPause << attempts
	}
	var random [1]byte
	// Without chance the pause is the longest.
	_, _ = rand.Read(random[:])
	pause -= pause / 2 * time.Duration(random[0]) / 255
	if pause < retryAfter {
		return retryAfter
	}
	return pause
}

func sleep(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newID makes a random UUID.
func newID() string {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		panic("keytally: the system has no random numbers: " + err.Error())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	digits := hex.EncodeToString(id[:])
	return digits[:8] + "-" + digits[8:12] + "-" + digits[12:16] + "-" + digits[16:20] + "-" + digits[20:]
}
