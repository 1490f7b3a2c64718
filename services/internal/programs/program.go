package programs

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/storage"
)

// Program is one of the separate programs.
type Program struct {
	Name    string
	Purpose string // in one phrase, for its help
	// Run runs it until ctx ends, and returns nil then.
	Run func(ctx context.Context, args []string, stdout io.Writer) error
}

// All are the programs, in the order in which an installation needs them.
func All(stores ...storage.Scheme) []Program {
	all := []Program{{"bus", "carries what the programs tell each other and keeps it", bus}, {"provider-local", "sells processes of this machine as machines", providerLocal}}
	for _, s := range services() {
		s.stores = stores
		all = append(all, Program{s.name, s.purpose, s.run})
	}
	return all
}

// Named is the program of a name. It panics for another: its mains are its only callers.
// stores are those that it can open besides everybody's.
func Named(name string, stores ...storage.Scheme) Program {
	all := All(stores...)
	return all[slices.IndexFunc(all, func(p Program) bool { return p.Name == name })]
}

// Main is the whole of a program's main. With "ready" and the address of an admin port
// it only asks whether the program there is ready: for images without a shell.
func Main(name string, stores ...storage.Scheme) {
	process.Main(func(ctx context.Context, args []string, stdout io.Writer) error {
		if len(args) == 2 && args[0] == "ready" {
			return process.Probe(ctx, args[1])
		}
		return Named(name, stores...).Run(ctx, args, stdout)
	})
}

// environment is what a program finds around it.
type environment struct {
	getenv func(string) string
	stderr io.Writer
}

func surroundings() environment { return environment{os.Getenv, os.Stderr} }
