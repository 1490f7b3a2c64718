package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"
)

// gateway is a real S3 server of this machine, for as long as a benchmark runs.
type gateway struct {
	url string
	cmd *exec.Cmd
}

const s3Key, s3Secret = "benchmark", "benchmark-secret"

// startGateway starts versitygw over a directory, or returns nil when it is not here.
func startGateway(ctx context.Context, dir string) (*gateway, error) {
	program, err := exec.LookPath("versitygw")
	if err != nil {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	g := &gateway{url: "http://" + port}
	g.cmd = exec.CommandContext(ctx, program, "--access", s3Key, "--secret", s3Secret, "--port", port, "--quiet", "posix", dir)
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	for range 100 {
		c, err := net.Dial("tcp", port)
		if err == nil {
			return g, c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	g.stop()
	return nil, errors.New("versitygw does not answer")
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

func (g *gateway) stop() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill() // waited for next
	_ = g.cmd.Wait()
}

func (g *gateway) env() []string {
	if g == nil {
		return nil
	}
	return []string{"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_REGION=us-east-1", "SPOTFERRY_BENCH_S3=" + g.url}
}

func (g *gateway) rclone() []string {
	return []string{"AWS_CA_BUNDLE=", "RCLONE_CONFIG_BENCH_TYPE=s3", "RCLONE_CONFIG_BENCH_PROVIDER=Other", "RCLONE_CONFIG_BENCH_ENDPOINT=" + g.url,
		"RCLONE_CONFIG_BENCH_ACCESS_KEY_ID=" + s3Key, "RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY=" + s3Secret,
		fmt.Sprintf("RCLONE_CONFIG_BENCH_FORCE_PATH_STYLE=%t", true)}
}
