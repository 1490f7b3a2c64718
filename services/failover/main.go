// Failover carries jobs from machine to machine.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("failover") }
