// Bus carries what the programs tell each other and keeps it.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("bus") }
