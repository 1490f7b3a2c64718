package aws

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// motoVariable names moto_server, or the Python environment that it is in.
const motoVariable = "SPOTFERRY_MOTO"

// motoProgram finds moto_server; a machine of CI has to have it.
func motoProgram(t *testing.T) string {
	t.Helper()
	at := os.Getenv(motoVariable)
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		at = filepath.Join(at, "bin", "moto_server")
	}
	if at == "" {
		at = "moto_server"
	}
	path, err := exec.LookPath(at)
	if err == nil {
		return path
	}
	const remedy = "install it with: python3 -m venv moto && moto/bin/pip install 'moto[ec2,server]', and name the directory in " + motoVariable
	if os.Getenv("CI") == "true" {
		t.Fatalf("moto_server: %v; %s", err, remedy)
	}
	t.Skipf("moto_server: %v; %s", err, remedy)
	return ""
}

// moto starts an EC2 that nobody here wrote, and returns its address.
func moto(t *testing.T) string {
	t.Helper()
	program := motoProgram(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", fmt.Sprint(port))
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address := fmt.Sprintf("http://127.0.0.1:%d", port)
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		resp, err := http.Get(address + "/moto-api/data.json")
		if err == nil {
			resp.Body.Close()
			return address
		}
		if time.Now().After(end) {
			t.Fatalf("moto_server does not answer: %v", err)
		}
	}
}

// TestAnEC2ThatNobodyHereWrote launches, lists and terminates at moto's server.
func TestAnEC2ThatNobodyHereWrote(t *testing.T) {
	address := moto(t)
	c := open(t, Config{
		Mark: "test", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Regions: []Region{{Name: "us-east-1", Image: motoImage(t, address)}}, Endpoint: address, Now: moment,
		Types:    []string{"g4dn.xlarge", "p4d.24xlarge", "no.such"},
		OnDemand: Catalogue{{"us-east-1", "g4dn.xlarge"}: {Price: 526_000_000}, {"us-east-1", "p4d.24xlarge"}: {Price: 32_772_600_000}},
	})
	offers, err := c.Offers(t.Context())
	if err != nil || len(offers) == 0 {
		t.Fatalf("offers %+v, %v", offers, err)
	}
	models := map[string]string{}
	for _, o := range offers {
		models[o.Pool.InstanceType] = o.GPU.Model
	}
	t.Logf("%d offers of %v", len(offers), models)
	if models["g4dn.xlarge"] != "T4" || models["p4d.24xlarge"] != "A100" {
		t.Errorf("models %v, want a T4 in a g4dn and an A100 in a p4d", models)
	}
	for n, capacity := range []events.CapacityType{events.OnDemand, events.Spot} {
		pool := offers[0].Pool
		pool.InstanceType, pool.Capacity = "g4dn.xlarge", capacity
		spec := providertest.SampleSpec(events.Offer{Pool: pool, Price: 3 * events.DollarPerHour})
		atMoto(t, c, spec, fmt.Sprintf("01jmoto-1-%d", n))
	}
	if l := list(t, c); len(l.Instances) != 2 {
		t.Errorf("listed %+v, want two machines that ended", l.Instances)
	}
}

// atMoto is the life of one machine.
func atMoto(t *testing.T, c *Client, spec provider.LaunchSpec, token string) {
	t.Helper()
	i := buy(t, c, spec, token)
	if i.Pool != spec.Pool || i.Token != token || i.Started.IsZero() {
		t.Errorf("launched %+v, want %s in %s", i, token, spec.Pool)
	}
	// A repeat of the token is not tried: moto has no client tokens and sells another.
	l := await(t, c, "it running", func(l provider.Listing) bool { m, _ := l.Find(token); return m.State == provider.Running })
	if m, _ := l.Find(token); !l.Complete || m.ID != i.ID || m.Labels["job"] != spec.Labels["job"] {
		t.Errorf("listed %+v", m)
	}
	for range 2 {
		if err := c.Terminate(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
	}
	l = await(t, c, "it gone", func(l provider.Listing) bool { m, _ := l.Find(token); return m.State == provider.Gone })
	if m, _ := l.Find(token); m.EndedBy != "us" || m.Ended.Before(m.Started) {
		t.Errorf("ended by %q at %s, started %s", m.EndedBy, m.Ended, m.Started)
	}
	if err := c.Terminate(t.Context(), "i-0123456789abcdef0"); err != nil {
		t.Errorf("terminating what never was: %v", err)
	}
}

// motoImage is an image that moto has.
func motoImage(t *testing.T, address string) string {
	t.Helper()
	c := Config{Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""), Client: http.DefaultClient, Endpoint: address}
	out, err := c.compute("us-east-1").DescribeImages(t.Context(), &ec2.DescribeImagesInput{})
	if err != nil || len(out.Images) == 0 {
		t.Fatalf("no images: %v", err)
	}
	return *out.Images[0].ImageId
}
