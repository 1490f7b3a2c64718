// Package azurefake speaks the REST protocols of Azure's Resource Manager and of its
// retail prices in front of any seller: what is created there is bought of the seller
// behind, what that one refuses is refused in Azure's words, and what it takes back
// is evicted.
//
// It imitates what makes Azure different. A creation is answered with 201 and an
// operation that fails later, with a 200, and leaves a machine in state Failed that costs
// money until somebody deletes it. An eviction leaves nothing but 404 of what asked
// to be deleted, and a deallocated machine of what did not. How machines stand is
// another list than the machines. Prices are rows among rows of other markets, each of
// which would be a bargain.
//
// It knows nothing of who calls it, and links none of Azure's libraries.
package azurefake
