// Package azure sells what Azure has: virtual machines with GPUs, spot and on
// demand, in the regions that are named, all in one resource group.
//
// A machine's name is made from the environment's mark and the lease's token, and is
// created only where nothing has it, so a repetition finds the machine and never
// changes it. What a list needs to tell of a machine stands in its tags.
//
// A creation that Azure has accepted may still fail, and what failed may still be
// there and cost money. So every creation that is known to have failed has its machine
// deleted by name, unless it is there by another request; Launch says whether the
// deletion was confirmed. One whose outcome is not known is left to be reconciled.
//
// Of a machine that was deleted, by us or by an eviction, Azure keeps nothing. A client
// that saw it alive tells its end; after a restart it is simply absent, and so a
// token that is repeated then would buy again.
//
// It has no meter, since Azure says what a machine cost a day later, and no notices from
// outside: the machine's own scheduled events have them.
package azure
