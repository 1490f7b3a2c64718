// Package awsfake speaks EC2's and SQS's protocols in front of another seller:
// what is launched here is launched there, and what that one refuses is refused
// in EC2's words. Any client of EC2 can use it, and nothing of it knows ours.
//
// It has EC2's manners: every request has to be signed (any signature will do), a
// client token that is repeated gives the same machine back and one that comes
// with other parameters is refused, a full pool is a server's error, the price
// history has a row for a change and none for a price that stays, the token of the
// last page is empty, and machines that have ended are listed for an hour.
//
// Of a machine it keeps nothing: tags are the labels of the seller behind, and the
// client token is its token.
package awsfake
