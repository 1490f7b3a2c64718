package azure_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"

	"github.com/spotferry/spotferry/checkpoint/store/azure"
)

const (
	program = "azurite-blob"
	install = "npm install -g azurite@3.35.0"
	account = "devstoreaccount1"
	// The key of that account is Azurite's, and published.
	key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// emulator is an Azurite.
type emulator struct {
	url        string       // of the account
	client     *http.Client // nil: the SDK's own
	containers atomic.Int64
}

// serve starts the program for one test, and ends it by its process.
func serve(t *testing.T, more ...string) *emulator {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not there: %s", program, install)
		}
		t.Skipf("%s is not there: %s", program, install)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	must(t, l.Close())
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	cmd := exec.CommandContext(ctx, path, append([]string{"--blobHost", "127.0.0.1", "--blobPort", port, "--inMemoryPersistence",
		"--silent", "--skipApiVersionCheck", "--disableTelemetry"}, more...)...)
	cmd.Dir = t.TempDir()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s: %s", program, out.Bytes())
		}
	})
	await(t, "127.0.0.1:"+port)
	return &emulator{url: "http://127.0.0.1:" + port + "/" + account}
}

func await(t *testing.T, addr string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			must(t, c.Close())
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v", program, err)
		}
		time.Sleep(50 * time.Millisecond) // a child process: there is nothing to wait on
	}
}

// container makes one.
func (e *emulator) container(t *testing.T) string {
	t.Helper()
	cred, err := service.NewSharedKeyCredential(account, key)
	must(t, err)
	var options service.ClientOptions
	if e.client != nil {
		options.Transport = e.client
	}
	client, err := service.NewClientWithSharedKeyCredential(e.url, cred, &options)
	must(t, err)
	name := fmt.Sprintf("container-%d", e.containers.Add(1))
	_, err = client.CreateContainer(t.Context(), name, nil)
	must(t, err)
	return name
}

// open opens a store in a container of its own.
func (e *emulator) open(t *testing.T, prefix string) *azure.Store {
	t.Helper()
	return open(t, azure.Config{Account: account, Key: key, Endpoint: e.url, Container: e.container(t), Prefix: prefix})
}

func open(t *testing.T, cfg azure.Config) *azure.Store {
	t.Helper()
	client := &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	if cfg.Client == nil {
		cfg.Client = client
	}
	t.Cleanup(cfg.Client.CloseIdleConnections)
	store, err := azure.Open(cfg)
	must(t, err)
	return store
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
