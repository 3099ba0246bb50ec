// Package keytally protects APIs on net/http with keytally's keys, and has every operation of keytally as a method.
//
// It needs Go 1.19 or newer, and no other module. A guard is middleware for any router that takes net/http's:
//
//	client, err := keytally.New(keytally.Options{URL: os.Getenv("KEYTALLY_VERIFY_URL"), Token: os.Getenv("KEYTALLY_TOKEN")})
//	if err != nil {
//		log.Fatal(err)
//	}
//	guard, err := client.Guard(keytally.GuardOptions{Cost: keytally.Cost{Usage: "0.25"}})
//	if err != nil {
//		log.Fatal(err)
//	}
//	http.Handle("/", guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
//		fmt.Fprintf(w, "Hello %s\n", keytally.IdentityOf(r.Context()).CustomerID)
//	})))
//
// Credits are decimal text everywhere: floating point would lose some.
package keytally
