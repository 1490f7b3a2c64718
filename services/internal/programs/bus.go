package programs

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/process"
)

// bus is a NATS server of this installation. A stock nats-server does as well.
func bus(ctx context.Context, args []string, stdout io.Writer) error {
	f := process.NewFlags("bus", Named("bus").Purpose, stdout)
	listen := f.String("listen", "127.0.0.1:0", "host:port of the bus; port 0: the one it had last time, if that is free")
	dirname := f.String("dir", "", "directory of its streams; \"\": the installation's")
	trust := f.String("trust", "", "file that says whom to believe; \"\": the installation's")
	r, err := begin(f, args, surroundings())
	if err != nil {
		return err
	}
	host, port, err := address(*listen)
	if err != nil {
		return err
	}
	if *dirname == "" {
		*dirname = r.installation.Path(installation.BusDir)
	}
	if *trust == "" {
		*trust = r.installation.TrustFile()
	}
	return r.serve(ctx, func(context.Context) (part, error) {
		t, err := natsbus.ReadTrust(*trust)
		if err != nil {
			return nil, err
		}
		s, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: *dirname, Listen: true, Host: host, Port: port, Trust: &t, Log: r.log.Named("server")})
		if err != nil {
			return nil, err
		}
		r.log.Info("bus listening", zap.String("url", s.URL()), zap.String("dir", *dirname))
		return embedded{s}, nil
	})
}

func address(listen string) (string, int, error) {
	host, text, err := net.SplitHostPort(listen)
	if err == nil {
		var port int
		if port, err = strconv.Atoi(text); err == nil && port >= 0 && port < 1<<16 {
			return host, port, nil
		}
	}
	return "", 0, fmt.Errorf("--listen %q: give host:port: %w", listen, process.ErrUsage)
}

// embedded runs a server that has started.
type embedded struct{ *natsbus.Embedded }

// Run returns when ctx has ended and everything acknowledged is on the disk.
func (e embedded) Run(ctx context.Context) error {
	e.Heal(ctx)
	e.Shutdown()
	return nil
}

// Checks are what has to hold for the bus to do its work.
func (e embedded) Checks() []process.Check {
	return []process.Check{
		{Name: "disk", Test: func(context.Context) error { return e.Room() }},
		{Name: "listener", Test: func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", e.Addr())
			if err != nil {
				return err
			}
			return c.Close()
		}},
	}
}
