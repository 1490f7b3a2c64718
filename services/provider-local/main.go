// Provider-local sells processes of this machine as machines.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("provider-local") }
