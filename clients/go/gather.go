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
		deliver(calls, received, err)
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

// deliver gives each call what became of it: the error, or its part of the answer.
func deliver(calls []*verification, received *answer, err error) {
	var outcomes []outcome
	if err == nil {
		outcomes, err = outcomesOf(received, len(calls), len(calls) > 1)
	}
	for i, one := range calls {
		if err != nil {
			one.outcome <- outcome{err: err}
		} else {
			one.outcome <- outcomes[i]
		}
	}
}

// outcomesOf gives what so many calls of a request are answered, in order. What has no status decides nothing, and must let nobody pass.
func outcomesOf(received *answer, count int, isBatch bool) ([]outcome, error) {
	if err := received.failure(); err != nil {
		return nil, err
	}
	type result struct {
		Decision
		Error *errorBody `json:"error"`
	}
	var batch struct{ Results []*result }
	err := error(nil)
	if isBatch {
		err = json.Unmarshal(received.text, &batch)
	} else {
		batch.Results = []*result{{}}
		err = json.Unmarshal(received.text, batch.Results[0])
	}
	isForeign := err != nil || len(batch.Results) != count
	outcomes := make([]outcome, len(batch.Results))
	for i, one := range batch.Results {
		switch {
		case one != nil && isBatch && one.Error.isOurs():
			outcomes[i].err = errorInBatch(one.Error, received.header)
		case one != nil && (one.Error == nil || !isBatch) && one.Status != "":
			outcomes[i].decision = &one.Decision
		default:
			isForeign = true
		}
	}
	if isForeign {
		return nil, foreign(received, err)
	}
	return outcomes, nil
}

func (g *gatherer) requestOf(calls []*verification, until time.Time) *request {
	url, header := g.client.verifyURL+verifyPath, g.client.header("application/json")
	header["Content-Type"] = []string{"application/json"}
	header["X-Keytally-Timeout-Ms"] = []string{patienceOf(until)}
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

// patienceOf says for how many milliseconds a call still waits: verify need not decide what comes too late for all.
func patienceOf(until time.Time) string {
	rest := time.Until(until).Milliseconds()
	if rest > 9_999_999 {
		rest = 9_999_999
	}
	return strconv.FormatInt(atLeast(1, rest), 10)
}
