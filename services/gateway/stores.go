package main

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/azure"
	"github.com/spotferry/spotferry/checkpoint/store/gcs"
	"github.com/spotferry/spotferry/services/internal/storage"
)

// The stores that only the gateway can open, because nothing else is to link
// their SDKs.
//
//	gs://BUCKET/PREFIX?credentials=FILE&endpoint=
//	az://ACCOUNT/CONTAINER/PREFIX?endpoint=
func google() storage.Scheme { return storage.Scheme{Name: "gs", Open: openGoogle} }
func azures() storage.Scheme { return storage.Scheme{Name: "az", Open: openAzure} }

func openGoogle(ctx context.Context, u *url.URL) (checkpoint.Store, error) {
	q, err := storage.Options(u, "credentials", "endpoint")
	if err != nil {
		return nil, err
	}
	return gcs.Open(ctx, gcs.Config{Bucket: u.Host, Prefix: prefix(u.Path), Credentials: q["credentials"], Endpoint: q["endpoint"]})
}

// openAzure takes the account's key from where the az command does, or else
// whatever identity the machine has.
func openAzure(_ context.Context, u *url.URL) (checkpoint.Store, error) {
	q, err := storage.Options(u, "endpoint")
	if err != nil {
		return nil, err
	}
	container, rest, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	cfg := azure.Config{Account: cmp.Or(u.Host, os.Getenv("AZURE_STORAGE_ACCOUNT")), Container: container, Prefix: prefix(rest),
		Key: os.Getenv("AZURE_STORAGE_KEY"), Endpoint: q["endpoint"]}
	if cfg.Key == "" {
		if cfg.Token, err = azidentity.NewDefaultAzureCredential(nil); err != nil {
			return nil, err
		}
	}
	return azure.Open(cfg)
}

// prefix is a URL's path as these stores want it: ended by a slash, or empty.
func prefix(path string) string {
	if path = strings.Trim(path, "/"); path != "" {
		path += "/"
	}
	return path
}
