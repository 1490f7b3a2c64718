package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/spotferry/spotferry/failover/agent"
)

// mock finds the metadata service that AWS made for tests; CI has to have it.
func mock(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("ec2-metadata-mock")
	if err == nil {
		return path
	}
	const remedy = "install it with: go install github.com/aws/amazon-ec2-metadata-mock/cmd/ec2-metadata-mock@v1.13.0"
	if os.Getenv("CI") == "true" {
		t.Fatalf("%v; %s", err, remedy)
	}
	t.Skipf("%v; %s", err, remedy)
	return ""
}

// TestTheMachineReadsItsNoticeFromAWSsOwnMock reads one notice twice: as the
// agent does, and with AWS's own client.
func TestTheMachineReadsItsNoticeFromAWSsOwnMock(t *testing.T) {
	program := mock(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	end := time.Now().Add(90 * time.Second).UTC().Truncate(time.Second)
	// It binds every address unless told, and its deadline recedes unless it is set.
	cmd := exec.Command(program, "spot", "--action", "terminate", "-I", "-d", "0", "--hostname", "127.0.0.1", "-p", fmt.Sprint(port), "--time", end.Format(time.RFC3339))
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	endpoint := fmt.Sprintf("http://127.0.0.1:%d", port)
	m, err := agent.NewIMDS(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var w *agent.Warning
	for patience := time.Now().Add(20 * time.Second); w == nil; time.Sleep(50 * time.Millisecond) {
		if w, err = m.Warning(t.Context()); time.Now().After(patience) {
			t.Fatalf("no notice within 20 s: %v", err)
		}
	}
	left := time.Until(end)
	if w.Action != "terminate" || !w.Known || w.Left > left+2*time.Second || w.Left < left-3*time.Second {
		t.Errorf("notice %+v, want terminate in about %s", w, left)
	}
	id, err := m.Instance(t.Context())
	if err != nil || id == "" {
		t.Errorf("instance %q, %v", id, err)
	}
	theirs := imds.New(imds.Options{Endpoint: endpoint})
	out, err := theirs.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: "instance-id"})
	if err != nil {
		t.Fatal(err)
	}
	var said [64]byte
	n, _ := out.Content.Read(said[:])
	if string(said[:n]) != string(id) {
		t.Errorf("AWS's client reads instance %q, the agent %q", said[:n], id)
	}
}
