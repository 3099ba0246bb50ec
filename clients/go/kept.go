package keytally

import (
	"context"
	"errors"
	"sync"
	"time"
)

// KeepUsageOptions are what KeepUsage can be told.
type KeepUsageOptions struct {
	// OnLost is called with usage that nobody was debited for, and the reason. Should it panic, that is logged.
	OnLost func(Lost)
	// AtMost is how many calls may be kept; beyond that, requests are refused. Default 10,000.
	AtMost int
	// Pause is the time between two attempts to reach keytally; default 1 s.
	Pause time.Duration
}

// Lost is usage of a request that passed, and that nobody was debited for.
type Lost struct {
	Verification Verification
	// Status is the one with which keytally refused the key; "" for the two other reasons.
	Status Status
	// Err is the error with which keytally refused the call, or ErrDoubtful.
	Err error
}

// ErrDoubtful says that it is not known whether a call was debited: keytally keeps an Idempotency-Key for 60 s, and does not look at it
// for a key that it refuses for what it is, such as a disabled one.
var ErrDoubtful = errors.New("keytally: it is not known whether this usage was debited")

// KeptUsage keeps the usage of requests that passed while keytally was unavailable, in memory, and reports it later.
type KeptUsage struct {
	client  *Client
	options KeepUsageOptions

	// One report at a time: it has the one place.
	reporting chan struct{}

	mutex         sync.Mutex
	calls         []*keptCall
	isUnavailable bool
	isPlanned     bool
}

// keptCall is a verification without an answer. sentAt is set once keytally may have debited it.
type keptCall struct {
	verification   Verification
	idempotencyKey string
	sentAt         time.Time
}

// send verifies a call, and notes when keytally may have debited it. What it surely did not debit may wait for as long as it takes.
func (k *keptCall) send(ctx context.Context, client *Client, options ...CallOption) (*Decision, error) {
	began := time.Now()
	failed := func(err error) {
		if k.sentAt.IsZero() && mayBeDebited(err) {
			k.sentAt = began
		}
	}
	return client.Verify(ctx, k.verification, append(options, WithIdempotencyKey(k.idempotencyKey), withFailures(failed))...)
}

const (
	defaultAtMost = 10_000
	defaultPause  = time.Second
	// Less than the 60 s of an Idempotency-Key: a repetition that is slow on its way must still find it.
	repeatableFor = 50 * time.Second
	// Repetitions that begin before that time end before those 60 s.
	longestReport = 9 * time.Second
)

// KeepUsage makes what GuardOptions.Open takes.
func (c *Client) KeepUsage(options KeepUsageOptions) (*KeptUsage, error) {
	switch {
	case options.OnLost == nil:
		return nil, errors.New("keytally KeepUsage: OnLost is missing; give a function that notes the usage it is called with")
	case options.AtMost < 0 || options.Pause < 0:
		return nil, errors.New("keytally KeepUsage: AtMost and Pause must not be below 0")
	case options.AtMost == 0:
		options.AtMost = defaultAtMost
	}
	options.Pause = orDefault(options.Pause, defaultPause)
	return &KeptUsage{client: c, options: options, reporting: make(chan struct{}, 1)}, nil
}

// Len is how many calls are kept.
func (k *KeptUsage) Len() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.calls)
}

// Unavailable says whether nobody of keytally answered when last asked. Until it is back, requests do not wait for it. An error of
// keytally itself, such as for a part of its keys alone, does not count: other requests go on asking.
func (k *KeptUsage) Unavailable() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.isUnavailable
}

// Flush reports the kept usage that keytally accepts, and gives how many calls are left. Call it before the process ends.
// It ends with ctx at the latest.
func (k *KeptUsage) Flush(ctx context.Context) int {
	k.report(ctx)
	return k.Len()
}

