package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Exit codes of every program, beside 0 for one that was asked to stop.
const (
	exitFailed = 1
	exitUsage  = 2
)

// ErrUsage is wrapped by errors about flags and their values.
var ErrUsage = errors.New("see --help")

// Main runs a program to its end and exits. SIGINT and SIGTERM end run's context;
// a second one ends the process at once.
func Main(run func(ctx context.Context, args []string, stdout io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(code(run(ctx, os.Args[1:], os.Stdout), os.Stderr))
}

func code(err error, stderr io.Writer) int {
	switch {
	case err == nil, errors.Is(err, pflag.ErrHelp):
		return 0
	case errors.Is(err, ErrUsage):
		fmt.Fprintln(stderr, err)
		return exitUsage
	}
	fmt.Fprintln(stderr, err)
	return exitFailed
}

// Version is what the program was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (version == "" || version == "(devel)") {
			version = s.Value[:min(len(s.Value), 12)]
		}
	}
	if version == "" || version == "(devel)" {
		return "devel"
	}
	return version
}

// NewLogger writes one JSON object a line to w.
func NewLogger(w io.Writer, program, level string) (*zap.Logger, error) {
	at, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %q: use debug, info, warn or error: %w", level, ErrUsage)
	}
	cfg := zap.NewProductionEncoderConfig()
	cfg.TimeKey, cfg.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.SecondsDurationEncoder
	core := zapcore.NewCore(zapcore.NewJSONEncoder(cfg), zapcore.Lock(zapcore.AddSync(w)), at)
	return zap.New(core, zap.WithCaller(false)).With(zap.String("program", program)), nil
}
