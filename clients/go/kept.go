package keytally

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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

// ErrDoubtful says that an earlier attempt may have been debited, and keytally can no longer tell.
var ErrDoubtful = errors.New("keytally: it is not known whether this usage was debited")

// KeptUsage keeps, in memory, the usage of requests that passed while keytally was unavailable, and sends it again until it is decided.
type KeptUsage struct {
	client  *Client
	options KeepUsageOptions
	// It has one place: for who sends.
	sending       chan struct{}
	isPlanned     atomic.Bool
	isUnavailable atomic.Bool
	mutex         sync.Mutex
	calls         map[*keptCall]bool
}

const (
	// Less than the 60 s of an Idempotency-Key, after which a call would be debited again: also with the last of its repetitions.
	repeatableFor  = 50 * time.Second
	longestAttempt = 9 * time.Second
)

// KeepUsage makes what GuardOptions.Open takes.
func (c *Client) KeepUsage(options KeepUsageOptions) (*KeptUsage, error) {
	switch {
	case options.OnLost == nil:
		return nil, errors.New("keytally KeepUsage: OnLost is missing; give a function that notes the usage it is called with")
	case options.AtMost < 0 || options.Pause < 0:
		return nil, errors.New("keytally KeepUsage: AtMost and Pause must not be below 0")
	case options.AtMost == 0:
		options.AtMost = 10_000
	}
	options.Pause = orDefault(options.Pause, time.Second)
	return &KeptUsage{client: c, options: options, sending: make(chan struct{}, 1), calls: map[*keptCall]bool{}}, nil
}

// Len is how many calls are kept.
func (k *KeptUsage) Len() int {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.calls)
}

// Unavailable says whether nobody of keytally answered when last asked: until it is back, requests do not wait for it.
func (k *KeptUsage) Unavailable() bool { return k.isUnavailable.Load() }

// Flush sends the kept calls again, and gives how many are left. Call it before the program ends. It ends with ctx at the latest.
func (k *KeptUsage) Flush(ctx context.Context) int {
	select {
	case k.sending <- struct{}{}:
		k.sendAll(ctx)
		<-k.sending
	case <-ctx.Done():
	}
	return k.Len()
}

// keep keeps a call; false if there is no room for it. wasAnswered: keytally itself could not decide it, and is not unavailable.
func (k *KeptUsage) keep(call keptCall, wasAnswered bool) bool {
	if !wasAnswered {
		k.isUnavailable.Store(true)
	}
	k.mutex.Lock()
	hasRoom := len(k.calls) < k.options.AtMost
	if hasRoom {
		k.calls[&call] = true
	}
	k.mutex.Unlock()
	k.sendLater()
	return hasRoom
}

// sendLater sends without calls too, until keytally is back.
func (k *KeptUsage) sendLater() {
	if k.isPlanned.Swap(true) {
		return
	}
	time.AfterFunc(k.options.Pause, func() {
		k.Flush(context.Background())
		k.isPlanned.Store(false)
		if k.Len() > 0 || k.Unavailable() {
			k.sendLater()
		}
	})
}

func (k *KeptUsage) sendAll(ctx context.Context) {
	// First, since a call that was sent may be sent again for a minute only.
	isReady := k.client.Ready(ctx)
	if isReady {
		k.isUnavailable.Store(false)
	}
	k.mutex.Lock()
	calls := make([]*keptCall, 0, len(k.calls))
	for call := range k.calls {
		calls = append(calls, call)
	}
	k.mutex.Unlock()
	for _, call := range calls {
		lost := &Lost{Verification: call.verification, Err: ErrDoubtful}
		if call.sentAt.IsZero() || time.Since(call.sentAt) < repeatableFor {
			if !isReady || k.Unavailable() || !k.decide(ctx, call, lost) {
				continue
			}
		}
		k.mutex.Lock()
		delete(k.calls, call)
		k.mutex.Unlock()
		if lost.Status != StatusValid {
			safely("OnLost", func() { k.options.OnLost(*lost) })
		}
	}
}

// decide sends a call, and notes in lost what keytally decided; false if that is nothing now.
func (k *KeptUsage) decide(ctx context.Context, call *keptCall, lost *Lost) bool {
	timeout := k.client.verifyTimeout
	if timeout > longestAttempt {
		timeout = longestAttempt
	}
	decision, err := call.send(ctx, k.client, WithTimeout(timeout))
	var failed *Error
	switch {
	case ctx.Err() != nil:
		return false
	case errors.As(err, &failed) && (failed.Code == 0 || failed.passing()):
		if failed.Code == 0 {
			k.isUnavailable.Store(true)
		}
		return false
	case err == nil && decision.Status == StatusRateLimited:
		call.sentAt = time.Time{}
		return false
	// Before these three alone keytally looks for what an earlier attempt debited.
	case err == nil && (call.sentAt.IsZero() || decision.Status == StatusValid || decision.Status == StatusUsageLimited):
		lost.Status, lost.Err = decision.Status, nil
	case call.sentAt.IsZero():
		lost.Err = err
	}
	return true
}

// keptCall is a verification without an answer. sentAt is set once keytally may have debited it.
type keptCall struct {
	verification   Verification
	idempotencyKey string
	sentAt         time.Time
}

// send verifies a call, and notes when keytally may have debited it.
func (k *keptCall) send(ctx context.Context, client *Client, options ...CallOption) (*Decision, error) {
	began := time.Now()
	failed := func(err error) {
		if k.sentAt.IsZero() && mayBeDebited(err) {
			k.sentAt = began
		}
	}
	return client.Verify(ctx, k.verification, append(options, WithIdempotencyKey(k.idempotencyKey), withFailures(failed))...)
}
