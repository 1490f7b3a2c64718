package azure

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/spotferry/spotferry/checkpoint"
)

const (
	keyLife = 24 * time.Hour   // of a user delegation key; Azure's most is 7 days
	keySkew = 15 * time.Minute // by which Azure's clock may be behind ours
	longest = keyLife - keySkew
)

// signer turns what is allowed into a shared access signature.
type signer func(ctx context.Context, v sas.BlobSignatureValues) (sas.QueryParameters, error)

// Sign implements checkpoint.Signer with a signature for one blob. It signs no
// header, so If-None-Match in a put is for the machine's own good: what keeps it
// from overwriting is the permission, create without write, and it is answered
// 403 UnauthorizedBlobOverwrite or 409. How much it puts is not bounded; the
// gateway looks at sizes before it commits.
func (s *Store) Sign(ctx context.Context, verb checkpoint.Verb, name string, size int64, life time.Duration) (checkpoint.Access, error) {
	if !checkpoint.ObjectName(name) {
		return checkpoint.Access{}, fmt.Errorf("signing for %q: not an object name", name)
	}
	if life < time.Second || life > longest {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: a life of %v is not between a second and %v", name, life, longest)
	}
	method, allowed, header, err := request(verb, size)
	if err != nil {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: %w", name, err)
	}
	until := s.now().Add(life)
	values := sas.BlobSignatureValues{Protocol: sas.ProtocolHTTPS, Permissions: allowed.String(),
		ExpiryTime:    until.Add(time.Second).UTC(), // it is signed in whole seconds
		ContainerName: s.name, BlobName: s.prefix + name}
	if s.protocol == "http" {
		values.Protocol = sas.ProtocolHTTPSandHTTP
	}
	query, err := s.signer(ctx, values)
	if err != nil {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: %w", name, err)
	}
	return checkpoint.Access{Method: method, URL: s.where + "/" + escaped(s.prefix+name) + "?" + query.Encode(),
		Header: header, Until: until}, nil
}

func request(verb checkpoint.Verb, size int64) (string, *sas.BlobPermissions, map[string]string, error) {
	switch verb {
	case checkpoint.VerbPut:
		if size < 0 || size > maxBlob {
			return "", nil, nil, fmt.Errorf("%w: a put of %d bytes, at most %d", checkpoint.ErrTooLarge, size, maxBlob)
		}
		return http.MethodPut, &sas.BlobPermissions{Create: true}, map[string]string{"If-None-Match": "*", "x-ms-blob-type": "BlockBlob"}, nil
	case checkpoint.VerbGet:
		return http.MethodGet, &sas.BlobPermissions{Read: true}, nil, nil
	case checkpoint.VerbHead:
		return http.MethodHead, &sas.BlobPermissions{Read: true}, nil, nil
	}
	return "", nil, nil, fmt.Errorf("no verb %q", verb)
}

// maxBlob is what Azure takes in one Put Blob.
const maxBlob = 5000 << 20

// escaped is a name as a path.
func escaped(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

func byKey(key *blob.SharedKeyCredential) signer {
	return func(_ context.Context, v sas.BlobSignatureValues) (sas.QueryParameters, error) {
		return v.SignWithSharedKey(key)
	}
}

// delegate signs with a key that the account gave to an identity for a day.
type delegate struct {
	account *service.Client
	now     func() time.Time

	turn chan struct{} // holds one: whoever has it may use what follows
	key  *service.UserDelegationCredential
	ends time.Time
}

func newDelegate(account *service.Client, now func() time.Time) *delegate {
	d := &delegate{account: account, now: now, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

func (d *delegate) sign(ctx context.Context, v sas.BlobSignatureValues) (sas.QueryParameters, error) {
	key, err := d.until(ctx, v.ExpiryTime)
	if err != nil {
		return sas.QueryParameters{}, fmt.Errorf("asking for a user delegation key (does the identity have the role Storage Blob Delegator?): %w", meaning(ctx, err))
	}
	return v.SignWithUserDelegation(key)
}

// until returns a key that is good until then, asking for a new one if need be.
func (d *delegate) until(ctx context.Context, then time.Time) (*service.UserDelegationCredential, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-d.turn:
		defer func() { d.turn <- struct{}{} }()
	}
	if d.key != nil && !then.After(d.ends) {
		return d.key, nil
	}
	start, ends := d.now().Add(-keySkew).UTC(), d.now().Add(keyLife).UTC()
	key, err := d.account.GetUserDelegationCredential(ctx, service.KeyInfo{
		Start: to.Ptr(start.Format(sas.TimeFormat)), Expiry: to.Ptr(ends.Format(sas.TimeFormat))}, nil)
	if err != nil {
		return nil, err
	}
	d.key, d.ends = key, ends.Truncate(time.Second)
	return key, nil
}
