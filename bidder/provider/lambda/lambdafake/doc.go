// Package lambdafake speaks Lambda Cloud's wire protocol in front of any seller: what
// is bought through it is bought behind it, and what that seller refuses is
// refused with Lambda's codes.
//
// It has the manners that are only Lambda's: prices in cents, no idempotency (two
// launches are two machines, whatever their name), launches that come too fast, types
// that are listed and refused all the same, addresses that come late.
package lambdafake
