module keytally.dev/keytally

go 1.19
