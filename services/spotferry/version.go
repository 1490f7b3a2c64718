package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says which program this is.
type build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

func (e *environment) build() build {
	return build{e.version, runtime.Version(), runtime.GOOS, runtime.GOARCH}
}

// buildVersion is the released version, or the commit that was built.
func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = "-" + s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-modified"
		}
	}
	return "devel" + commit + dirty
}

func versionCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Which spotferry this is", Args: args(0, 0),
		Example: "  spotferry version -o json",
		RunE: func(*cobra.Command, []string) error {
			b := e.build()
			return e.show(view{doc: b, names: []string{b.Version}, page: func(p *page) {
				p.line("spotferry %s (%s, %s/%s)", b.Version, b.Go, b.OS, b.Arch)
			}})
		},
	}
}
