// Package runpod sells what RunPod's data centres have: containers with whole GPUs,
// on demand. Where its price list still has a lowest bid, and the configuration
// asks for it, interruptible ones are sold too; RunPod no longer documents them.
//
// A pool is a number of GPUs of one type in a data centre. Prices come by GraphQL,
// whose errors come with status 200; pods are made, listed and deleted by REST. A
// status 400 may mean that nothing is left or that the request is wrong: it is taken
// for the former until every pool that is offered has answered so.
//
// The API has no idempotency key, so purchases go through package keyless: a pod's
// name is sf1:<mark>:<token>, and its environment carries the record of its purchase.
package runpod
