package azure_test

import (
	"context"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/azure"
	"github.com/spotferry/spotferry/checkpoint/store/signed"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// granter grants what a signer signs, as the gateway does.
type granter struct{ checkpoint.Signer }

func (g granter) Grant(ctx context.Context, verb checkpoint.Verb, objects []checkpoint.Object) ([]checkpoint.Access, error) {
	var all []checkpoint.Access
	for _, o := range objects {
		a, err := g.Sign(ctx, verb, o.Name, o.Size, time.Hour)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// signedStore holds what machines have, a store by these accesses and plain
// HTTP, against the contract. Its faults are tested where it is.
func signedStore(t *testing.T, e *emulator) {
	machine := func(t *testing.T) checkpoint.Store {
		behind := open(t, azure.Config{Account: account, Key: key, Endpoint: e.url, Container: e.container(t), Prefix: "spotferry/"})
		s, err := signed.Open(signed.Config{Granter: granter{behind}})
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	storetest.Check(t, storetest.Config{
		Column: "signed (azure)",
		Open:   machine,
		Without: map[storetest.Feature]string{
			storetest.Lists:   "a machine has no right to list",
			storetest.Deletes: "a machine has no right to delete",
		},
	})
}