// keep keeps a call; false if there is no room for it. wasAnswered: keytally itself could not decide it, and is not unavailable.
func (k *KeptUsage) keep(call keptCall, wasAnswered bool) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.isUnavailable = k.isUnavailable || !wasAnswered
	hasRoom := len(k.calls) < k.options.AtMost
	if hasRoom {
		k.calls = append(k.calls, &call)
	}
	k.reportLater()
	return hasRoom
}

// reportLater plans a report, without calls too: until keytally is back, every key passes. The mutex is held.
func (k *KeptUsage) reportLater() {
	if k.isPlanned || len(k.calls) == 0 && !k.isUnavailable {
		return
	}
	k.isPlanned = true
	time.AfterFunc(k.options.Pause, func() {
		k.report(context.Background())
		k.mutex.Lock()
		defer k.mutex.Unlock()
		k.isPlanned = false
		k.reportLater()
	})
}

func (k *KeptUsage) report(ctx context.Context) {
	select {
	case k.reporting <- struct{}{}:
		defer func() { <-k.reporting }()
	case <-ctx.Done():
		return
	}
	// While keytally is unavailable too: they take the room of others.
	for _, call := range k.kept() {
		k.giveUpIfOld(call)
	}
	// Ask for readiness first: once a call was sent and got no answer, it can be repeated for a minute only.
	if !k.client.Ready(ctx) {
		return
	}
	calls := k.kept()
	if len(calls) == 0 {
		k.setUnavailable(false)
	}
	for _, call := range calls {
		// A call may have become too old while those before it were reported.
		if !k.giveUpIfOld(call) && !k.reportCall(ctx, call) {
			return
		}
	}
}

// reportCall sends a call; false if keytally is unavailable, or something else answered.
func (k *KeptUsage) reportCall(ctx context.Context, call *keptCall) bool {
	timeout := k.client.verifyTimeout
	if timeout > longestReport {
		timeout = longestReport
	}
	decision, err := call.send(ctx, k.client, WithTimeout(timeout))
	if ctx.Err() != nil {
		return false
	}
	var failed *Error
	if errors.As(err, &failed) && failed.Code == 0 {
		k.setUnavailable(true)
		return false
	}
	k.setUnavailable(false)
	if failed != nil && failed.Unavailable() {
		// keytally itself could not decide it: the others go on.
		return true
	}
	if err == nil && decision.Status == StatusRateLimited {
		// keytally looked for a debit before, and found none: it may wait.
		call.sentAt = time.Time{}
		return true
	}
	k.remove(call)
	if err == nil && decision.Status == StatusValid {
		return true
	}
	lost := Lost{Verification: call.verification, Err: err}
	if err == nil {
		lost.Status = decision.Status
	}
	if lost.Status != StatusUsageLimited && !call.sentAt.IsZero() {
		// Whatever else keytally refuses, it refuses before it looks for a debit, and an earlier attempt may have been debited.
		lost = Lost{Verification: call.verification, Err: ErrDoubtful}
	}
	k.tellLost(lost)
	return true
}

// A second debit cannot be ruled out for a call that was sent too long ago, so it is not sent again.
func (k *KeptUsage) giveUpIfOld(call *keptCall) bool {
	if call.sentAt.IsZero() || time.Since(call.sentAt) < repeatableFor {
		return false
	}
	k.remove(call)
	k.tellLost(Lost{Verification: call.verification, Err: ErrDoubtful})
	return true
}

func (k *KeptUsage) tellLost(one Lost) {
	safely("OnLost", func() { k.options.OnLost(one) })
}

func (k *KeptUsage) kept() []*keptCall {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return append([]*keptCall{}, k.calls...)
}

// remove forgets a call. Calls are reported in their order, so it is among the first.
func (k *KeptUsage) remove(call *keptCall) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for i, other := range k.calls {
		if other == call {
			// Those before it wait: mostly there are none.
			copy(k.calls[1:i+1], k.calls[:i])
			k.calls = k.calls[1:]
			return
		}
	}
}

func (k *KeptUsage) setUnavailable(isUnavailable bool) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.isUnavailable = isUnavailable
}
