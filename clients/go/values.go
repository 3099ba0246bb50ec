package keytally

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// Nullable is a field that may be null, which clears a setting: Set and Null make one. Where the field is nil, it is left out.
type Nullable[T any] struct {
	value T
	isSet bool
}

// Set gives a field a value.
func Set[T any](value T) *Nullable[T] { return &Nullable[T]{value: value, isSet: true} }

// Null clears a field.
func Null[T any]() *Nullable[T] { return &Nullable[T]{} }

// MarshalJSON writes the value, or null.
func (n Nullable[T]) MarshalJSON() ([]byte, error) {
	if !n.isSet {
		return []byte("null"), nil
	}
	return json.Marshal(n.value)
}

// Ptr gives a pointer to a value, for optional fields.
func Ptr[T any](value T) *T { return &value }

// Amount is a number of requests, or credits as decimal text: Requests and Credits make one.
type Amount struct {
	text     string
	isNumber bool
}

// Requests is a number of requests.
func Requests(count int64) Amount { return Amount{text: strconv.FormatInt(count, 10), isNumber: true} }

// Credits are credits as decimal text, such as "2.5".
func Credits(text string) Amount { return Amount{text: text} }

// String is the amount as decimal text.
func (a Amount) String() string { return a.text }

// MarshalJSON writes requests as a number, and credits as text.
func (a Amount) MarshalJSON() ([]byte, error) {
	if a.isNumber {
		return []byte(a.text), nil
	}
	return json.Marshal(a.text)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (a *Amount) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		a.isNumber = false
		return json.Unmarshal(text, &a.text)
	}
	var number json.Number
	if err := json.Unmarshal(text, &number); err != nil {
		return fmt.Errorf("an amount is a number or text: %w", err)
	}
	*a = Amount{text: number.String(), isNumber: true}
	return nil
}

// WebhookEvent is what a webhook is posted. Data is of the type that Type names: that of "credits.alert" is a CreditsAlertData.
type WebhookEvent struct {
	Type        string          `json:"type"`
	Timestamp   time.Time       `json:"timestamp"`
	Sequence    int64           `json:"sequence"`
	WorkspaceID string          `json:"workspaceId,omitempty"`
	Data        json.RawMessage `json:"data"`
}
