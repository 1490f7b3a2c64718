// Package wire asks a seller's HTTP API one question at a time and believes
// nothing of the answer: bodies are bounded, redirects are not followed (they would
// carry the key elsewhere), and numbers may be text, null or absurd.
//
// It repeats nothing and decides nothing. Whether a question reached the seller is
// told with every failure, because that is what a launch depends on.
package wire
