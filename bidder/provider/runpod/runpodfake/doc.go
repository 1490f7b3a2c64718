// Package runpodfake speaks RunPod's wire protocols in front of any seller: what is
// bought through it is bought behind it, and what that seller refuses is refused in
// RunPod's words.
//
// It has the manners that are only RunPod's: GraphQL errors with status 200, prices
// for one GPU and null for what is not to be had, a status 400 for want of capacity,
// pods that never come up, no idempotency (two creates are two pods, whatever their
// name), and pods that are forgotten once deleted.
package runpodfake
