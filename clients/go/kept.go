package keytally

import (
	"context"
	"errors"
	"sync"
	"time"
)

// KeepUsageOptions are what KeepUsage can be told.
type KeepUsageOptions struct {
	// OnLost is called with usage that nobody was debited for, and the reason.
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

// ErrDoubtful says that it is no longer known whether a call was debited: keytally keeps an Idempotency-Key for 60 s.
var ErrDoubtful = errors.New("keytally: it is no longer known whether this usage was debited")

// KeptUsage keeps the usage of requests that passed while keytally was unavailable, in memory, and reports it later.
type KeptUsage struct {
	client  *Client
	options KeepUsageOptions

	// One report at a time.
	reporting sync.Mutex

	mutex         sync.Mutex
	calls         []*keptCall
	isUnavailable bool
	isPlanned     bool
}

// keptCall is a verification without an answer. sentAt is set if it was sent, so that keytally may have debited it.
type keptCall struct {
	verification   Verification
	idempotencyKey string
	sentAt         time.Time
}

const (
	defaultAtMost = 10_000
	defaultPause  = time.Second
	// Less than the 60 s of an Idempotency-Key: a repetition that is slow on its way must still find it.
	repeatableFor = 50 * time.Second
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
	return &KeptUsage{client: c, options: options}, nil
}

// Len is how many calls are kept.
func (k *KeptUsage) Len() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.calls)
}

// Unavailable says whether keytally was unavailable when last asked. Until it is back, requests do not wait for it.
func (k *KeptUsage) Unavailable() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.isUnavailable
}

// Flush reports the kept usage that keytally accepts, and gives how many calls are left. Call it before the process ends.
func (k *KeptUsage) Flush(ctx context.Context) int {
	k.report(ctx)
	return k.Len()
}

// keep keeps a call; false if there is no room for it.
func (k *KeptUsage) keep(call keptCall) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.isUnavailable = true
	if len(k.calls) >= k.options.AtMost {
		return false
	}
	k.calls = append(k.calls, &call)
	k.reportLater()
	return true
}

// reportLater plans a report. The mutex is held.
func (k *KeptUsage) reportLater() {
	if k.isPlanned || len(k.calls) == 0 {
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
	k.reporting.Lock()
	defer k.reporting.Unlock()
	k.giveUpOld()
	// Ask for readiness first: once a call was sent and got no answer, it can be repeated for a minute only.
	if !k.client.Ready(ctx) {
		return
	}
	k.mutex.Lock()
	calls := append([]*keptCall{}, k.calls...)
	k.mutex.Unlock()
	for _, call := range calls {
		if !k.reportCall(ctx, call) {
			return
		}
	}
}

// reportCall sends a call; false if keytally is unavailable.
func (k *KeptUsage) reportCall(ctx context.Context, call *keptCall) bool {
	if call.sentAt.IsZero() {
		call.sentAt = time.Now()
	}
	decision, err := k.client.Verify(ctx, call.verification, WithIdempotencyKey(call.idempotencyKey))
	if ctx.Err() != nil {
		return false
	}
	if isUnavailable(err) {
		k.setUnavailable(true)
		return false
	}
	k.setUnavailable(false)
	if err == nil && decision.Status == StatusRateLimited {
		// There is an answer, and this call was not debited: it may wait.
		call.sentAt = time.Time{}
		return true
	}
	k.remove(call)
	if err != nil {
		k.options.OnLost(Lost{Verification: call.verification, Err: err})
	} else if decision.Status != StatusValid {
		k.options.OnLost(Lost{Verification: call.verification, Status: decision.Status})
	}
	return true
}

// A second debit cannot be ruled out for a call that was sent too long ago, so it is not sent again.
func (k *KeptUsage) giveUpOld() {
	k.mutex.Lock()
	var kept, old []*keptCall
	for _, call := range k.calls {
		if call.sentAt.IsZero() || time.Since(call.sentAt) < repeatableFor {
			kept = append(kept, call)
		} else {
			old = append(old, call)
		}
	}
	k.calls = kept
	k.mutex.Unlock()
	for _, call := range old {
		k.options.OnLost(Lost{Verification: call.verification, Err: ErrDoubtful})
	}
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
