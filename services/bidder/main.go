// Bidder decides what to buy for jobs, and buys it.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("bidder") }
