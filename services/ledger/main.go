// Ledger accounts for what was spent.
package main

import "github.com/spotferry/spotferry/services/internal/programs"

func main() { programs.Main("ledger") }
