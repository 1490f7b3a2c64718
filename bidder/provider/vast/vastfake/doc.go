// Package vastfake speaks Vast.ai's wire protocol in front of any seller: what is
// bought through it is bought behind it, and what that seller refuses is refused in
// Vast.ai's words.
//
// It has the manners that are only Vast.ai's: offer ids that expire, 25 instances a
// page, no idempotency (two creates are two machines, whatever their label), a
// refused bid that leaves a stopped instance unless told otherwise, a reclaim that
// pauses, instances that run again by themselves, "instances" holding one object, and
// 429 as plain text without a time to wait.
package vastfake
