package keytally

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"
)

const (
	verifyPath = "/api/v1/api-key/verify"

	mostCalls = 100
	// A batch has at most 256 KiB.
	mostBytes = 250_000
	// A verification has at most 16 KiB: what is longer is refused by itself.
	longest = 16_384
	// What a call takes in a batch besides its fields and its key.
	besides = 25
	mostMs  = 9_999_999
	wait    = time.Millisecond
)

// gatherer sends verifications. Those that goroutines make at the same moment leave together, and so do those that come while others
// are on their way: they wait for these, but at most a millisecond. One alone leaves at once, by itself.
type gatherer struct {
	client *Client

	mutex    sync.Mutex
	line     []*verification
	size     int
	underWay int
	// Where the line waits for others.
	timer *time.Timer
}

// verification is one attempt of a call: it stands in the line first, and then waits for an answer.
type verification struct {
	callOptions
	fields  []byte
	until   time.Time
	outcome chan outcome
}

type outcome struct {
	decision *Decision
	err      error
}

// verify makes one attempt, which ends with ctx.
func (g *gatherer) verify(ctx context.Context, fields []byte, given callOptions) (*Decision, error) {
	one := &verification{callOptions: given, fields: fields, outcome: make(chan outcome, 1)}
	one.until, _ = ctx.Deadline()
	g.add(one)
	select {
	case found := <-one.outcome:
		return found.decision, found.err
	case <-ctx.Done():
		return nil, lateError(ctx.Err())
	}
}

func (g *gatherer) add(one *verification) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if len(one.fields) > longest {
		g.sendTogether([]*verification{one})
		return
	}
	size := len(one.fields) + len(one.idempotencyKey) + besides
	if g.size+size > mostBytes {
		g.sendLine()
	}
	g.line = append(g.line, one)
	g.size += size
	switch {
	case len(g.line) == mostCalls:
		g.sendLine()
	case len(g.line) > 1:
	case g.underWay == 0:
		go g.sendSoon()
	default:
		g.timer = time.AfterFunc(wait, g.sendSoon)
	}
}

// sendSoon lets the goroutines run that can: those that verify join the line.
func (g *gatherer) sendSoon() {
	runtime.Gosched()
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.sendLine()
}

// sendLine sends all that stand in the line. The mutex is held, here and in what it calls.
func (g *gatherer) sendLine() {
	g.stopTimer()
	if len(g.line) > 0 {
		g.sendTogether(g.line)
	}
	g.line, g.size = nil, 0
}

// sendTogether sends calls as one request, for as long as one of them waits.
func (g *gatherer) sendTogether(calls []*verification) {
	until := calls[0].until
	for _, one := range calls {
		if one.until.After(until) {
			until = one.until
		}
	}
	g.underWay++
	go func() {
		ctx, cancel := context.WithDeadline(context.Background(), until)
		defer cancel()
		received, err := g.client.exchange(ctx, g.requestOf(calls, until))
		outcomes := make([]outcome, len(calls))
		if err == nil {
			err = decide(received, outcomes)
		}
		for i, one := range calls {
			if err != nil {
				outcomes[i] = outcome{err: err}
			}
			one.outcome <- outcomes[i]
		}
		g.end()
	}()
}

// end lets the calls that follow from an answer join those that wait, and sends these if nothing else is on its way.
func (g *gatherer) end() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.underWay--
	if g.underWay == 0 && g.stopTimer() {
		go g.sendSoon()
	}
}

func (g *gatherer) stopTimer() bool {
	isThere := g.timer != nil
	if isThere {
		g.timer.Stop()
		g.timer = nil
	}
	return isThere
}

// decide notes what the calls of a request are answered, in order. What has no status decides nothing, and must let nobody pass.
func decide(received *answer, outcomes []outcome) error {
	if err := received.failure(); err != nil {
		return err
	}
	text, isBatch := received.text, len(outcomes) > 1
	if !isBatch {
		text = append(append([]byte(`{"results":[`), text...), "]}"...)
	}
	var batch struct {
		Results []struct {
			Decision
			Error *errorBody `json:"error"`
		}
	}
	if err := json.Unmarshal(text, &batch); err != nil || len(batch.Results) != len(outcomes) {
		return foreign(received, err)
	}
	for i := range batch.Results {
		one := &batch.Results[i]
		switch {
		case isBatch && one.Error.isOurs():
			outcomes[i].err = errorInBatch(one.Error, received.header)
		case one.Status != "":
			outcomes[i].decision = &one.Decision
		default:
			return foreign(received, nil)
		}
	}
	return nil
}

func (g *gatherer) requestOf(calls []*verification, until time.Time) *request {
	url, header := g.client.verifyURL+verifyPath, g.client.header("application/json")
	header["Content-Type"] = []string{"application/json"}
	// Verify need not decide what comes too late for all.
	rest := atLeast(1, time.Until(until).Milliseconds())
	if rest > mostMs {
		rest = mostMs
	}
	header["X-Keytally-Timeout-Ms"] = []string{strconv.FormatInt(rest, 10)}
	if len(calls) == 1 {
		header["Idempotency-Key"] = []string{calls[0].idempotencyKey}
		if calls[0].requestID != "" {
			header["X-Request-Id"] = []string{calls[0].requestID}
		}
		return &request{method: http.MethodPost, url: url, header: header, body: calls[0].fields}
	}
	// Each call has a key of its own.
	body := bytes.NewBufferString(`{"verifications":[`)
	for i, one := range calls {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(one.fields[:len(one.fields)-1])
		body.WriteString(`,"idempotencyKey":`)
		key, _ := json.Marshal(one.idempotencyKey)
		body.Write(key)
		body.WriteByte('}')
	}
	body.WriteString(`]}`)
	return &request{method: http.MethodPost, url: url + "/batch", header: header, body: body.Bytes()}
}
