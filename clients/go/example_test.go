package keytally_test

import (
	"encoding/json"
	"fmt"

	"keytally.dev/keytally"
)

// Set gives a setting a value, Null clears it, and a field that is nil stays as it is.
func ExampleNullable() {
	text, _ := json.Marshal(keytally.UpdateKeyRequest{
		Enabled:   keytally.Ptr(false),
		ExpiresAt: keytally.Null[int64](),
		Limits:    keytally.Set([]keytally.Limit{{Name: "daily", Unit: "credits", Limit: keytally.Credits("2.5"), Per: "day"}}),
	})
	fmt.Println(string(text))
	// Output: {"enabled":false,"expiresAt":null,"limits":[{"name":"daily","unit":"credits","limit":"2.5","per":"day"}]}
}
