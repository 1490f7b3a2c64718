// Agent supervises one trainer on the machine it runs on.
package main

import (
	"github.com/spotferry/spotferry/services/internal/machine"
	"github.com/spotferry/spotferry/services/internal/process"
)

func main() { process.Main(machine.RunAgent) }
