package gcp

import "github.com/spotferry/spotferry/bidder/provider/named"

// NameOf is a machine's name in an environment.
func NameOf(mark, token string) string { return named.New(mark, maxName, plainName).Of(token) }

// RequestIDOf is a token's request id.
func RequestIDOf(project, mark, token string) string {
	return (&Client{cfg: Config{Project: project, Mark: mark}}).requestID(token)
}
