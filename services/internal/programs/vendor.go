package programs

import (
	"context"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Seller is a program that sells what one vendor has, and the only one with its
// keys. It is not among All: whoever links it links the vendor's SDK.
type Seller struct {
	Name    string // "provider-aws"
	Purpose string // in one phrase, for its help
	// Flags adds the program's own flags and returns what opens the seller once
	// they have been read.
	Flags func(*process.Flags) func(Ground) (provider.Provider, error)
}

// Ground is what such a program finds when it opens its seller.
type Ground struct {
	Seller string               // its name in pools and on the bus
	Mark   string               // of the installation: what is marked otherwise is not ours
	Now    func() events.Moment // market time as the installation counts it
	Log    *zap.Logger
	Getenv func(string) string
}

// MainSeller is the whole of such a program's main.
func MainSeller(s Seller) {
	process.Main(func(ctx context.Context, args []string, stdout io.Writer) error {
		if len(args) == 2 && args[0] == "ready" {
			return process.Probe(ctx, args[1])
		}
		return s.run(ctx, args, stdout, surroundings())
	})
}

func (s Seller) run(ctx context.Context, args []string, stdout io.Writer, env environment) error {
	f := process.NewFlags(s.Name, s.Purpose, stdout)
	f.Connected()
	open := s.Flags(f)
	name := f.String("seller", s.Name[len("provider-"):], "its name in pools and on the bus")
	r, err := begin(f, args, env)
	if err != nil {
		return err
	}
	return r.serve(ctx, func(ctx context.Context) (part, error) {
		if err := r.join(ctx); err != nil {
			return nil, err
		}
		i := r.installation
		now := func() events.Moment { return i.Clock.Moment(time.Now()) }
		p, err := open(Ground{*name, i.Mark, now, r.log.Named("seller"), env.getenv})
		if err != nil {
			return nil, err
		}
		return &selling{r, *name, p}, nil
	})
}
